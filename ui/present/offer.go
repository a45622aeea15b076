package present

import (
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// Lasting says, escaped, what allowing the very call of a request covers, where that
// outlives the session.
func Lasting(a *protocol.Approval, s approval.Scope) []string {
	if s != approval.Agent && s != approval.Global {
		return nil
	}
	return []string{fmt.Sprintf("allows %s %s from now on, without asking, %s",
		approval.EscapeLine(string(a.Tool)), Brief(Payload(a.Payload)), whoever(a, s))}
}

// LastingPattern says, escaped, what a pattern covers that is remembered.
func LastingPattern(a *protocol.Approval, o approval.Offer, s approval.Scope, denied bool) string {
	effect := "allows"
	if denied {
		effect = "denies"
	}
	return fmt.Sprintf("%s %s from now on, without asking, %s", effect, approval.EscapeLine(o.Text), whoever(a, s))
}

// whoever says for whom an answer of that scope counts.
func whoever(a *protocol.Approval, s approval.Scope) string {
	switch s {
	case approval.Agent:
		return "whenever agent " + approval.EscapeLine(a.Agent) + " asks"
	case approval.Global:
		return "whoever asks"
	}
	return "in this session"
}

// Outcome says, escaped, what became of a request, and by whom; nil is an end without
// a decision.
func Outcome(a *protocol.Approval, d *approval.Decision) string {
	what := approval.EscapeLine(string(a.Tool) + ": " + a.Description)
	if d == nil {
		return "no longer waiting: " + what
	}
	text := string(d.Action)
	if d.Action == approval.Approved {
		text += " (" + string(d.Scope) + ")"
	}
	if d.Approver != "" {
		text += " by " + d.Approver
	} else {
		text += ", " + d.Reason
	}
	return approval.EscapeLine(text) + ": " + what
}

// OfferNotes are what somebody should know before they have a pattern remembered,
// escaped: what it leaves out of the call at hand, and what else it would have
// matched. A denied part denies the whole of a call: there is no rest then to speak of.
func OfferNotes(o approval.Offer, denied bool) (notes []string) {
	if !o.Whole && !denied {
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
