// Package units reads and prints sizes and durations as configuration files write them.
package units

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Size is a number of bytes.
type Size int64

const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

// A sizeUnit is one suffix. For printing, the first that divides a size wins.
type sizeUnit struct {
	suffix string
	bytes  Size
}

// A single letter means the binary unit, as for systemd(1) and ulimit-like
// tools; "kB" and the like are the decimal units of the SI.
func sizeUnits() []sizeUnit {
	return []sizeUnit{
		{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
		{"B", 1}, {"", 1},
		{"T", TiB}, {"G", GiB}, {"M", MiB}, {"K", KiB},
		{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3},
	}
}

// String prints s in the largest unit that holds it exactly: "4GiB".
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.suffix
		}
	}
	return "0B"
}

// Compiled when it is first used: every command has this package, and few read a size.
var sizePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`) })

// shown is as much of a value as a message repeats.
func shown(s string) string {
	if len(s) <= 80 {
		return strconv.QuoteToASCII(s)
	}
	return strconv.QuoteToASCII(strings.ToValidUTF8(s[:80], "")) + "..."
}

// ParseSize reads a whole number of bytes, with a unit: "4GiB", "512M", "1000".
func ParseSize(s string) (Size, error) {
	m := sizePattern().FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%s is not a size; write a whole number and a unit, such as 512MiB", shown(s))
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is too large", shown(s))
	}
	for _, u := range sizeUnits() {
		if u.suffix != m[2] {
			continue
		}
		if n > math.MaxInt64/int64(u.bytes) {
			return 0, fmt.Errorf("%s is too large", shown(s))
		}
		return Size(n) * u.bytes, nil
	}
	return 0, fmt.Errorf("%s has the unknown unit %s; the units are B, KiB, MiB, GiB and TiB", shown(s), shown(m[2]))
}

// ParseDuration reads a time with a unit, as time.ParseDuration does: "90s", "2m".
func ParseDuration(s string) (time.Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("%s has no unit; write %ss for seconds", shown(s), s)
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New(shown(s) + " is not a duration; write a number and a unit, such as 90s, 2m or 1h30m")
	}
	return d, nil
}

// FormatDuration prints d without the zero parts of Duration.String: "2m", not "2m0s".
func FormatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return d.String()
}
