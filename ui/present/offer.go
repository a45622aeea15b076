package present

import (
	"maps"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// Outcome says what became of a request, and by whom; nil is an end without a decision.
func Outcome(a *protocol.Approval, d *approval.Decision) Sentence {
	how := Ended(a, d)
	if Withdrawn(d) && d != nil { // why ends its sentence
		how = withdrawn(a)
	}
	return Say("%s %s", how, Title(a))
}

// Ended says how a request ended, by whose hand, and whether anything ran, or was kept: what is on
// a draft has run.
func Ended(a *protocol.Approval, d *approval.Decision) Sentence {
	if d == nil {
		return "No longer pending."
	}
	nothing, left := nothingCame(a)
	by := Sentence("")
	if d.Approver != "" {
		by = Say(" by %s", Approver(d.Approver))
	}
	switch {
	case d.Action.State() == approval.StateApproved:
		return Say("Allowed (%s)%s.", d.Scope, by)
	case d.Action == approval.TimedOut:
		return "No one answered in time. " + nothing + left
	case d.Action == approval.Dismissed && d.Approver == "":
		return Say("%s Why: %s", withdrawn(a), End(d.Reason))
	}
	return Say("Denied%s. %s", by, nothing)
}

func withdrawn(a *protocol.Approval) Sentence {
	nothing, left := nothingCame(a)
	return "Withdrawn. " + nothing + left
}

// nothingCame says what did not become of a request, and what is there.
func nothingCame(a *protocol.Approval) (nothing, left Sentence) {
	if a.Tool == "review" && a.Connector == "" {
		return "Nothing was kept.", " The draft is in `sandgate review`."
	}
	return "Nothing ran.", ""
}

// Withdrawn reports whether a request ended without anybody's answer, at the will of the
// agent.
func Withdrawn(d *approval.Decision) bool {
	return d == nil || d.Action == approval.Dismissed && d.Approver == ""
}

// A Note is what somebody should know before an answer is remembered. Careful: it speaks against
// allowing.
type Note struct {
	Text    Sentence `json:"text"`
	Careful bool     `json:"careful,omitempty"`
}

// Words are a note where there is no colour.
func (n Note) Words() Sentence {
	if n.Careful {
		return "! " + n.Text
	}
	return n.Text
}

// OfferNotes are what somebody should know before they have a pattern remembered: what it leaves
// out of the call at hand, what it is not bound to, and what else it would have matched. A denied
// part denies the whole of a call: there is no rest then to speak of.
func OfferNotes(a *protocol.Approval, o approval.Offer, denied bool) (notes []Note) {
	notes = []Note{} // the page is told of none, and not of nothing
	if text := Unshown(a); text != "" && !denied {
		notes = append(notes, Note{Say("No screen can show %s", WholeEnd(text)), true})
	}
	if !o.Whole && !denied {
		notes = append(notes, Note{"This covers only part of the call: the rest is allowed once and asks again.", false})
	}
	if o.Kind == "" {
		if !onceOnly(a, o, denied) {
			notes = append(notes, Note{exactly(a), !denied && a.Details["remembered"] != ""})
		}
		return notes
	}
	if files := heldFiles(a); files != "" && !denied {
		notes = append(notes, Note{Say("The content of %s is shown as it is now. The answer does not depend on it: later content runs unread, even if calls have written it.", files), true})
	}
	if len(o.Matched) == 0 {
		return append(notes, Note{"It would have covered none of this session's other calls.", false})
	}
	return append(notes, Note{Say("It would have covered in this session: %s", several(o.Matched, len(o.Matched), o.Unshown)), false})
}

// exactly says what a remembered answer to this very call covers. It speaks of the content
// of those files alone that the answer is bound to.
func exactly(a *protocol.Approval) Sentence {
	if covers := a.Details["remembered"]; covers != "" {
		return End(strings.ToUpper(covers[:1]) + covers[1:])
	}
	const others Sentence = "It covers nothing else: another argument or directory asks again"
	files := heldFiles(a)
	if files == "" {
		return others + ". It does not depend on file content: a file that the call reads or starts may have changed by then."
	}
	return Say("%s, and so does changed content of %s. Other files that the call reads or starts may have changed by then.", others, files)
}

// heldFiles are those whose content an answer to this very call is bound to; "" is none.
func heldFiles(a *protocol.Approval) Sentence {
	files, _ := a.Payload["files"].(map[string]any)
	return Several(slices.Sorted(maps.Keys(files)), 4)
}

// Several are the first of a list, and how many more there are; "" is an empty one.
func Several[T ~string](list []T, shown int) Sentence {
	shown = min(shown, len(list))
	return several(list, shown, len(list)-shown)
}

func several[T ~string](list []T, shown, more int) (text Sentence) {
	for i, one := range list[:shown] {
		if i > 0 {
			text += ", "
		}
		text += Say("%s", one)
	}
	if more > 0 {
		text += Say(" and %d more", more)
	}
	return text
}
