package tools

// Nearest gives the word of words that is closest to word, or "" if none is
// close enough to have been meant: at most a third of its letters differ.
func Nearest(word string, words []string) string {
	best, bestDistance := "", 0
	for _, w := range words {
		d := editDistance(word, w)
		if d <= max(len(w)/3, 1) && (best == "" || d < bestDistance) {
			best, bestDistance = w, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions, substitutions and swaps of
// neighbours that turn a into b (optimal string alignment). Long words are cut:
// they come from an agent, and the cost is quadratic.
func editDistance(a, b string) int {
	const limit = 64
	a, b = a[:min(len(a), limit)], b[:min(len(b), limit)]
	var before, previous []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, previous, row = previous, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			substitution := previous[j-1]
			if a[i-1] != b[j-1] {
				substitution++
			}
			row[j] = min(previous[j]+1, row[j-1]+1, substitution)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
