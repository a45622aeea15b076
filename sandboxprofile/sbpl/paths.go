package sbpl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Resolve gives the clean path name as the kernel and so Seatbelt names it: /etc,
// /tmp and /var are links to directories in /private on every macOS. Other links
// are resolved before a profile is made.
func Resolve(name string) string {
	for _, link := range []string{"/etc", "/tmp", "/var"} {
		if sp.Contains(link, name) {
			return "/private" + name
		}
	}
	return name
}

// writable reports why a path cannot be written in a profile.
func writable(name string) error {
	switch {
	case !utf8.ValidString(name):
		return errors.New("is not UTF-8, so a Seatbelt profile cannot contain it")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("has a control character, so a Seatbelt profile cannot contain it")
	}
	return nil
}

// quote writes a string that writable lets pass.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func subpath(name string) string { return fmt.Sprintf("(subpath %s)", quote(name)) }

func literal(name string) string { return fmt.Sprintf("(literal %s)", quote(name)) }

// foldedTree matches name and what lies below it in every spelling that a file
// system that ignores case may take for it.
func foldedTree(name string) string {
	return fmt.Sprintf(`(regex #"^%s(/.*)?$")`, foldPath(name))
}

// foldedPath matches every spelling of name.
func foldedPath(name string) string { return fmt.Sprintf(`(regex #"^%s$")`, foldPath(name)) }

// foldPath is the expression for a path. What cannot be written in an
// expression, or has several forms on the disk, stands for anything in its
// component: these expressions only ever deny.
func foldPath(name string) string {
	if name == "/" {
		return ""
	}
	var b strings.Builder
	for _, r := range name {
		s, ok := foldRune(r)
		switch {
		case ok:
			b.WriteString(s)
		case !strings.HasSuffix(b.String(), anything):
			b.WriteString(anything)
		}
	}
	return b.String()
}

// sortedPaths gives the keys, parents first.
func sortedPaths[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), sp.ComparePaths)
}
