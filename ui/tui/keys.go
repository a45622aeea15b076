package tui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// A choice is an answer to one request, with its key, and its words for wide screens
// and for narrow ones. The first has the focus when a request comes up.
type choice struct {
	key, words, word string
	decide           protocol.ApprovalsDecide
}

func choices() []choice {
	deny := func(mode approval.RejectMode) protocol.ApprovalsDecide {
		return protocol.ApprovalsDecide{Decision: protocol.Deny, Mode: mode}
	}
	allow := func(s approval.Scope) protocol.ApprovalsDecide {
		return protocol.ApprovalsDecide{Decision: protocol.Allow, Scope: s}
	}
	return []choice{
		{"N", "deny", "deny", deny(approval.RejectHard)},
		{"n", "this call only", "soft", deny(approval.RejectSoft)},
		{"x", "explain first", "explain", deny(approval.RejectExplain)},
		{"y", "once", "once", allow(approval.Once)},
		{"s", "session", "session", allow(approval.Session)},
		{"a", "agent", "agent", allow(approval.Agent)},
		{"g", "everybody", "all", allow(approval.Global)},
	}
}

// seldom are the answers that only the help speaks of.
func seldom() []choice {
	return []choice{
		{key: "i", decide: protocol.ApprovalsDecide{Decision: protocol.Deny, Mode: approval.RejectHard, Interrupt: true}},
		{key: "d", decide: protocol.ApprovalsDecide{Decision: protocol.Dismiss}},
	}
}

// An answer is about to be given with a key.
type answer struct {
	key    string
	decide protocol.ApprovalsDecide
	asks   []string // what a person should know before they press the key again
}

// ids are the requests that it answers.
func (a *answer) ids() []protocol.ApprovalID {
	if a.decide.ID != "" {
		return []protocol.ApprovalID{a.decide.ID}
	}
	return a.decide.IDs
}

// key takes one key. What a key means depends on what is open: a text, a
// question, the help, or nothing.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.away: // meant for what is about to open
		return nil
	case m.edit != nil:
		return m.editKey(k)
	case m.orphan:
		m.orphan = name != "esc" && name != "enter"
		return nil
	case m.help:
		m.help = false
		return nil
	case m.reader != nil:
		return m.readerKey(name)
	case m.chooser != nil:
		return m.chooserKey(name)
	case m.confirm != nil:
		return m.confirmKey(name)
	}
	if m.navigate(name) {
		return nil
	}
	switch name {
	case "q", "ctrl+d":
		return tea.Quit
	case "?":
		m.help = true
		return nil
	case "v":
		return m.page()
	case "e":
		return m.editArguments()
	case "p":
		m.openChooser()
		return nil
	case "esc":
		if it := m.cursor(); it != nil && it.original != nil && !it.sent {
			return m.restore(it)
		}
		return nil
	case "A", "D":
		return m.group(name)
	case "enter":
		name = choices()[m.focus].key
	}
	for _, c := range append(choices(), seldom()...) {
		if c.key == name {
			return m.choose(c)
		}
	}
	return nil
}

func (m *model) navigate(key string) bool {
	rows := m.detailRows()
	switch key {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgdown", "space", "ctrl+f":
		m.scrollBy(max(rows-1, 1))
	case "pgup", "b", "ctrl+b":
		m.scrollBy(-max(rows-1, 1))
	case "home":
		m.scrollBy(-m.scroll)
	case "end":
		m.scrollBy(len(m.detail()))
	case "left", "shift+tab":
		m.focus = (m.focus + len(choices()) - 1) % len(choices())
	case "right", "tab":
		m.focus = (m.focus + 1) % len(choices())
	default:
		return false
	}
	return true
}

// scrollBy stops at every screen between here and there, so that what was
// scrolled past was on the screen: End shows the end, and counts as no more.
func (m *model) scrollBy(lines int) {
	it := m.cursor()
	if it == nil {
		return
	}
	last := max(len(m.detail())-m.detailRows(), 0)
	to := min(max(m.scroll+lines, 0), last)
	if to > it.reached { // lines in between were skipped
		to = it.reached
	}
	m.scroll = to
}

// choose answers the request under the cursor, or asks for the key once more.
func (m *model) choose(c choice) tea.Cmd {
	it := m.cursor()
	if it == nil || it.sent || !m.settled() {
		return nil
	}
	a := &answer{key: c.key, decide: c.decide}
	a.decide.ID = it.ID
	if c.decide.Mode == approval.RejectExplain {
		m.explain(a)
		return nil
	}
	if c.decide.Decision == protocol.Allow && it.args != nil {
		if c.decide.Scope != approval.Once {
			m.notice = "edited arguments are allowed once: y, or Esc for the agent's own"
			return nil
		}
		a.decide.Args = it.args
	}
	if c.decide.Decision == protocol.Allow {
		a.asks = m.unseen(it)
		if s := c.decide.Scope; s != approval.Once && s != approval.Session {
			a.asks = append(a.asks, present.RememberedSentence(&it.Approval, present.ThisCall(&it.Approval), s, false))
		}
	}
	if len(a.asks) > 0 {
		m.confirm, m.notice = a, ""
		return nil
	}
	return m.send(a)
}

// explain takes what the model should explain, and denies.
func (m *model) explain(a *answer) {
	m.edit = &editor{prompt: "What should the model explain? Enter denies and sends this, Esc goes back.", limit: maxFeedback,
		done: func(text string) tea.Cmd {
			a.decide.Feedback = text
			return m.send(a)
		}}
}

// unseen says how much of a request has never been on the screen.
func (m *model) unseen(it *item) []string {
	if it.read {
		return nil
	}
	var asks []string
	if below := len(m.essence()) - it.reached; below > 0 {
		asks = append(asks, fmt.Sprintf("%s not been on the screen (PgDn shows more)", plural(below, "line has", "lines have")))
	}
	if present.IsCut(it.shown) {
		asks = append(asks, "the text was cut for the screen (v shows all of it)")
	}
	return asks
}

func (m *model) confirmKey(name string) tea.Cmd {
	a := m.confirm
	switch {
	case m.navigate(name):
		return nil
	case name == a.key && m.settled():
		return m.send(a)
	case name != a.key:
		m.confirm = nil
		m.notice = "not answered"
	}
	return nil
}

// group answers all requests of the group under the cursor: those that are listed,
// and not one that joins it later.
func (m *model) group(key string) tea.Cmd {
	it := m.cursor()
	if it == nil || it.sent || !m.settled() {
		return nil
	}
	if it.GroupID == "" {
		m.notice = "this request belongs to no group"
		return nil
	}
	a := &answer{key: key, decide: protocol.ApprovalsDecide{Decision: protocol.Deny}}
	for _, other := range m.queue {
		if it.inGroup(other) && !other.sent {
			a.decide.IDs = append(a.decide.IDs, other.ID)
			a.asks = append(a.asks, "allows "+approval.EscapeLine(string(other.Tool)+": "+other.Description))
		}
	}
	if key == "D" {
		return m.send(a)
	}
	a.decide.Decision = protocol.Allow
	if slices.ContainsFunc(a.decide.IDs, func(id protocol.ApprovalID) bool { return m.find(id).args != nil }) {
		m.notice = "one of the group is edited: answer one by one, or Esc on it for the agent's own"
		return nil
	}
	if len(m.question(a)) > m.maxQuestion() {
		m.notice = "the group does not fit on the screen: answer one by one, or with `sandgate approvals allow`"
		return nil
	}
	m.confirm = a
	return nil
}

// inGroup reports whether other came with it: group ids are the agents' own, so
// only within one session do they mean anything.
func (it *item) inGroup(other *item) bool {
	return it.GroupID != "" && other.GroupID == it.GroupID && other.SessionID == it.SessionID
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
