package tui

import (
	"slices"
	"strings"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/ui/present"
)

// An editor takes one line of text, for the request under the cursor.
type editor struct {
	about  string // what stood in front when it was opened: model.front
	prompt string
	text   []rune
	at     int // the cursor is before this character
	limit  int // characters
	// done takes the text when it is entered; the editor is closed by then.
	done func(text string) tea.Cmd
}

// write opens a line of text about what is in front.
func (m *model) write(prompt, text string, limit int, done func(text string) tea.Cmd) {
	m.edit = &editor{about: m.front(), prompt: prompt, text: []rune(text), at: len([]rune(text)), limit: limit, done: done}
}

// maxFeedback bounds a text for the model, in characters.
const maxFeedback = 2000

func (m *model) editKey(k tea.KeyPressMsg) tea.Cmd {
	e := m.edit
	switch k.String() {
	case "esc":
		m.edit = nil
		m.notice = "not answered"
	case "enter":
		m.edit = nil
		return e.done(strings.TrimSpace(string(e.text)))
	case "backspace", "ctrl+h":
		if e.at > 0 {
			e.text = slices.Delete(e.text, e.at-1, e.at)
			e.at--
		}
	case "delete":
		e.text = slices.Delete(e.text, e.at, min(e.at+1, len(e.text)))
	case "ctrl+u":
		e.text, e.at = nil, 0
	case "left", "ctrl+b":
		e.at = max(e.at-1, 0)
	case "right", "ctrl+f":
		e.at = min(e.at+1, len(e.text))
	case "home", "ctrl+a":
		e.at = 0
	case "end", "ctrl+e":
		e.at = len(e.text)
	default:
		e.insert(k.Text)
	}
	return nil
}

func (e *editor) insert(text string) {
	for _, r := range text {
		if unicode.IsControl(r) {
			r = ' '
		}
		if len(e.text) < e.limit {
			e.text = slices.Insert(e.text, e.at, r)
			e.at++
		}
	}
}

// paste goes into a text that is open; elsewhere it is nothing, since what was
// copied is not an answer.
func (m *model) paste(text string) {
	if m.edit != nil {
		m.edit.insert(text)
	}
}

// line is the part of the text around the cursor, in at most width cells.
func (e *editor) line(width int, cursor lipgloss.Style) string {
	before, under, after := approval.EscapeLine(string(e.text[:e.at])), " ", ""
	if e.at < len(e.text) {
		under, after = approval.EscapeLine(string(e.text[e.at])), approval.EscapeLine(string(e.text[e.at+1:]))
	}
	before = present.CutLeft(before, width-present.Width(under)-3)
	return "> " + before + cursor.Render(under) + present.Cut(after, width-present.Width(before+under)-2)
}
