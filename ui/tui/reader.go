package tui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// A reader is the pager of those who have none: the whole text of one request, in
// place of the screen.
type reader struct {
	id    protocol.ApprovalID
	lines []string // of the screen's width
	top   int
}

// read opens the reader on the request under the cursor.
func (m *model) read(it *item) {
	m.reader = &reader{id: it.ID, lines: m.fullText(it)}
	m.seen()
}

// fullText is everything about a request in lines of the screen's width.
func (m *model) fullText(it *item) []string {
	return present.Fit(present.Text(it.shown, m.now(), true), m.width)
}

// readerRows is how many lines of the text are on the screen.
func (m *model) readerRows() int { return max(m.height-1, 1) }

// readerKey moves through the text. Any other key closes it.
func (m *model) readerKey(name string) tea.Cmd {
	r, page := m.reader, m.readerRows()-1
	switch name {
	case "down", "j", "enter":
		r.top++
	case "up", "k":
		r.top--
	case "pgdown", "space", "ctrl+f":
		r.top += page
	case "pgup", "b", "ctrl+b":
		r.top -= page
	case "home":
		r.top = 0
	default:
		m.reader = nil
		m.sight = sight{} // the screen is new to the eye
		return nil
	}
	r.top = max(min(r.top, len(r.lines)-m.readerRows()), 0)
	m.seen()
	return nil
}

// seen counts a text as read whose last line has been on the screen: there is no
// way there that leaves lines out.
func (m *model) seen() {
	r := m.reader
	if it := m.find(r.id); it != nil && r.top+m.readerRows() >= len(r.lines) {
		it.read = true
	}
}

func (m *model) readerLines() []string {
	r, rows := m.reader, m.readerRows()
	lines := append([]string{}, r.lines[min(r.top, len(r.lines)):min(r.top+rows, len(r.lines))]...)
	for len(lines) < rows {
		lines = append(lines, "")
	}
	status := fmt.Sprintf("lines %d to %d of %d   Space, b, ↑, ↓; any other key: back", r.top+1, min(r.top+rows, len(r.lines)), len(r.lines))
	return append(lines, m.line(m.styles().focus, status))
}
