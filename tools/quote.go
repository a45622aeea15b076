package tools

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
)

// QuoteCommand writes argv as a POSIX shell would have to be given it. Where argv is known, programs
// are started from argv itself, and this is for people to read.
func QuoteCommand(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	words := []string{quoteWord(argv[0], "_@%+:,./-")} // with a bare "=" it would be an assignment
	for _, arg := range argv[1:] {
		words = append(words, QuoteWord(arg))
	}
	return strings.Join(words, " ")
}

// QuoteWord writes one argument as a POSIX shell would have to be given it.
func QuoteWord(word string) string { return quoteWord(word, "_@%+:,./-=") }

// quoteWord leaves a word bare if it has only letters, digits and plain characters.
func quoteWord(word, plain string) string {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(plain, r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Shorten is a text from outside for a description on one line; the presentation of a request has
// it whole.
func Shorten(s string) string { return approval.Brief(s, 80, approval.EscapeLine) }

var bashOptions = []string{"bash", "--norc", "--noprofile", "-c", "--"}

// BashReads are the arguments of a bash that reads one command line.
func BashReads(line string) []string { return append(slices.Clone(bashOptions), line) }

// CommandOf is a program and its arguments as people know them: the command line, if a bash reads one.
func CommandOf(argv []string) string {
	if n := len(bashOptions); len(argv) == n+1 && slices.Equal(argv[:n], bashOptions) {
		return argv[n]
	}
	return QuoteCommand(argv)
}
