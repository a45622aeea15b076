package tui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// A chooser offers patterns to remember in place of the very call under the cursor.
type chooser struct {
	offers []approval.Offer
	at     int
	deny   bool // what is remembered
}

// openChooser shows the offers of the request under the cursor.
func (m *model) openChooser() {
	it := m.cursor()
	switch {
	case it == nil || it.shown == nil || it.sent:
	case it.args != nil:
		m.notice = "edited arguments are allowed once: no pattern is remembered with them"
	case len(it.shown.Patterns) == 0:
		m.notice = "no pattern is offered for this request: s, a and g remember this very call"
	default:
		m.chooser = &chooser{offers: slices.Clone(it.shown.Patterns)}
	}
}

// chooserKey marks an offer, edits it, or takes it with a scope.
func (m *model) chooserKey(name string) tea.Cmd {
	c, it := m.chooser, m.cursor()
	switch name {
	case "up", "k":
		c.at = max(c.at-1, 0)
	case "down", "j", "tab":
		c.at = min(c.at+1, len(c.offers)-1)
	case "e":
		m.editPattern(it.ID, c.offers[c.at])
	case "n":
		c.deny = !c.deny
	case "s", "a", "g":
		m.chooser = nil
		m.askAboutPattern(it, c, name)
	case "esc", "q", "p":
		m.chooser = nil
		m.notice = "not answered"
	}
	return nil
}

// editPattern has the marked pattern changed; the supervisor says what comes of it.
func (m *model) editPattern(id protocol.ApprovalID, o approval.Offer) {
	text := []rune(o.Value)
	m.edit = &editor{prompt: fmt.Sprintf("The pattern (%s). Enter shows what it covers, Esc goes back.", o.Kind),
		text: text, at: len(text), limit: maxFeedback,
		done: func(value string) tea.Cmd {
			return m.preview(protocol.ApprovalsPreview{ID: id, Pattern: &approval.Pattern{Kind: o.Kind, Value: value}})
		}}
}

// offered adds an edited pattern to the offers, marked.
func (m *model) offered(it *item, o *approval.Offer) {
	if it.ID != m.current || m.chooser == nil || o == nil {
		return
	}
	c := m.chooser
	c.offers = append(c.offers, *o)
	c.at = len(c.offers) - 1
}

// askAboutPattern asks for the key of its scope once more, with what it covers.
func (m *model) askAboutPattern(it *item, c *chooser, key string) {
	o := c.offers[c.at]
	scope := map[string]approval.Scope{"s": approval.Session, "a": approval.Agent, "g": approval.Global}[key]
	pattern := o.Pattern()
	a := &answer{key: key, decide: protocol.ApprovalsDecide{ID: it.ID, Decision: protocol.Allow, Scope: scope, Pattern: &pattern}}
	if c.deny {
		a.decide.Decision = protocol.Deny
	} else {
		a.asks = m.unseen(it)
	}
	a.asks = append(a.asks, present.RememberedSentence(&it.Approval, o, scope, c.deny))
	a.asks = append(a.asks, c.notes(o)...)
	m.confirm, m.notice = a, ""
}

func (c *chooser) notes(o approval.Offer) []string { return present.OfferNotes(o, c.deny) }

// chooserLines are the offers, from the first that lets the marked one be seen.
func (m *model) chooserLines(rows int) []string {
	s, c := styles(), m.chooser
	head := "Allow this call, and remember in its place:"
	if c.deny {
		head = "Deny this call, and remember to deny:"
	}
	lines := []string{m.line(s.bold, head)}
	for i, o := range c.offers {
		mark, style := " ", s.plain
		if i == c.at {
			mark, style = "  ▸", s.bold
		}
		block := hang(mark, approval.EscapeLine(o.Text), m.width, style)
		if i == c.at {
			for _, n := range c.notes(o) {
				block = append(block, hang(" ", n, m.width, s.plain)...)
			}
			if over := len(lines) + len(block) - rows; over > 0 {
				lines = slices.Delete(lines, 1, 1+min(over, len(lines)-1))
			}
		}
		lines = append(lines, block...)
	}
	return lines[:min(len(lines), rows)]
}
