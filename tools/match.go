package tools

import (
	"path"
	"strings"
)

// matchPattern reports whether pattern, one or more components with path.Match
// wildcards, matches anywhere in p on component boundaries.
func matchPattern(pattern, p string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(strings.Trim(p, "/"), "/")
	for i := 0; i+len(want) <= len(have); i++ {
		if ok, _ := path.Match(pattern, strings.Join(have[i:i+len(want)], "/")); ok {
			return true
		}
	}
	return false
}
