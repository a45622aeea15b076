package present

import (
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/approval"
)

// OfferNotes are what somebody should know before they have a pattern remembered,
// escaped: what it leaves out of the call at hand, and what else it would have
// matched.
func OfferNotes(o approval.Offer) (notes []string) {
	if !o.Whole {
		notes = append(notes, "that is not all of this call: the rest is allowed once, and asked about again")
	}
	if len(o.Matched) == 0 {
		return append(notes, "of this session's other calls it would have matched none")
	}
	matched := make([]string, len(o.Matched))
	for i, call := range o.Matched {
		matched[i] = Brief(approval.EscapeLine(call))
	}
	text := "it would have matched, of this session: " + strings.Join(matched, "; ")
	if o.Unshown > 0 {
		text += fmt.Sprintf("; and %d more", o.Unshown)
	}
	return append(notes, text)
}

// maxBrief is how many characters of a text Brief leaves.
const maxBrief = 160

// Brief cuts a text for a question, and counts what it leaves out.
func Brief(text string) string {
	r := []rune(text)
	if len(r) <= maxBrief {
		return text
	}
	return fmt.Sprintf("%s ... (%d more characters)", string(r[:maxBrief]), len(r)-maxBrief)
}
