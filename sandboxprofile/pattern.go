package sandboxprofile

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// A pattern is one or more components separated by slashes, each with the
// wildcards of path.Match. It matches at any depth, on whole components, and
// covers everything below what it matches: ".git/hooks" matches
// /a/.git/hooks/pre-commit and does not match /a/x.git/hooks. A wildcard never
// crosses a slash. Matching is by bytes: on a file system that ignores case,
// a pattern covers the spelling it was written in.

// MatchPattern reports whether pattern covers the absolute, clean path p.
// A malformed pattern covers everything: patterns only take rights away, so a
// mistake in one must not give any.
func MatchPattern(pattern, p string) bool {
	want := strings.Split(pattern, "/")
	have := components(p)
	for i := 0; i+len(want) <= len(have); i++ {
		if matchWindow(want, have[i:]) {
			return true
		}
	}
	return ParsePattern(pattern) != nil
}

// MatchLength is the number of components of pattern if pattern matches p
// itself, not only something above p, and zero otherwise. The components that
// end a path are what a rename of a parent could take out of the pattern's
// reach, so they are what a sandbox has to pin.
func MatchLength(pattern, p string) int {
	want := strings.Split(pattern, "/")
	have := components(p)
	if len(want) > len(have) || !matchWindow(want, have[len(have)-len(want):]) {
		return 0
	}
	return len(want)
}

func matchWindow(want, have []string) bool {
	for i, w := range want {
		if ok, err := path.Match(w, have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

func components(p string) []string {
	p = strings.Trim(p, "/")
	if p == "" {
		return nil
	}
	return strings.Split(p, "/")
}

// ParsePattern says what is wrong with a pattern.
func ParsePattern(pattern string) error {
	if pattern == "" {
		return errors.New("sandboxprofile: pattern is empty")
	}
	for _, c := range strings.Split(pattern, "/") {
		if err := parseComponent(c); err != nil {
			return fmt.Errorf("sandboxprofile: pattern %q: %w", pattern, err)
		}
	}
	return nil
}

func parseComponent(c string) error {
	switch {
	case c == "":
		return errors.New("empty component: a pattern neither starts nor ends with a slash, it matches at any depth by itself")
	case c == ".", c == "..":
		return fmt.Errorf("component %q never matches a clean path", c)
	case c == "**":
		return errors.New("component \"**\" is not supported: a pattern matches at any depth by itself")
	case strings.ContainsRune(c, 0):
		return errors.New("a path cannot contain a NUL byte")
	}
	_, err := path.Match(c, "")
	return err
}

func matchAny(patterns []string, p string) bool {
	for _, pat := range patterns {
		if MatchPattern(pat, p) {
			return true
		}
	}
	return false
}
