package present

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// Outcome says, escaped, what became of a request, and by whom; nil is an end without
// a decision.
func Outcome(a *protocol.Approval, d *approval.Decision) string {
	return Ended(a, d) + " " + line(string(a.Tool)+": "+a.Description)
}

// Ended says, escaped, how a request ended, by whose hand, and whether anything ran, or was
// kept: what is on a draft has run.
func Ended(a *protocol.Approval, d *approval.Decision) string {
	if d == nil {
		return "No longer waiting."
	}
	nothing, left := "Nothing ran.", ""
	if a.Tool == "review" && a.Connector == "" {
		nothing, left = "Nothing was kept.", " `sandgate review` has the draft."
	}
	by := ""
	if d.Approver != "" {
		by = " by " + line(d.Approver)
	}
	switch {
	case d.Action.State() == approval.StateApproved:
		return fmt.Sprintf("Allowed (%s)%s.", d.Scope, by)
	case d.Action == approval.TimedOut:
		return "Nobody answered in time. " + nothing + left
	case d.Action == approval.Dismissed && d.Approver == "":
		return "Withdrawn: " + line(d.Reason) + ". " + nothing + left
	}
	return "Denied" + by + ". " + nothing
}

// Withdrawn reports whether a request ended without anybody's answer, at the will of the
// agent.
func Withdrawn(d *approval.Decision) bool {
	return d == nil || d.Action == approval.Dismissed && d.Approver == ""
}

// OfferNotes are what somebody should know before they have a pattern remembered,
// escaped: what it leaves out of the call at hand, and what else it would have
// matched. A denied part denies the whole of a call: there is no rest then to speak of.
func OfferNotes(a *protocol.Approval, o approval.Offer, denied bool) (notes []string) {
	if text := Unshown(a); text != "" && !denied {
		notes = append(notes, "No screen shows "+text+".")
	}
	if !o.Whole && !denied {
		notes = append(notes, "That is not all of this call: the rest is allowed once, and asked about again.")
	}
	if o.Kind == "" && (denied || a.Once == "") {
		notes = append(notes, exactly(a))
	}
	if o.Kind == "" {
		return notes
	}
	if len(o.Matched) == 0 {
		return append(notes, "Of this session's other calls it would have covered none.")
	}
	matched := make([]string, len(o.Matched))
	for i, call := range o.Matched {
		matched[i] = Brief(line(call))
	}
	text := "It would have covered, of this session: " + strings.Join(matched, "; ")
	if o.Unshown > 0 {
		text += fmt.Sprintf("; and %d more", o.Unshown)
	}
	return append(notes, text)
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// exactly says what a remembered answer to this very call covers. It speaks of the content
// of those files alone that the answer is bound to.
func exactly(a *protocol.Approval) string {
	if covers := a.Details["remembered"]; covers != "" {
		return upper(Brief(line(covers))) + "."
	}
	const others = "It covers nothing else: another argument or directory is asked about again"
	files, _ := a.Payload["files"].(map[string]any)
	if len(files) == 0 {
		return others + ". It is not bound to what is in any file: one that the call reads or starts may be another by then."
	}
	names := make([]string, 0, len(files))
	for _, path := range slices.Sorted(maps.Keys(files)) {
		names = append(names, Name(path))
	}
	return others + ", and so is another content of " + Brief(strings.Join(names, ", ")) + ". What else the call reads or starts may be another by then."
}

// maxBrief is how many characters of a text Brief leaves.
const maxBrief = 160

// Brief cuts a text for a question, and counts what it leaves out.
func Brief(text string) string {
	r := []rune(text)
	if len(r) <= maxBrief {
		return text
	}
	// Once more: a letter that is drawn from right to left is the last one now.
	return approval.EscapeLine(fmt.Sprintf("%s ... (%d more characters)", string(r[:maxBrief]), len(r)-maxBrief))
}
