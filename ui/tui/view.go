package tui

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// The smallest screen on which a request can be read.
const (
	minWidth  = 40
	minHeight = 14
)

// palette is the few styles that the screen has. Colours are the terminal's own
// sixteen, and say nothing that a sign does not say as well. On a light background a
// terminal's yellow, green and cyan cannot be read.
type palette struct {
	plain, bold, faint, focus, warn, added, removed, place lipgloss.Style
	comment, text, keyword                                 lipgloss.Style
}

func (m *model) styles() palette {
	plain := lipgloss.NewStyle()
	yellow, green, cyan := lipgloss.Yellow, lipgloss.Green, lipgloss.Cyan
	if m.light {
		yellow, green, cyan = lipgloss.Red, lipgloss.Blue, lipgloss.Blue
	}
	return palette{
		plain:   plain,
		bold:    plain.Bold(true),
		faint:   plain.Faint(true),
		focus:   plain.Reverse(true),
		warn:    plain.Foreground(yellow),
		added:   plain.Foreground(green),
		removed: plain.Foreground(lipgloss.Red),
		place:   plain.Foreground(cyan),
		comment: plain.Foreground(cyan),
		text:    plain.Foreground(green),
		keyword: plain.Foreground(lipgloss.Magenta),
	}
}

// part is the style of a part of a text. None is fainter than the rest: a lexer
// can be led to take for a comment what is none.
func (p palette) part(k highlight.Kind) lipgloss.Style {
	switch k {
	case risk:
		return p.warn.Bold(true).Underline(true)
	case highlight.Comment:
		return p.comment
	case highlight.String:
		return p.text
	case highlight.Keyword:
		return p.keyword
	case highlight.Operator:
		return p.bold
	}
	return p.plain
}

// diff is the style of a line of a unified diff.
func (p palette) diff(line present.DiffPart) lipgloss.Style {
	switch line {
	case present.DiffOurs:
		return p.focus
	case present.DiffFile:
		return p.bold
	case present.DiffPlace:
		return p.place
	case present.DiffAdded:
		return p.added
	case present.DiffRemoved:
		return p.removed
	}
	return p.plain
}

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.ReportFocus = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "sandgate: " + m.waiting()
	return v
}

func (m *model) fits() bool { return m.width >= minWidth && m.height >= minHeight }

func (m *model) waiting() string {
	if len(m.queue) == 0 {
		return strings.ToLower(present.Words.Nothing)
	}
	return present.With(present.Words.Waiting, strconv.Itoa(len(m.queue)))
}

// screen is all lines, from top to bottom.
func (m *model) screen() []string {
	switch {
	case m.width == 0: // the terminal has not said yet
		return nil
	case !m.fits():
		return []string{fmt.Sprintf("sandgate: %s", m.waiting()), fmt.Sprintf("this needs %d x %d cells", minWidth, minHeight)}
	case m.help:
		return m.helpLines()
	case m.reader != nil:
		return m.readerLines()
	case m.board != nil:
		return m.boardLines()
	}
	lines := []string{m.header()}
	lines = append(lines, m.queueLines()...)
	lines = append(lines, m.rule(""))
	lines = append(lines, m.pane()...)
	lines = append(lines, m.rule(m.below()))
	return append(lines, m.footer()...)
}

// line is one line of our own in a style, cut to the screen.
func (m *model) line(s lipgloss.Style, text string) string {
	return s.Render(present.Cut(text, m.width))
}

// rule is a horizontal line with a text at its end.
func (m *model) rule(text string) string {
	s := m.styles()
	if text == "" {
		return s.faint.Render(strings.Repeat("─", m.width))
	}
	text = " " + text + " "
	return s.faint.Render(strings.Repeat("─", max(m.width-ansi.StringWidth(text)-2, 0))) + s.focus.Render(text) + s.faint.Render("──")
}

// header says where in the queue this is, and how long there is to answer.
func (m *model) header() string {
	s := m.styles()
	name := "sandgate: " + m.waiting()
	it := m.cursor()
	if it == nil {
		return s.bold.Render(name)
	}
	at := slices.IndexFunc(m.queue, func(o *item) bool { return o.ID == m.current })
	name = fmt.Sprintf("sandgate: %d of %s", at+1, m.waiting())
	left := present.Span(it.Expires.Sub(m.now())) + " left"
	return ansi.Truncate(s.bold.Render(name)+strings.Repeat(" ", max(m.width-ansi.StringWidth(name)-len(left), 1))+s.faint.Render(left), m.width, "…")
}

// The widths of the queue's columns, in cells.
const (
	timeWidth  = 6
	agentWidth = 15
)

// highScreen is from how many lines the queue has some of its own.
const highScreen = 30

// queueRows is how many lines the queue has: one that names what comes next, or on a high
// screen a fifth of it.
func (m *model) queueRows() int {
	if m.height < highScreen {
		return 1
	}
	return min(max(len(m.queue), 1), m.height/5)
}

const footerRows = 3

// detailRows is how many lines of the detail are on the screen.
func (m *model) detailRows() int { return max(m.height-1-m.queueRows()-2-footerRows, 0) }

// queueLines are the part of the queue around the cursor.
func (m *model) queueLines() []string {
	at := slices.IndexFunc(m.queue, func(it *item) bool { return it.ID == m.current })
	switch {
	case len(m.queue) == 0:
		return []string{m.line(m.styles().faint, "  "+present.Words.Appear+" q leaves, ? explains")}
	case m.height < highScreen:
		more := m.queue[at+1:]
		if len(more) == 0 {
			return []string{m.line(m.styles().faint, "  nothing comes after this")}
		}
		return []string{m.line(m.styles().faint, fmt.Sprintf("  %d more, next: %s", len(more), present.RowText(&more[0].Approval)))} // its text ends the line
	}
	rows := m.queueRows()
	first := min(max(at-rows/2, 0), len(m.queue)-rows)
	var lines []string
	for i, it := range m.queue[first : first+rows] {
		lines = append(lines, m.queueLine(it, i == rows-1 && first+rows < len(m.queue)))
	}
	return lines
}

// queueLine is one request: time left, age, tool, who, what.
func (m *model) queueLine(it *item, more bool) string {
	s, mark := m.styles().plain, "  "
	if it.ID == m.current {
		s, mark = m.styles().bold, "▸ "
	}
	left := present.Span(it.Expires.Sub(m.now()))
	if it.sent {
		left = "sent"
	}
	if more {
		mark = "↓ "
		if it.ID == m.current {
			mark = "▾ "
		}
	}
	return m.line(s, mark+column(left, timeWidth)+column(approval.EscapeName(it.Agent), agentWidth)+present.RowText(&it.Approval))
}

// column is text in a column of the given width, with a space after it.
//
// Terminals do not agree on how wide characters are that join the one before. A dot stands
// for them here, so that what comes after stays in its column.
func column(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if present.Joins(r) {
			return '\u00b7'
		}
		return r
	}, text)
	text = present.Cut(text, width)
	return text + strings.Repeat(" ", width-present.Width(text)+1)
}

// pane is the part of the detail that is on the screen, or the question that
// takes its place at the bottom of it.
func (m *model) pane() []string {
	rows := m.detailRows()
	lines := m.detail()
	switch it := m.cursor(); {
	case m.tomb != nil:
		lines = m.tombLines()
	case it != nil && it.shown == nil:
		lines = []string{"", "  ..."}
	case m.denials:
		lines = m.denialLines()
	case m.chooser != nil:
		lines, _ = m.chooserLines(rows)
	default:
		lines = lines[min(m.scroll, len(lines)):]
	}
	pane := make([]string, rows)
	copy(pane, lines)
	if m.confirm != nil {
		q := m.question(m.confirm)
		q = q[:min(len(q), rows)]
		copy(pane[rows-len(q):], q)
	}
	return pane
}

// wholePanel reports whether all of what an answer would mean stands on the screen.
func (m *model) wholePanel() bool {
	rows := m.detailRows()
	switch {
	case m.confirm != nil:
		return len(m.question(m.confirm)) <= rows
	case m.chooser != nil:
		_, whole := m.chooserLines(rows)
		return whole
	}
	return true
}

// tombLines say how the request in sight ended, above what it was.
func (m *model) tombLines() []string {
	s := m.styles()
	lines := hang("", m.tomb.ended, m.width, s.warn.Bold(true))
	how := present.Words.GoOn
	if m.guard.Writing() {
		how = present.Words.TextEnded
	}
	lines = append(append(lines, hang("", how, m.width, s.plain)...), "")
	for _, line := range m.detail() {
		lines = append(lines, s.faint.Render(ansi.Strip(line)))
	}
	return lines
}

// denialLines are the other ways to deny.
func (m *model) denialLines() (lines []string) {
	lines = append(lines, m.line(m.styles().bold, present.Words.OtherDenials))
	for _, c := range present.Denials() {
		lines = append(lines, hang("  "+c.Key, c.Words+": "+c.Title, m.width, m.styles().plain)...)
	}
	return lines
}

// question is what is asked before an answer that reaches far.
func (m *model) question(a *answer) []string {
	s := m.styles()
	lines := []string{s.warn.Render(strings.Repeat("━", m.width))}
	for _, ask := range a.asks {
		lines = append(lines, hang("  !", ask, m.width, s.plain)...)
	}
	return append(lines, m.line(s.warn.Bold(true), fmt.Sprintf("  press %s again to %s; any other key: no answer", a.key, a.decide.Decision)))
}

// below says how much of the detail lies under the screen.
func (m *model) below() string {
	under := m.scroll + m.detailRows()
	switch essence, all := len(m.essence()), len(m.detail()); {
	case m.tomb != nil, m.chooser != nil, m.denials:
		return ""
	case essence > under:
		return fmt.Sprintf("%s more to see: PgDn", plural(essence-under, "line", "lines"))
	case all > under:
		return "more of what it may reach: PgDn"
	}
	return ""
}

// footer is the keys, or the text that is being written, and the last notice.
func (m *model) footer() []string {
	s := m.styles()
	lines := make([]string, footerRows)
	switch {
	case m.edit != nil:
		lines[0] = m.line(s.bold, m.edit.prompt)
		lines[1] = m.edit.line(m.width, s.focus)
	case m.guard.Writing():
		copy(lines, hang("", present.Words.TextGone, m.width, s.bold))
	case m.guard.Held():
		lines[0] = m.line(s.plain, present.Words.GoOn)
	case m.chooser != nil:
		c, word := present.AllowOnce, present.RememberWordsOf(m.cursor().shown, m.chooser.offers[m.chooser.at], m.chooser.deny)
		if m.chooser.deny {
			c = present.Deny
		}
		lines[0] = m.line(s.bold, fmt.Sprintf("[%s] %s", c.Key, word))
		lines[1] = m.line(s.faint, "↑↓ what   s a g for whom   Tab allow or deny   e edit the marked one   Esc back")
	case m.denials:
		lines[0] = m.line(s.bold, fmt.Sprintf("[%s] %s", present.Deny.Key, present.Deny.Words))
		lines[1] = m.line(s.faint, "t x n i d deny in another way   Esc back to the request")
	case m.cursor() != nil:
		lines[0] = m.choiceLine()
		lines[1] = m.keysLine()
	default:
		lines[1] = m.line(s.faint, "q leave   ? help   2 to 8 what else there is")
	}
	lines[2] = m.line(s.warn, m.notice)
	return lines
}

// wideScreen is from how many columns all keys are named.
const wideScreen = 64

// A zone is where an answer can be clicked: the columns of the line.
type zone struct {
	from, to int
	key      string
}

// zones are the three answers on their line: deny at its beginning, allow at its end.
func (m *model) zones() (line string, zones []zone) {
	s := m.styles()
	parts := []string{}
	width := 0
	for i, c := range choices() {
		text := " " + c.Key + " " + c.Words + " "
		if i == m.focus {
			text = "[" + text[1:len(text)-1] + "]"
		}
		parts = append(parts, text)
		width += len(text)
	}
	gap := max((m.width-width)/2, 1)
	at := 0
	for i, text := range parts {
		if i == len(parts)-1 {
			gap = max(m.width-at-len(text), 1)
		}
		if i > 0 {
			line += strings.Repeat(" ", gap)
			at += gap
		}
		style := []lipgloss.Style{s.removed, s.plain, s.added}[i]
		if i == m.focus {
			style = s.focus
		}
		line += style.Render(text)
		zones = append(zones, zone{at, at + len(text), choices()[i].Key})
		at += len(text)
	}
	return ansi.Truncate(line, m.width, "…"), zones
}

func (m *model) choiceLine() string {
	line, _ := m.zones()
	return line
}

// keysLine names the other keys, as many as there is room for.
func (m *model) keysLine() string {
	if m.width < wideScreen {
		return m.line(m.styles().faint, "o other denials  e edit  Tab reach  ? help")
	}
	return m.line(m.styles().faint, "o other denials   e edit   v full text   Tab "+strings.ToLower(present.Words.AllReach)+"   ↑↓ next   A/D group   ? help")
}

// openHelp explains the keys; where there is no room for all of it, it can be scrolled.
func (m *model) openHelp() {
	if lines := m.helpLines(); len(lines) > m.height {
		m.reader = &reader{lines: lines}
		return
	}
	m.help = true
}

func (m *model) helpLines() []string {
	lines := []string{m.line(m.styles().plain, "sandgate approve: answer what agents ask; any key: back"), ""}
	for _, h := range helpTexts {
		for i, text := range strings.Split(ansi.Wordwrap(h.text, m.width-1-ansi.StringWidth(h.keys), ""), "\n") {
			keys := h.keys
			if i > 0 {
				keys = strings.Repeat(" ", ansi.StringWidth(keys))
			}
			lines = append(lines, m.line(m.styles().plain, keys+text))
		}
	}
	return lines
}

// helpTexts are the keys and what they do, and the rule.
var helpTexts = []struct{ keys, text string }{
	{" N, Enter  ", "deny: this call, and the rest of its batch"},
	{" y         ", "allow once: this call, this once"},
	{" r         ", "remember: what, for whom, and the resulting rule"},
	{" o         ", "other denials: t deny with a reason, x deny and ask why, n deny only this call, i deny and stop, d deny undecided"},
	{" A D       ", "the whole group; to allow it, each request must have been on screen"},
	{" e         ", "edit the arguments; what they would do is shown first"},
	{" Tab v     ", "all that it may reach; the full text"},
	{" R         ", "a rule that begins as the request does"},
	{" ↑ ↓ k j   ", "another request; PgUp PgDn Home End, Space b: scroll"},
	{" ← →       ", "move the mark for Enter"},
	{" 1-8       ", "requests, activity, sessions, rules, remembered, changes, quarantine, status"},
	{" q         ", "leave; unanswered requests stay pending"},
	{"", ""},
	{"", "A key counts half a second after its request appeared, moved or was resized, or a second and a half if it replaced another; several keys at once never count. " +
		"The next request appears only after your answer: one that ended otherwise stays until Enter, Esc or a click. If a request was not completely on screen, press the same key twice to allow it."},
}
