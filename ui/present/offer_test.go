package present

import (
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
		"nothing is held": {nil, "not bound to what is in any file", "another content of"},
		"files are held": {func(a *protocol.Approval) {
			a.Payload["files"] = map[string]any{"/w/Makefile": "sha256:1 mode 0644", "/w/\x1bb": "absent"}
		}, `another content of "/w/<U+001B>b", /w/Makefile. What else`, "not bound"},
		"any content": {func(a *protocol.Approval) {
			a.Details["remembered"] = "an answer that is remembered covers this file, any content"
		}, "An answer that is remembered covers this file, any content.", "nothing else"},
	} {
		text := strings.Join(OfferNotes(request(c.change), exact, false), " ")
		if !strings.Contains(text, c.want) || strings.Contains(text, c.not) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
