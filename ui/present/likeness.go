package present

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/sandgate/sandgate/protocol"
)

// Gone remembers the requests that were withdrawn a moment ago. An agent that wants a
// person to answer what they have not read withdraws what they are reading, and has
// something that looks the same in its place.
type Gone struct{ list []gone }

type gone struct {
	id   protocol.ApprovalID
	tool protocol.ToolName
	text string // the first of it
	sum  [sha256.Size]byte
	at   time.Time
	seen bool // a person had it before them
}

const (
	// goneTime is how long a person may still have a request in mind.
	goneTime = 2 * time.Minute
	// maxGone bounds how many are remembered. Those that nobody has looked at make room
	// first: an agent can withdraw as many of those as it likes.
	maxGone = 32
	// maxCompared bounds what is compared, in bytes: an agent decides how long a text is.
	maxCompared = 4 << 10
	// alike is how much of two texts has to be the same, in percent.
	alike = 75
	// grown is how long a text is, in bytes, that another one with more around it looks like.
	grown = 4
)

// Add remembers a request that was withdrawn; seen says that a person had it before them.
func (g *Gone) Add(a *protocol.Approval, seen bool, now time.Time) {
	text, sum := essential(a)
	g.list = append(g.list, gone{a.ID, a.Tool, text, sum, now, seen})
	if len(g.list) > maxGone {
		i := max(slices.IndexFunc(g.list, func(x gone) bool { return !x.seen || now.Sub(x.at) > goneTime }), 0)
		g.list = slices.Delete(g.list, i, i+1)
	}
}

// Like says, escaped, which of those a request looks like, and in what it differs; "" is
// none.
func (g *Gone) Like(a *protocol.Approval, now time.Time) string {
	text, sum := essential(a)
	for i := len(g.list) - 1; i >= 0; i-- {
		old := g.list[i]
		age := now.Sub(old.at)
		if age > goneTime || old.id == a.ID {
			continue
		}
		if old.tool != a.Tool { // a runtime gives its tools names that look like others
			if _, like := differs(old.text, text); like || old.text == text {
				return fmt.Sprintf("similar to one that was withdrawn %s ago; it differs in %s", Span(age), Say("the tool, %s before, %s now", old.tool, a.Tool))
			}
			continue
		}
		if old.sum == sum {
			return fmt.Sprintf("the same as one that was withdrawn %s ago", Span(age))
		}
		if old.text == text {
			where := "what it is called or how it is run"
			if len(text) >= maxCompared {
				where = fmt.Sprintf("what comes after its first %d characters", utf8.RuneCountInString(text))
			}
			return fmt.Sprintf("similar to one that was withdrawn %s ago; it differs in %s", Span(age), where)
		}
		if what, ok := differs(old.text, text); ok {
			return fmt.Sprintf("similar to one that was withdrawn %s ago; it differs in %s", Span(age), what)
		}
	}
	return ""
}

// essential is what tells one request from another: the first of all values of its payload
// in the order of their keys, and a sum of all of it with the keys.
func essential(a *protocol.Approval) (text string, sum [sha256.Size]byte) {
	said := []any{a.Description, a.Payload}
	text = strings.Join(values("", a.Payload), "\n")
	if isKeep(a) { // its payload is digests, which nobody reads, and all of which differ
		text = FullContent(a)
		said = []any{text, a.Details["changes"]}
	} else if a.Details["remembered"] != "" && a.Presentation != nil { // its payload leaves out what differs
		text = FullContent(a)
		said = append(said, text)
	}
	if text == "" {
		text = a.Description
	}
	whole, err := json.Marshal(said)
	if err != nil { // it came as JSON
		whole = []byte(a.ID)
	}
	return strings.ToValidUTF8(text[:min(len(text), maxCompared)], "?"), sha256.Sum256(whole)
}

// values are those of a payload as texts, whatever they are. What is no text has its key.
func values(key string, v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, values(key, e)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, values(key, v[key])...)
		}
	default:
		all = []string{fmt.Sprint(key, "=", v)}
	}
	return all
}

// differs says in what two texts differ, if most of them is the same.
func differs(old, new string) (string, bool) {
	if len(old)+len(new) > 64<<10 {
		return "", false // letter by letter it takes long, and nobody reads it
	}
	edits := udiff.Strings(old, new)
	changed := 0
	for _, e := range edits {
		changed += max(e.End-e.Start, len(e.New))
	}
	// However much is added to a text: whoever has read it knows how it begins.
	more := min(len(old), len(new)) >= grown && (strings.Contains(old, new) || strings.Contains(new, old))
	if changed*100 > max(len(old), len(new))*(100-alike) && !more {
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
	return string(Say("%s before, %s now", before, after)), true
}
