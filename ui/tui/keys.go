package tui

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// choices are the three that stand on every screen; the first has the focus.
func choices() []present.Choice {
	return []present.Choice{present.Deny, {Key: present.RememberKey, Words: present.RememberWords}, present.AllowOnce}
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

// typed takes a key. One that could be an answer waits until it is known to be alone.
func (m *model) typed(k tea.KeyPressMsg) tea.Cmd {
	at := m.at()
	quick := at-m.lastAt < burst
	m.lastAt = at
	m.keys++
	begun := m.begun()
	m.noteKey(k, begun)
	if !m.couldAnswer(k.String()) {
		return m.key(k, begun)
	}
	if quick || k.IsRepeat {
		m.pasted(at)
		return nil
	}
	nth, hold := m.keys, guard.Lone
	if m.confirm == nil && m.board == nil && slices.Contains([]string{"t", "x", "e", "v", "R"}, k.String()) { // what is typed on goes to what they open
		hold = burst
	}
	return m.alone(hold, func(time.Time) tea.Msg { return aloneMsg{k, nth, begun} })
}

// wasAlone takes a key that no other has followed at once.
func (m *model) wasAlone(msg aloneMsg) tea.Cmd {
	if msg.nth != m.keys {
		m.pasted(m.at())
		return nil
	}
	return m.key(msg.key, msg.begun)
}

// noteKey tells the guard of a key that may be one of a text. Those that only move are in a text as well
// when they are letters.
func (m *model) noteKey(k tea.KeyPressMsg, begun time.Duration) {
	name := k.String()
	switch {
	case k.Text == "" && name != "enter" && name != "backspace", m.guard.Held() && name == "enter":
	case m.edit != nil:
		m.guard.Wrote(m.at())
	default:
		m.guard.Key(m.at(), begun, m.couldAnswer(name) || slices.Contains([]string{"j", "k", "b", "space"}, name))
	}
}

func (m *model) pasted(at time.Duration) {
	m.guard.Moved(at)
	m.notice = "several keys at once count as pasted text, not as an answer"
}

// couldAnswer reports whether a key would give an answer as things are, or open what the keys
// behind it could finish.
func (m *model) couldAnswer(name string) bool {
	switch {
	case m.edit != nil, m.away, m.help, m.reader != nil, m.guard.Held():
		return false
	case m.board != nil:
		return m.board.couldAct(name)
	case m.confirm != nil:
		return name == m.confirm.key
	case m.chooser != nil:
		return name == "y" || name == "N" || name == "e"
	case slices.Contains([]string{"enter", "A", "D", "R", "e", "v", "q"}, name): // those that open or close something too: what follows would go there
		return true
	}
	return slices.ContainsFunc(present.Choices(), func(c present.Choice) bool { return c.Key == name })
}

// key carries out what a key means, which began at a time. What it means depends on what
// is open: a text, a question, the help, a board, or nothing.
func (m *model) key(k tea.KeyPressMsg, begun time.Duration) tea.Cmd {
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
	case m.guard.Held():
		if name == "esc" || name == "enter" {
			return m.goOn(map[string]guard.Act{"esc": guard.Escape, "enter": guard.Enter}[name], begun)
		}
		return nil
	case m.help:
		m.help = false
		return nil
	case m.reader != nil:
		return m.readerKey(name)
	case m.turn(name):
		return m.loadBoard(true)
	case m.board != nil:
		return m.boardKey(name, begun)
	case m.asking != nil && name == "esc":
		m.asking = nil
		m.notice = "nothing was edited"
		return nil
	case m.chooser != nil:
		return m.chooserKey(name, begun)
	case m.confirm != nil:
		return m.confirmKey(name, begun)
	}
	if m.navigate(name) {
		return nil
	}
	switch name {
	case "q", "ctrl+d":
		return tea.Quit
	case "?":
		m.openHelp()
		return nil
	case "v":
		return m.page()
	case "e":
		return m.editArguments()
	case "tab":
		m.deep = !m.deep
		return nil
	case present.DenialsKey:
		m.denials = m.cursor() != nil && !m.denials
		return nil
	case "esc":
		if m.denials {
			m.denials = false
		} else if it := m.cursor(); it != nil && it.original != nil && !it.sent {
			return m.restore(it)
		}
		return nil
	case "R":
		return m.openRule(begun)
	case "enter":
		name = choices()[m.focus].Key
	}
	if m.denials && (name == present.AllowOnce.Key || name == "A") { // the request is not on the screen
		m.notice = "these only deny; Esc goes back to the request"
		return nil
	}
	if name == present.RememberKey {
		m.openChooser()
		return nil
	}
	if name == "A" || name == "D" {
		return m.group(name, begun)
	}
	for _, c := range present.Choices() {
		if c.Key == name {
			return m.choose(c, begun)
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
	case "left":
		m.focus = (m.focus + len(choices()) - 1) % len(choices())
	case "right":
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
func (m *model) choose(c present.Choice, begun time.Duration) tea.Cmd {
	it := m.cursor()
	if it == nil || it.sent || !m.settled(begun) {
		return nil
	}
	a := &answer{key: c.Key, decide: c.Decide(it.ID, "")}
	if c.Writes {
		m.write(present.With(present.Words.Write, c.Words), "", maxFeedback, func(text string) tea.Cmd {
			a.decide = c.Decide(it.ID, text)
			return m.send(a)
		})
		return nil
	}
	if c.Decision == protocol.Allow {
		if a.decide.Args = it.args; it.args != nil {
			a.decide.PlanDigest = it.shown.PlanDigest
		}
		a.asks = m.unseen(it)
		if it.shown != nil && present.Unshown(it.shown) != "" {
			a.asks = append(a.asks, present.With(present.Words.Unshown, present.Unshown(it.shown)))
		}
	}
	if len(a.asks) > 0 {
		m.confirm, m.notice = a, ""
		return nil
	}
	return m.send(a)
}

// unseen says how much of a request has never been on the screen.
func (m *model) unseen(it *item) []string {
	if it.read {
		return nil
	}
	if it.length == 0 { // it was passed over before its text came
		return []string{present.Words.Unread}
	}
	var asks []string
	if below := it.length - it.reached; below > 0 {
		asks = append(asks, fmt.Sprintf("%s not been on the screen (PgDn shows more)", plural(below, "line has", "lines have")))
	}
	if present.IsCut(it.shown) {
		asks = append(asks, present.Words.WasCut)
	}
	return asks
}

func (m *model) confirmKey(name string, begun time.Duration) tea.Cmd {
	a := m.confirm
	switch {
	case m.navigate(name):
		return nil
	case name == a.key && m.settled(begun):
		return m.send(a)
	case name != a.key:
		m.confirm = nil
		m.notice = "not answered"
	}
	return nil
}

// maxGroup is how many requests can be allowed together: more are answered by pattern or
// one by one.
const maxGroup = 20

// group answers all requests of the group under the cursor: those that are listed,
// and not one that joins it later. Allowing wants that each was seen.
func (m *model) group(key string, begun time.Duration) tea.Cmd {
	it := m.cursor()
	if it == nil || it.sent {
		return nil
	}
	if it.GroupID == "" {
		m.notice = "this request belongs to no group"
		return nil
	}
	a := &answer{key: key, decide: protocol.ApprovalsDecide{Decision: protocol.Deny}}
	var unseen []*item
	for _, other := range m.queue {
		if it.inGroup(other) && !other.sent {
			a.decide.IDs = append(a.decide.IDs, other.ID)
			a.asks = append(a.asks, "allows "+present.RowText(&other.Approval))
			if other.shown == nil || len(m.unseen(other)) > 0 {
				unseen = append(unseen, other)
			}
		}
	}
	if key == "D" {
		if !m.settled(begun) {
			return nil
		}
		return m.send(a)
	}
	a.decide.Decision = protocol.Allow
	switch {
	case slices.ContainsFunc(a.decide.IDs, func(id protocol.ApprovalID) bool {
		it := m.find(id)
		return it.shown != nil && present.Unshown(it.shown) != ""
	}):
		m.notice = present.Words.GroupUnshown
	case slices.ContainsFunc(a.decide.IDs, func(id protocol.ApprovalID) bool { return m.find(id).args != nil }):
		m.notice = present.Words.GroupEdited
	case len(a.decide.IDs) > maxGroup:
		m.notice = present.With(present.Words.GroupLarge, strconv.Itoa(len(a.decide.IDs)))
	case len(unseen) > 0:
		if unseen[0] != it {
			m.moveTo(unseen[0].ID)
		}
		m.notice = fmt.Sprintf("%d of %d have not been shown in full; this is one of them", len(unseen), len(a.decide.IDs))
	case len(m.question(a)) > m.detailRows():
		m.notice = "the list of the group does not fit on the screen: answer one by one"
	case m.settled(begun):
		m.confirm = a
	}
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
