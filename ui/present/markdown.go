package present

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Markdown is Text for a chat or a page that renders Markdown: one code block,
// whose fence is longer than any that the text contains, so that nothing in it can
// end the block and go on as words of ours.
func Markdown(a *protocol.Approval, now time.Time, full bool) string {
	return fenced(Text(a, now, full))
}

func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("%stext\n%s%s\n", fence, text, fence)
}

// How large a Block is at most.
const (
	blockWidth = 76
	blockLines = 60
)

// Block is Essence for a form that another program draws, as Markdown or as it is: in one
// code block, with lines that need not be broken again. What is said about the request stands
// above it, in the block too: it can have names and words in it that are an agent's.
func Block(a *protocol.Approval, said string) string {
	lines := blockOf(a)
	if said != "" {
		lines = slices.Concat(Fit(said, blockWidth), []string{""}, lines)
	}
	return fenced(strings.Join(lines, "\n") + "\n")
}

func blockOf(a *protocol.Approval) []string { return Fit(Essence(a), blockWidth) }

// NotWhole says why a Block is not all that a person has to see of a request before they
// allow it, escaped; "" if it is.
func NotWhole(a *protocol.Approval) string {
	switch {
	case Unshown(a) != "":
		return "no screen can show " + Unshown(a)
	case IsCut(a) || len(blockOf(a)) > blockLines:
		return "it is too long"
	}
	return ""
}
