package sandboxprofile

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// maxAlternatives bounds what the braces of one glob stand for.
const maxAlternatives = 256

// A Glob matches paths by their names: components separated by slashes with the
// wildcards of path.Match, "**" for any number of components, and "{a,b}" for
// alternatives. Matching takes time in proportion to the lengths of glob and
// path multiplied, whatever they are.
type Glob struct {
	alternatives [][]string
}

// ParseGlob reads a glob of relative paths.
func ParseGlob(text string) (Glob, error) {
	switch {
	case text == "":
		return Glob{}, errors.New("is empty")
	case strings.HasPrefix(text, "/"):
		return Glob{}, errors.New("is absolute; patterns are relative to the searched directory")
	}
	expanded, err := expandBraces(text)
	if err != nil {
		return Glob{}, err
	}
	var g Glob
	for _, alternative := range expanded {
		parts := strings.Split(strings.TrimPrefix(alternative, "./"), "/")
		for i, part := range parts {
			if part == ".." {
				return Glob{}, errors.New(`contains ".."; patterns stay below the searched directory`)
			}
			parts[i] = classes(part)
			if _, err := path.Match(parts[i], ""); err != nil {
				return Glob{}, fmt.Errorf("has a malformed component %q: write \\ before a literal wildcard", part)
			}
		}
		g.alternatives = append(g.alternatives, parts)
	}
	return g, nil
}

// Match reports whether the glob matches a relative path.
func (g Glob) Match(rel string) bool {
	parts := strings.Split(rel, "/")
	for _, alternative := range g.alternatives {
		if MatchComponents(alternative, parts) {
			return true
		}
	}
	return false
}

// Enters reports whether something below the relative directory may match.
func (g Glob) Enters(rel string) bool {
	parts := strings.Split(rel, "/")
	for _, alternative := range g.alternatives {
		if enters(alternative, parts) {
			return true
		}
	}
	return false
}

func enters(glob, parts []string) bool {
	for i, part := range parts {
		switch {
		case i >= len(glob):
			return false
		case glob[i] == "**":
			return true
		}
		if ok, err := path.Match(glob[i], part); err != nil || !ok {
			return false
		}
	}
	return len(glob) > len(parts)
}

// MatchComponents holds the components of a path against those of a glob. "**"
// stands for any number of them, and at the end for at least one.
func MatchComponents(glob, parts []string) bool {
	g, p := 0, 0
	star, from := -1, 0 // the last "**", and where what it stands for ends
	for p < len(parts) {
		switch {
		case g < len(glob) && glob[g] == "**":
			star, from = g, p
			g++
			if g == len(glob) {
				return true // and p < len(parts): at least one
			}
			continue
		case g < len(glob) && matchComponent(glob[g], parts[p]):
			g, p = g+1, p+1
			continue
		case star < 0:
			return false
		}
		from++
		g, p = star+1, from
	}
	return g == len(glob)
}

func matchComponent(glob, part string) bool {
	ok, err := path.Match(glob, part)
	return err == nil && ok
}

// classes spells the negated classes of the shell, [!a], as path.Match does.
func classes(part string) string {
	return strings.ReplaceAll(part, "[!", "[^")
}

// expandBraces gives every text that the braces in text stand for.
func expandBraces(text string) ([]string, error) {
	open, end, commas := findBraces(text)
	switch {
	case open < 0:
		return []string{text}, nil
	case end < 0:
		return nil, errors.New(`has a "{" without its "}"`)
	}
	var all []string
	from := open + 1
	for _, to := range append(commas, end) {
		rest, err := expandBraces(text[:open] + text[from:to] + text[end+1:])
		if err != nil {
			return nil, err
		}
		if all = append(all, rest...); len(all) > maxAlternatives {
			return nil, fmt.Errorf("stands for more than %d alternatives", maxAlternatives)
		}
		from = to + 1
	}
	return all, nil
}

// findBraces finds the first pair of braces and the commas between them, or -1.
func findBraces(text string) (open, end int, commas []int) {
	open, depth, class := -1, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '{':
			if depth++; depth == 1 {
				open = i
			}
		case c == ',' && depth == 1:
			commas = append(commas, i)
		case c == '}' && depth > 0:
			if depth--; depth == 0 {
				return open, i, commas
			}
		}
	}
	return open, -1, nil
}
