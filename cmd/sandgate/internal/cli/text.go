package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
)

// PrintJSON prints v indented: it is for people too.
func PrintJSON(w io.Writer, v any) error {
	enc := Encoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func Paren(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// Join joins the parts that are not empty.
func Join(sep string, parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, sep)
}

// ParseMoment reads a duration before now, a date in local time, or an RFC 3339
// time. The empty string is the zero time.
func ParseMoment(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is not a time: want 90m, 2006-01-02 or 2006-01-02T15:04:05Z", s)
	}
	return t, nil
}

func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// CountOf is a number and what it counts.
func CountOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// FirstFew joins the first few.
func FirstFew(list []string) string {
	const most = 4
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// EscapeName quotes a text from outside that our own words follow; "" stays "".
func EscapeName(text string) string {
	if text == "" {
		return ""
	}
	return approval.EscapeName(text)
}
