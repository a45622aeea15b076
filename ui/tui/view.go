package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/highlight"
	"github.com/sandgate/sandgate/ui/present"
)

// The smallest screen on which a request can be read.
const (
	minWidth  = 40
	minHeight = 14
)

// palette is the few styles that the screen has. Colours are the terminal's own
// sixteen, and say nothing that a sign does not say as well.
type palette struct {
	plain, bold, faint, focus, warn, added, removed, place lipgloss.Style
	comment, text, keyword                                 lipgloss.Style
}

func styles() palette {
	plain := lipgloss.NewStyle()
	return palette{
		plain:   plain,
		bold:    plain.Bold(true),
		faint:   plain.Faint(true),
		focus:   plain.Reverse(true),
		warn:    plain.Foreground(lipgloss.Yellow),
		added:   plain.Foreground(lipgloss.Green),
		removed: plain.Foreground(lipgloss.Red),
		place:   plain.Foreground(lipgloss.Cyan),
		comment: plain.Foreground(lipgloss.Cyan),
		text:    plain.Foreground(lipgloss.Green),
		keyword: plain.Foreground(lipgloss.Magenta),
	}
}

// part is the style of a part of a text. None is fainter than the rest: a lexer
// can be led to take for a comment what is none.
func (p palette) part(k highlight.Kind) lipgloss.Style {
	switch k {
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
	v.WindowTitle = "sandgate: " + m.waiting()
	return v
}

func (m *model) fits() bool { return m.width >= minWidth && m.height >= minHeight }

func (m *model) waiting() string {
	if len(m.queue) == 0 {
		return "nothing waits"
	}
	return fmt.Sprintf("%d waiting", len(m.queue))
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
	return s.Render(ansi.Truncate(text, m.width, "…"))
}

// rule is a horizontal line with a text at its end.
func (m *model) rule(text string) string {
	s := styles()
	if text == "" {
		return s.faint.Render(strings.Repeat("─", m.width))
	}
	text = " " + text + " "
	return s.faint.Render(strings.Repeat("─", max(m.width-ansi.StringWidth(text)-2, 0))) + s.focus.Render(text) + s.faint.Render("──")
}

// header names the columns of the queue.
func (m *model) header() string {
	s := styles()
	name := s.bold.Render("sandgate: " + m.waiting())
	if len(m.queue) == 0 {
		return name
	}
	columns := s.faint.Render("  " + column("left", timeWidth) + column("age", timeWidth) + column("tool", toolWidth) + column("agent", agentWidth))
	return ansi.Truncate(columns+name, m.width, "…")
}

// The widths of the queue's columns, in cells.
const (
	timeWidth  = 6
	toolWidth  = 11
	agentWidth = 15
)

// queueRows is how many lines the queue has: a fifth of the screen at most.
func (m *model) queueRows() int { return min(max(len(m.queue), 1), max(m.height/5, 3)) }

const footerRows = 4

// detailRows is how many lines of the detail are on the screen.
func (m *model) detailRows() int { return max(m.height-1-m.queueRows()-2-footerRows, 0) }

// queueLines are the part of the queue around the cursor.
func (m *model) queueLines() []string {
	if len(m.queue) == 0 {
		return []string{m.line(styles().faint, "  requests appear here as they come; q leaves, ? explains")}
	}
	rows := m.queueRows()
	at := slices.IndexFunc(m.queue, func(it *item) bool { return it.ID == m.current })
	first := min(max(at-rows/2, 0), len(m.queue)-rows)
	var lines []string
	for i, it := range m.queue[first : first+rows] {
		lines = append(lines, m.queueLine(it, i == rows-1 && first+rows < len(m.queue)))
	}
	return lines
}

// queueLine is one request: time left, age, tool, who, what.
func (m *model) queueLine(it *item, more bool) string {
	s, mark := styles().plain, "  "
	if it.ID == m.current {
		s, mark = styles().bold, "▸ "
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
	who := approval.EscapeLine(it.Agent) + " " + shortID(string(it.SessionID))
	text := mark + column(left, timeWidth) + column(present.Span(m.now().Sub(it.Created)), timeWidth) +
		column(approval.EscapeLine(string(it.Tool)), toolWidth) + column(who, agentWidth) + present.Blanks(approval.EscapeLine(it.Description))
	return m.line(s, text)
}

// column is text in a column of the given width, with a space after it.
func column(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", width-ansi.StringWidth(text)+1)
}

// shortID is the end of an id: what tells it from others of the same process.
func shortID(id string) string {
	id = approval.EscapeLine(id)
	if len(id) > 6 {
		return "…" + id[len(id)-5:]
	}
	return id
}

// pane is the part of the detail that is on the screen, or the question that
// takes its place at the bottom of it.
func (m *model) pane() []string {
	rows := m.detailRows()
	lines := m.detail()
	switch it := m.cursor(); {
	case m.orphan:
		lines = hang("  ended", "the request that you were writing about has ended; Esc goes on", m.width, styles().warn)
	case it != nil && it.shown == nil:
		lines = []string{"", "  ..."}
	case m.chooser != nil:
		lines = m.chooserLines(rows)
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

// maxQuestion is how long a question may be: its beginning must be on the screen.
func (m *model) maxQuestion() int { return m.detailRows() }

// question is what is asked before an answer that reaches far.
func (m *model) question(a *answer) []string {
	s := styles()
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
	case m.orphan, m.chooser != nil:
		return ""
	case essence > under:
		return fmt.Sprintf("%s more to see: PgDn", plural(essence-under, "line", "lines"))
	case all > under:
		return "what the sandbox allows: PgDn"
	}
	return ""
}

// footer is the keys, or the text that is being written, and the last notice.
func (m *model) footer() []string {
	s := styles()
	lines := make([]string, footerRows)
	switch {
	case m.edit != nil:
		lines[0] = m.line(s.bold, m.edit.prompt)
		lines[1] = m.edit.line(m.width)
	case m.chooser != nil:
		lines[0] = m.line(s.plain, "s in this session   a for this agent   g for everybody   (then once more)")
		other := map[bool]string{false: "deny", true: "allow"}[m.chooser.deny]
		lines[2] = m.line(s.faint, "↑↓ mark   e edit the marked one   n "+other+" instead   Esc back")
	case m.cursor() != nil:
		lines[0], lines[1] = m.choiceLines()
		lines[2] = m.keysLine()
	default:
		lines[2] = m.line(s.faint, "q leave   ? help")
	}
	lines[3] = m.line(s.warn, m.notice)
	return lines
}

// wideScreen is from how many columns the answers have whole words.
const wideScreen = 64

// choiceLines are the answers: denials on one line, allowing on the next.
func (m *model) choiceLines() (deny, allow string) {
	s := styles()
	gap, narrow := "  ", m.width < wideScreen
	if narrow {
		gap = ""
	}
	deny, allow = s.removed.Render("deny ")+gap, s.added.Render("allow")+gap
	for i, c := range choices() {
		words := c.words
		if narrow {
			words = c.word
		}
		text := " " + c.key + " " + words + " "
		if i == m.focus {
			text = s.focus.Render("[" + text[1:len(text)-1] + "]")
		}
		if c.decide.Decision == protocol.Deny {
			deny += text + gap
		} else {
			allow += text + gap
		}
	}
	return ansi.Truncate(deny, m.width, "…"), ansi.Truncate(allow, m.width, "…")
}

// keysLine names the other keys, as many as there is room for.
func (m *model) keysLine() string {
	if m.width < wideScreen {
		return m.line(styles().faint, "Enter marked  v full  ↑↓ more  ? help")
	}
	return m.line(styles().faint, "Enter marked   e edit   p pattern   v full text   A/D group   ↑↓ more   ? help")
}

func (m *model) helpLines() []string {
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(helpText), "\n") {
		lines = append(lines, m.line(styles().plain, line))
	}
	return lines[:min(len(lines), m.height)]
}

const helpText = `
sandgate approve: answer what agents ask                    any key: back

 deny   N, Enter  this call, and the rest of its batch
        n         this call only; the model goes on
        x         this call; the model is asked to explain (you may say what)
        i         this call, and the agent is told to end its turn
        d         this call, and nothing is decided about it
        D         all waiting requests of the group
 allow  y         this call, once
        s         and the same again, in this session
        a         and the same again, whenever this agent asks: for good
        g         and the same again, whoever asks: for good
        A         all waiting requests of the group, after you saw the list
 change e         edit the arguments: what becomes of them is shown first
        p         remember a pattern in place of this very call: allow or deny
 look   ↑ ↓ k j   another request        v  full text in the pager
        PgUp PgDn Home End, Space b      Tab ← →  move the mark for Enter
 leave  q         what is not answered goes on waiting

A key counts once its request has been on the screen for half a second, so
that nothing typed ahead answers a request you have not seen. Allowing what
was not all on the screen, or for good, takes the same key twice.
"The same again" is the same tool with the same payload: p is for more.
`
