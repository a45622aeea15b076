package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// Gone remembers the requests that were withdrawn a moment ago. An agent that wants a
// person to answer what they have not read withdraws what they are reading, and has
// something that looks the same in its place.
type Gone struct{ list []gone }

type gone struct {
	id   protocol.ApprovalID
	tool protocol.ToolName
	text string
	at   time.Time
}

const (
	// goneTime is how long a person may still have a request in mind.
	goneTime = 2 * time.Minute
	maxGone  = 32
	// maxCompared bounds what is compared, in bytes: an agent decides how long a text is.
	maxCompared = 4 << 10
	// alike is how much of two texts has to be the same, in percent.
	alike = 75
)

// Add remembers a request that was withdrawn.
func (g *Gone) Add(a *protocol.Approval, now time.Time) {
	g.list = append(g.list, gone{a.ID, a.Tool, essential(a), now})
	g.list = g.list[max(len(g.list)-maxGone, 0):]
}

// Like says, escaped, which of those a request looks like, and in what it differs; "" is
// none.
func (g *Gone) Like(a *protocol.Approval, now time.Time) string {
	text := essential(a)
	for i := len(g.list) - 1; i >= 0; i-- {
		old := g.list[i]
		age := now.Sub(old.at)
		if age > goneTime || old.id == a.ID || old.tool != a.Tool {
			continue
		}
		if old.text == text {
			return fmt.Sprintf("the same as one that was withdrawn %s ago", Span(age))
		}
		if what, ok := differs(old.text, text); ok {
			return fmt.Sprintf("similar to one that was withdrawn %s ago; it differs in %s", Span(age), what)
		}
	}
	return ""
}

// essential is the text that tells one request from another.
func essential(a *protocol.Approval) string {
	text := strings.Join(texts(a.Payload), "\n")
	if text == "" {
		text = a.Description
	}
	return strings.ToValidUTF8(text[:min(len(text), maxCompared)], "?")
}

// differs says in what two texts differ, if most of them is the same.
func differs(old, new string) (string, bool) {
	edits := udiff.Strings(old, new)
	changed := 0
	for _, e := range edits {
		changed += max(e.End-e.Start, len(e.New))
	}
	if changed*100 > max(len(old), len(new))*(100-alike) {
		return "", false
	}
	// One stretch of whole words: an edit by letters is hard to read.
	from, to := edits[0].Start, edits[len(edits)-1].End
	from = strings.LastIndexAny(old[:from], " \n") + 1
	tail := strings.IndexAny(old[to:], " \n")
	if tail < 0 {
		tail = len(old) - to
	}
	before := old[from : to+tail]
	after := new[from : len(new)-(len(old)-to-tail)]
	quote := func(s string) string { return "`" + Brief(Blanks(approval.EscapeLine(s))) + "`" }
	return quote(before) + " before, " + quote(after) + " now", true
}
