package tui

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/present"
)

// A boardView is a board on the screen, in place of the requests.
type boardView struct {
	name    string
	board   board.Board // of version 0 until one has come
	at      int         // the marked item, over all sections
	asked   *asked
	ruling  bool   // a line for a new rule opens once the board is there
	rule    string // what it begins with
	loading bool
}

// An asked is an act that waits for a yes.
type asked struct {
	act board.Act
	board.Question
}

type (
	boardMsg struct {
		board board.Board
		look  board.Look
		begun timeOfGuard
		err   error
	}
	actedMsg struct {
		on   *boardView
		act  board.Act
		said present.Sentence
		err  error
	}
)

// sight is which list this is, and where its mark. A list stands still while a person is at it.
func (b *boardView) sight() (s sight) {
	s.id = protocol.ApprovalID(fmt.Sprintf("board %q %d %d", b.name, b.board.Version, b.at))
	if b.asked != nil {
		s.panel = fmt.Sprintf("%q %s", b.asked.act, b.asked.Sure)
		if b.asked.act.Text != "" { // it takes the place of a line, in which a person may be typing on
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

// actions are those of the marked item, a b c, and those of its section, A B C. Where one section alone has some, they
// are there wherever the mark is. With all of them at once nobody could tell whose is which, and an agent, whose
// sessions are sections, could have them reach the letters of an item's.
func (b *boardView) actions() map[string]board.Action {
	keys := map[string]board.Action{}
	var own, only []board.Action
	n, have := b.at, 0
	for _, s := range b.board.Sections {
		if n >= 0 && n < len(s.Items) {
			own = s.Actions
			for i, a := range s.Items[n].Actions {
				keys[string(rune('a'+i))] = a
			}
		}
		n -= len(s.Items)
		if len(s.Actions) > 0 {
			only = s.Actions
			have++
		}
	}
	if have == 1 {
		own = only
	}
	for i, a := range own {
		keys[string(rune('A'+i))] = a
	}
	return keys
}

func (b *boardView) couldAct(name string) bool {
	_, ok := b.actions()[name]
	return ok || b.asked != nil && name == "y"
}

// turn takes the keys 1 to 8: the requests, and the boards.
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

// loadBoard asks for the board that is shown; fresh is what a person wants as it is now.
func (m *model) loadBoard(fresh bool) tea.Cmd {
	b := m.board
	if b == nil || b.asked != nil || b.loading && !fresh {
		return nil
	}
	b.loading = true
	begun := m.at()
	look := board.Look{Name: b.name, Drawn: b.board.Version, Idle: (begun - m.touched).Milliseconds(), Fresh: fresh}
	return func() tea.Msg {
		now, err := m.opts.Boards.Load(m.ctx, look)
		return boardMsg{now, look, begun, err}
	}
}

func (m *model) boardLoaded(msg boardMsg) {
	b := m.board
	if b == nil || b.name != msg.look.Name {
		return
	}
	b.loading = false
	switch {
	case b.asked != nil:
	case msg.err != nil:
		m.notice = approval.EscapeLine(msg.err.Error())
	case msg.look.Fresh:
		b.show(msg.board)
		m.newRule()
	case msg.look.Drawn != b.board.Version: // it is about a list that has gone
	case msg.board.Version != b.board.Version && m.touched > msg.begun: // a person has turned to it meanwhile
	default:
		b.show(msg.board)
	}
}

// show puts a board in the place of the one before. The mark stays on the item that it was on, wherever that is now.
func (b *boardView) show(now board.Board) {
	marked := b.item()
	b.board = now
	if marked != nil {
		n := -1
		for _, s := range now.Sections {
			for _, it := range s.Items {
				if n++; it.ID != "" && it.ID == marked.ID {
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
		act := b.asked.act
		b.asked = nil
		return m.act(act)
	case b.asked != nil:
		b.asked = nil
		m.notice = "nothing was done"
	case name == "q", name == "esc":
		m.leaveBoard()
	case name == present.Words.RefreshKey:
		return m.loadBoard(true)
	case name == "down", name == "j":
		b.at = min(b.at+1, max(b.items()-1, 0))
	case name == "up", name == "k":
		b.at = max(b.at-1, 0)
	case acts && m.settled(begun):
		m.notice = ""
		if action.Label == "" {
			return m.act(board.Act{Shown: action.Shown})
		}
		m.writeFor(action, action.Text)
	}
	return nil
}

// writeFor opens the line of an action that takes a text.
func (m *model) writeFor(action board.Action, text string) {
	m.write(action.Label+": "+action.Hint, text, maxFeedback, func(text string) tea.Cmd {
		return m.act(board.Act{Shown: action.Shown, Text: text})
	})
}

// openRule opens the rules, with a line for a new one that begins as the request does: as the
// one that stood there when the key was pressed.
func (m *model) openRule(begun timeOfGuard) tea.Cmd {
	it := m.cursor()
	if it == nil || m.opts.Boards == nil || !m.settled(begun) {
		return nil
	}
	m.board = &boardView{name: board.Rules, rule: board.RuleFor(&it.Approval), ruling: true}
	m.sight = sight{}
	return m.loadBoard(true)
}

// newRule opens the line of a rule that was begun before its board was there.
func (m *model) newRule() {
	b := m.board
	if !b.ruling {
		return
	}
	b.ruling = false
	for _, a := range b.actions() {
		if a.Do == board.AddRule && a.Text == "" {
			m.writeFor(a, b.rule)
		}
	}
}

func (m *model) act(a board.Act) tea.Cmd {
	on := m.board
	return func() tea.Msg {
		said, err := m.opts.Boards.Do(m.ctx, a)
		return actedMsg{on, a, said, err}
	}
}

func (m *model) acted(msg actedMsg) tea.Cmd {
	var q board.Question
	if errors.As(msg.err, &q) {
		m.notice = "nothing was done"
		if m.board != nil && m.board == msg.on && m.board.asked == nil && m.edit == nil && !m.guard.Held() {
			msg.act.Yes = q.Sure
			m.board.asked, m.notice = &asked{msg.act, q}, ""
		}
		return nil
	}
	m.notice = string(msg.said)
	if msg.err != nil {
		m.notice = approval.EscapeLine(msg.err.Error())
		return nil
	}
	return m.loadBoard(true)
}

// boardLines are the whole screen of a board: what is around the marked item.
func (m *model) boardLines() []string {
	s, b := m.styles(), m.board
	var lines []string
	marked, n := 0, 0
	news := string(b.board.News)
	if news != "" {
		news += ": press " + present.Words.RefreshKey
	}
	for i, section := range b.board.Sections {
		if i > 0 {
			lines = append(lines, "")
		}
		lines = append(lines, m.line(s.bold, string(section.Heading)))
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
			if it.Now != "" {
				lines = append(lines, m.line(s.faint, "      "+string(it.Now)))
			}
			n++
		}
	}
	if b.board.Version == 0 {
		lines = []string{"  ..."}
	}
	footer := m.boardFooter()
	footer = footer[:min(len(footer), m.height-3)]
	rows := max(m.height-2-len(footer), 1)
	first := max(min(marked-rows/2, len(lines)-rows), 0)
	screen := make([]string, rows)
	copy(screen, lines[first:min(first+rows, len(lines))])
	return append(append([]string{m.tabs(), m.line(s.warn, news)}, screen...), footer...)
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
	return m.board.asked == nil || len(m.boardFooter()) <= m.height-3
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
		lines = append(lines, m.line(s.bold, present.Words.TextGone))
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
		lines = append(append(lines, text(s.plain, strings.Join(keys, "   "))...), m.line(s.faint, "↑↓ mark   "+present.Words.RefreshKey+" "+strings.ToLower(present.Words.Refresh)+"   1 requests   Esc "+strings.ToLower(present.Words.Back)))
	}
	switch { // what agents withdraw is told here: it must not push a question out of sight
	case m.notice == "":
		return append(lines, "")
	case b.asked != nil:
		return append(lines, m.line(s.warn, m.notice))
	}
	return append(lines, text(s.warn, m.notice)...)
}
