package present

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// TestWhatAnAnswerCoversIsSaidAsItIs: the sentence before an answer is remembered speaks of
// the content of no file that the answer is not bound to.
func TestWhatAnAnswerCoversIsSaidAsItIs(t *testing.T) {
	exact := approval.Offer{Text: "exactly this call", Whole: true}
	for name, c := range map[string]struct {
		change func(*protocol.Approval)
		want   string
		not    string
	}{
		"nothing is held": {nil, "does not depend on file content", "changed content of"},
		"files are held": {func(a *protocol.Approval) {
			a.Payload["files"] = map[string]any{"/w/Makefile": "sha256:1 mode 0644", "/w/\x1bb": "absent"}
		}, `changed content of "/w/<U+001B>b", /w/Makefile. Other files`, "not depend"},
		"any content": {func(a *protocol.Approval) {
			a.Details["remembered"] = "a remembered answer covers this file, any content"
		}, "A remembered answer covers this file, any content", "nothing else"},
	} {
		text := fmt.Sprint(OfferNotes(request(c.change), exact, false))
		if !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestAPatternIsNotBoundToWhatIsShown: before a pattern is remembered of a call whose files are
// shown and held, it is said that it holds none of them; of the very call, and of a denial, it is not.
func TestAPatternIsNotBoundToWhatIsShown(t *testing.T) {
	a := request(func(a *protocol.Approval) { a.Payload["files"] = map[string]any{"/w/run it.sh": "sha256:1 mode 0755"} })
	said := func(o approval.Offer, denied bool) bool {
		for _, n := range OfferNotes(a, o, denied) {
			if strings.Contains(string(n.Text), `The content of "/w/run it.sh" is shown as it is now`) {
				return n.Careful
			}
		}
		return false
	}
	prefix := approval.Offer{Kind: approval.ArgvPrefix, Value: "./run", Text: "every command", Whole: true}
	if !said(prefix, false) {
		t.Errorf("nothing is said: %v", OfferNotes(a, prefix, false))
	}
	if said(prefix, true) || said(ThisCall(a), false) {
		t.Error("it is said of what it is not true of")
	}
	delete(a.Payload, "files")
	if len(OfferNotes(a, prefix, false)) != 1 {
		t.Errorf("without files: %v", OfferNotes(a, prefix, false))
	}
}
