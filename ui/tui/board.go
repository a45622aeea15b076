package tui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// A boardView is a board on the screen, in place of the requests.
type boardView struct {
	name   string
	board  board.Board
	at     int // the marked item, over all sections
	asked  *board.Action
	loaded bool
	stood  map[string]stood // by key, of the sections
}

// A stood is what the key of a section does, and since when. It waits by itself: what an agent does to it holds back
// no other key.
type stood struct {
	act   board.Act
	since timeOfGuard
}

type (
	boardMsg struct {
		board board.Board
		name  string
		err   error
	}
	actedMsg struct {
		on   *boardView
		said present.Sentence
		err  error
	}
)

// sight is what the keys of the marked item would do, and to what. What is told anew each second, such as a
// time, is no part of it.
func (b *boardView) sight() (s sight) {
	acts := fmt.Sprintf("board %q", b.name)
	keys := b.itemActions()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		acts += fmt.Sprintf(" %s%q", key, keys[key].Act)
	}
	s.id = protocol.ApprovalID(acts)
	if b.asked != nil {
		s.panel = fmt.Sprintf("%q %s", b.asked.Act, b.asked.Sure)
		if b.asked.Yes != "" { // it takes the place of a line, in which a person may be typing on
			s.id = protocol.ApprovalID(s.panel)
		}
	}
	return s
}

// item is the marked one.
func (b *boardView) item() *board.Item {
	n := b.at
	for _, s := range b.board.Sections {
		if n < len(s.Items) {
			return &s.Items[n]
		}
		n -= len(s.Items)
	}
	return nil
}

func (b *boardView) items() (n int) {
	for _, s := range b.board.Sections {
		n += len(s.Items)
	}
	return n
}

// itemActions are those of the marked item, a b c.
func (b *boardView) itemActions() map[string]board.Action {
	keys := map[string]board.Action{}
	if it := b.item(); it != nil {
		for i, a := range it.Actions {
			keys[string(rune('a'+i))] = a
		}
	}
	return keys
}

// actions are those of the marked item, and those of the sections, A B C.
func (b *boardView) actions() map[string]board.Action {
	keys := b.itemActions()
	n := 0
	for _, s := range b.board.Sections {
		for _, a := range s.Actions {
			keys[string(rune('A'+n))] = a
			n++
		}
	}
	return keys
}

func (b *boardView) couldAct(name string) bool {
	_, ok := b.actions()[name]
	return ok || b.asked != nil && name == "y"
}

// turn takes the keys 1 to 7: the requests, and the boards.
func (m *model) turn(name string) bool {
	if m.opts.Boards == nil || len(name) != 1 || name[0] < '1' || m.chooser != nil || m.confirm != nil {
		return false
	}
	n := int(name[0] - '1')
	if n > len(board.Names()) {
		return false
	}
	m.notice = ""
	m.leaveBoard()
	if n > 0 {
		m.board = &boardView{name: board.Names()[n-1]}
	}
	return true
}

// leaveBoard brings the requests back. The one that was in front may have ended meanwhile.
func (m *model) leaveBoard() {
	m.board, m.sight = nil, sight{}
	if m.tomb != nil {
		m.guard.Ended(m.at())
	}
}

// loadBoard asks for the board that is shown.
func (m *model) loadBoard() tea.Cmd {
	if m.board == nil || m.board.asked != nil {
		return nil
	}
	name := m.board.name
	return func() tea.Msg {
		b, err := m.opts.Boards.Load(m.ctx, name)
		return boardMsg{b, name, err}
	}
}

func (m *model) boardLoaded(msg boardMsg) {
	if m.board == nil || m.board.name != msg.name || m.board.asked != nil {
		return
	}
	if msg.err != nil {
		m.notice = approval.EscapeLine(msg.err.Error())
		return
	}
	m.board.show(msg.board)
	m.board.stand(m.at())
}

// stand notes since when each key of a section does what it does.
func (b *boardView) stand(now timeOfGuard) {
	was, own := b.stood, b.itemActions()
	b.stood = map[string]stood{}
	for key, a := range b.actions() {
		if _, ok := own[key]; ok {
			continue
		}
		b.stood[key] = stood{a.Act, now}
		if old, ok := was[key]; ok && old.act == a.Act {
			b.stood[key] = old
		}
	}
}

// stoodFor reports whether a key does what it did for long enough before an act began. That of the marked item is in sight.
func (b *boardView) stoodFor(key string, begun timeOfGuard) bool {
	s, ofSection := b.stood[key]
	return !ofSection || begun >= s.since+guard.Other
}

// show puts a board that was loaded again in the place of the one before. The mark stays on the item that it
// was on, wherever that is now: an agent that ends one call after the other would have it pass over all of
// them, and none of its own could be ended.
func (b *boardView) show(now board.Board) {
	marked := b.item()
	b.board, b.loaded = now, true
	if marked != nil && len(marked.Actions) > 0 {
		n := -1
		for _, s := range now.Sections {
			for _, it := range s.Items {
				if n++; len(it.Actions) > 0 && it.Actions[0].Act == marked.Actions[0].Act {
					b.at = n
					return
				}
			}
		}
	}
	b.at = max(min(b.at, b.items()-1), 0)
}

// boardKey moves the mark, or acts on what is marked.
func (m *model) boardKey(name string, begun timeOfGuard) tea.Cmd {
	b := m.board
	action, acts := b.actions()[name]
	switch {
	case b.asked != nil && name == "y":
		if !m.settled(begun) {
			return nil
		}
		a := b.asked.Act
		if b.asked = b.asked.Asked(); b.asked != nil {
			return nil
		}
		return m.act(a)
	case b.asked != nil:
		b.asked = nil
		m.notice = "nothing was done"
	case name == "q", name == "esc":
		m.leaveBoard()
	case name == "down", name == "j":
		b.at = min(b.at+1, max(b.items()-1, 0))
	case name == "up", name == "k":
		b.at = max(b.at-1, 0)
	case acts && !b.stoodFor(name, begun):
		m.notice = tooSoon
	case acts && m.settled(begun):
		m.notice = ""
		switch {
		case action.Label != "":
			m.writeFor(action)
		case action.Sure != "":
			b.asked = &action
		default:
			return m.act(action.Act)
		}
	}
	return nil
}

// writeFor opens the line of an action that takes a text.
func (m *model) writeFor(action board.Action) {
	m.write(action.Label+": "+action.Hint, action.Text, maxFeedback, func(text string) tea.Cmd {
		a := action.Act
		a.Text = text
		return m.act(a)
	})
}

// openRule opens the rules, with a line for a new one that begins as the request does: as the
// one that stood there when the key was pressed.
func (m *model) openRule(begun timeOfGuard) tea.Cmd {
	it := m.cursor()
	if it == nil || m.opts.Boards == nil || !m.settled(begun) {
		return nil
	}
	action := board.NewRule(board.RuleFor(&it.Approval))
	m.board = &boardView{name: board.Rules}
	m.sight = sight{}
	load := m.loadBoard()
	m.writeFor(action)
	return load
}

func (m *model) act(a board.Act) tea.Cmd {
	on := m.board
	return func() tea.Msg {
		said, err := m.opts.Boards.Do(m.ctx, a)
		return actedMsg{on, said, err}
	}
}

func (m *model) acted(msg actedMsg) tea.Cmd {
	var q board.Question
	if errors.As(msg.err, &q) {
		m.notice = "nothing was done"
		if m.board != nil && m.board == msg.on && m.board.asked == nil && m.edit == nil && !m.guard.Held() {
			m.board.asked, m.notice = &q.Action, ""
		}
		return nil
	}
	m.notice = string(msg.said)
	if msg.err != nil {
		m.notice = approval.EscapeLine(msg.err.Error())
	}
	return m.loadBoard()
}

// boardLines are the whole screen of a board: what is around the marked item.
func (m *model) boardLines() []string {
	s, b := m.styles(), m.board
	var lines []string
	marked, n := 0, 0
	for _, section := range b.board.Sections {
		lines = append(lines, "", m.line(s.bold, string(section.Heading)))
		if len(section.Items) == 0 {
			lines = append(lines, m.line(s.faint, "  "+string(section.Empty)))
		}
		for _, it := range section.Items {
			mark, style := " ", s.plain
			if it.Careful {
				mark, style = "  !", s.warn
			}
			if n == b.at {
				mark, style, marked = "  ▸", s.bold, len(lines)
			}
			lines = append(lines, hangAt(4, mark, string(it.Text), m.width, style)...)
			if it.Under != "" {
				lines = append(lines, hangAt(6, " ", string(it.Under), m.width, s.faint)...)
			}
			n++
		}
	}
	if !b.loaded {
		lines = []string{"", "  ..."}
	}
	footer := m.boardFooter()
	footer = footer[:min(len(footer), m.height-2)]
	rows := max(m.height-1-len(footer), 1)
	first := max(min(marked-rows/2, len(lines)-rows), 0)
	screen := make([]string, rows)
	copy(screen, lines[first:min(first+rows, len(lines))])
	return append(append([]string{m.tabs()}, screen...), footer...)
}

// tabs are the names of the boards with their keys.
func (m *model) tabs() string {
	var names, keys []string // where not all names have room, the others are keys
	for i, name := range append([]string{"requests"}, board.Names()...) {
		key := fmt.Sprint(i + 1)
		text := key + " " + name
		if name == "requests" && len(m.queue) > 0 {
			text += fmt.Sprintf(" (%d)", len(m.queue))
			key = text
		}
		if name == m.board.name {
			text = "[" + text + "]"
			key = text
		}
		names, keys = append(names, text), append(keys, key)
	}
	line := strings.Join(names, "  ")
	if present.Width(line) > m.width {
		line = strings.Join(keys, "  ")
	}
	return m.line(m.styles().bold, line)
}

// wholeBoard reports whether all of what is asked stands on the screen.
func (m *model) wholeBoard() bool {
	return m.board.asked == nil || len(m.boardFooter()) <= m.height-2
}

// footerText is the most lines that a text of the footer takes.
const footerText = 6

func (m *model) boardFooter() []string {
	s, b := m.styles(), m.board
	text := func(style lipgloss.Style, words string) []string {
		lines := hang("", words, m.width, style)
		return lines[:min(len(lines), footerText)]
	}
	lines := []string{s.faint.Render(strings.Repeat("─", m.width))}
	switch {
	case m.guard.Held():
		lines = append(lines, m.line(s.bold, textGone))
	case m.edit != nil:
		lines = append(append(lines, text(s.bold, m.edit.prompt)...), m.edit.line(m.width, s.focus))
	case b.asked != nil:
		lines = append(append(lines, hang("", string(b.asked.Sure), m.width, s.warn.Bold(true))...), m.line(s.bold, "y "+strings.ToLower(b.asked.Words)+"   any other key: no"))
	default:
		var keys []string
		for key, a := range b.actions() {
			keys = append(keys, key+" "+a.Words)
		}
		slices.Sort(keys)
		lines = append(append(lines, text(s.plain, strings.Join(keys, "   "))...), m.line(s.faint, "↑↓ mark   1 requests   Esc back"))
	}
	if m.notice == "" {
		return append(lines, "")
	}
	return append(lines, text(s.warn, m.notice)...)
}
