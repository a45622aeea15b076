package config

import (
	"fmt"
	"strings"
)

// suggest returns the candidate that word is most likely a misspelling of, or
// "". Case, hyphens and underscores count only between equals.
func suggest(word string, candidates []string) string {
	best, bestDistance, bestExact := "", 1<<30, 0
	for _, c := range candidates {
		d, exact := editDistance(squash(word), squash(c)), editDistance(word, c)
		if d > 1+len(c)/4 || d >= len(c) {
			continue
		}
		if d < bestDistance || d == bestDistance && exact < bestExact {
			best, bestDistance, bestExact = c, d, exact
		}
	}
	return best
}

func squash(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours (optimal string alignment). Words longer than maxShown are far
// from everything: a key of a megabyte must not cost a table of one.
func editDistance(a, b string) int {
	if len(a) > maxShown || len(b) > maxShown {
		return 1 << 20
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// didYouMean returns the hint for a word that is not among candidates.
func didYouMean(word string, candidates []string) string {
	if s := suggest(word, candidates); s != "" {
		return "did you mean " + quote(s) + "?"
	}
	const most = 24
	if more := len(candidates) - most; more > 0 {
		return fmt.Sprintf("use one of %s and %d more", strings.Join(candidates[:most], ", "), more)
	}
	return "use one of " + strings.Join(candidates, ", ")
}
