package sandboxprofile

import (
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync/atomic"
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
	if !wellFormed(pattern) {
		return true
	}
	matches := path.Match
	if !strings.ContainsAny(pattern, wildcards) {
		matches = same
	}
	for end := range ends(p) {
		if matchesEnd(pattern, p[:end], matches) {
			return true
		}
	}
	return false
}

// PatternOf is the pattern that covers the absolute path p, and what has the whole of p at
// its end: a pattern begins at no root.
func PatternOf(p string) string {
	return escaped.Replace(strings.TrimPrefix(p, "/"))
}

var escaped = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// wildcards are the characters that are not themselves in a pattern of path.Match.
const wildcards = `*?[\`

func same(a, b string) (bool, error) { return a == b, nil }

// ends gives the length of p and of every directory above it but the root.
func ends(p string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 1; i <= len(p); i++ {
			if (i == len(p) || p[i] == '/') && p[i-1] != '/' && !yield(i) {
				return
			}
		}
	}
}

// matchesEnd reports whether the last components of p match those of pattern. It
// allocates nothing: profiles ask for many paths and many patterns.
func matchesEnd(pattern, p string, matches func(pattern, name string) (bool, error)) bool {
	for {
		rest, want, more := cutLast(pattern)
		above, have, _ := cutLast(p)
		if ok, err := matches(want, have); have == "" || err != nil || !ok {
			return false
		}
		if !more {
			return true
		}
		pattern, p = rest, above
	}
}

// cutLast cuts the last component off.
func cutLast(p string) (above, last string, more bool) {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i], p[i+1:], true
	}
	return "", p, false
}

// endsWith reports whether the last components of have match want.
func endsWith(have, want []string) bool {
	if len(want) > len(have) {
		return false
	}
	for i, w := range want {
		if ok, err := path.Match(w, have[len(have)-len(want)+i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// A Matcher holds a list of patterns for many questions. Walking a tree asks
// for every file in it, so most of the answer is one map lookup. It is safe for
// concurrent use.
type Matcher struct {
	everything bool                  // a pattern is malformed
	literal    map[string][][]string // by last component, if that has no wildcard
	wild       []wildPattern
}

// A wildPattern is one whose last component has a wildcard. A name that does not begin and end as
// it says is not matched by that: for most names of a tree this is all that is asked.
type wildPattern struct {
	parts       []string
	begins, end string
}

func newWild(parts []string) wildPattern {
	last := parts[len(parts)-1]
	w := wildPattern{parts: parts, begins: last[:strings.IndexAny(last, wildcards)]}
	if !strings.ContainsAny(last, `?[\`) { // else what stands after the last star may not be itself
		w.end = last[strings.LastIndexByte(last, '*')+1:]
	}
	return w
}

func (w wildPattern) mayEnd(name string) bool {
	if !strings.HasPrefix(name, w.begins) || !strings.HasSuffix(name, w.end) {
		return false
	}
	ok, err := path.Match(w.parts[len(w.parts)-1], name)
	return ok || err != nil
}

// recentMatchers are those that were made last, with their patterns. The profiles of one program
// differ in their paths, and ask for few lists of patterns, again and again.
var (
	recentMatchers [8]atomic.Pointer[preparedPatterns]
	madeMatchers   atomic.Uint32
)

type preparedPatterns struct {
	patterns []string
	matcher  *Matcher
}

// NewMatcher prepares a list of patterns.
func NewMatcher(patterns []string) *Matcher {
	for i := range recentMatchers {
		if p := recentMatchers[i].Load(); p != nil && slices.Equal(p.patterns, patterns) {
			return p.matcher
		}
	}
	p := &preparedPatterns{slices.Clone(patterns), newMatcher(patterns)}
	recentMatchers[madeMatchers.Add(1)%uint32(len(recentMatchers))].Store(p)
	return p.matcher
}

func newMatcher(patterns []string) *Matcher {
	m := &Matcher{literal: make(map[string][][]string, len(patterns))}
	for _, pattern := range patterns {
		parts := strings.Split(pattern, "/")
		last := parts[len(parts)-1]
		switch {
		case !wellFormed(pattern):
			m.everything = true
		case strings.ContainsAny(last, wildcards):
			m.wild = append(m.wild, newWild(parts))
		default:
			m.literal[last] = append(m.literal[last], parts)
		}
	}
	return m
}

// Match reports whether a pattern covers the absolute, clean path p.
func (m *Matcher) Match(p string) bool {
	if m.everything {
		return true
	}
	for end := range ends(p) {
		if m.MatchLast(p[:end]) {
			return true
		}
	}
	return false
}

// MatchLast reports whether a pattern matches p itself. On the way down a tree,
// when everything above p was asked for already, that is the same as Match.
func (m *Matcher) MatchLast(p string) bool {
	name := p[strings.LastIndexByte(p, '/')+1:]
	if m.everything || slices.ContainsFunc(m.literal[name], func(want []string) bool { return endsWith(components(p), want) }) {
		return true
	}
	return slices.ContainsFunc(m.wild, func(w wildPattern) bool { return w.mayEnd(name) && endsWith(components(p), w.parts) })
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
	for c := range strings.SplitSeq(pattern, "/") {
		if err := parseComponent(c); err != nil {
			return fmt.Errorf("sandboxprofile: pattern %q: %w", pattern, err)
		}
	}
	return nil
}

func wellFormed(pattern string) bool { return ParsePattern(pattern) == nil }

func parseComponent(c string) error {
	switch {
	case c == "":
		return errors.New("empty component: write the pattern without a slash at the start or end; it matches at any depth")
	case c == ".", c == "..":
		return fmt.Errorf("component %q never matches a clean path", c)
	case c == "**":
		return errors.New("component \"**\" is not supported: a pattern already matches at any depth")
	case strings.ContainsRune(c, 0):
		return errors.New("a path cannot contain a NUL byte")
	}
	if !strings.ContainsAny(c, `[\`) { // stars and question marks are right wherever they stand
		return nil
	}
	_, err := path.Match(c, "")
	return err
}
