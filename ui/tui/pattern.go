package tui

import (
	"fmt"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// A chooser is what can be remembered of the request under the cursor: what, for whom, and
// whether to allow or to deny it. The sentence that will hold stands below.
type chooser struct {
	offers []approval.Offer
	at     int
	scope  approval.Scope
	deny   bool
}

// openChooser shows what can be remembered of the request under the cursor.
func (m *model) openChooser() {
	it := m.cursor()
	switch {
	case it == nil || it.shown == nil || it.sent || m.asking != nil:
	case len(present.Offers(it.shown)) == 0:
		m.notice = present.Words.OnceEach
	case it.args != nil:
		m.notice = present.Words.OnceEdited
	default:
		m.chooser = &chooser{offers: present.Offers(it.shown), scope: approval.Session}
		m.denials = false
	}
}

// chooserKey marks an offer, edits it, or answers with it.
func (m *model) chooserKey(name string, begun time.Duration) tea.Cmd {
	c, it := m.chooser, m.cursor()
	if m.asking != nil {
		m.notice = m.held()
		return nil
	}
	if s := present.ScopeOf(name); s != "" {
		c.scope = s
		return nil
	}
	switch name {
	case "up", "k":
		c.at = max(c.at-1, 0)
	case "down", "j":
		c.at = min(c.at+1, len(c.offers)-1)
	case "tab":
		c.deny = !c.deny
	case "e":
		if c.offers[c.at].Kind == "" {
			m.notice = "this exact call cannot be changed; mark a pattern"
			return nil
		}
		m.editPattern(it.ID, c.offers[c.at])
	case "y", "N":
		if (name == "N") != c.deny {
			m.notice = map[bool]string{true: "N denies and remembers it; Tab changes that", false: "y allows and remembers it; Tab changes that"}[c.deny]
			return nil
		}
		return m.remember(it, c, begun)
	case "esc", "q", present.RememberKey:
		m.chooser = nil
		m.notice = "not answered"
	}
	return nil
}

// remember answers with what is marked.
func (m *model) remember(it *item, c *chooser, begun time.Duration) tea.Cmd {
	if !m.settled(begun) {
		return nil
	}
	if unseen := m.unseen(it); !c.deny && len(unseen) > 0 {
		m.notice = unseen[0]
		return nil
	}
	o := c.offers[c.at]
	a := &answer{decide: protocol.ApprovalsDecide{ID: it.ID, Decision: protocol.Allow, Scope: c.scope}}
	if c.deny {
		a.decide.Decision = protocol.Deny
	}
	if o.Kind != "" {
		pattern := o.Pattern()
		a.decide.Pattern = &pattern
	}
	m.chooser = nil
	return m.send(a)
}

// editPattern has the marked pattern changed; the supervisor says what comes of it.
func (m *model) editPattern(id protocol.ApprovalID, o approval.Offer) {
	m.write(fmt.Sprintf("The pattern (%s). Enter shows what it covers, Esc goes back.", o.Kind), o.Value, maxFeedback, func(value string) tea.Cmd {
		return m.preview(protocol.ApprovalsPreview{ID: id, Pattern: &approval.Pattern{Kind: o.Kind, Value: value}})
	})
}

// offered adds an edited pattern to the offers, marked.
func (m *model) offered(o *approval.Offer) {
	if m.chooser == nil || o == nil {
		return
	}
	c := m.chooser
	c.offers = append(c.offers, *o)
	c.at = len(c.offers) - 1
}

// minOffers is how many lines the offers have at least, with their heading.
const minOffers = 2

// chooserLines are the offers, from the first that lets the marked one be seen, and the
// sentence that would hold. whole says that there is room for all of the sentence and of
// what is said about it, and for the offers to be seen: without it nothing is remembered.
func (m *model) chooserLines(rows int) (lines []string, whole bool) {
	s, c, it := m.styles(), m.chooser, m.cursor()
	var below []string
	for _, scope := range present.Scopes() {
		mark, style := " ( ) ", s.plain
		if scope.Scope == c.scope {
			mark, style = " (•) ", s.bold
		}
		below = append(below, m.line(style, mark+scope.Key+" "+scope.Words))
	}
	o := c.offers[c.at]
	below = append(below, hang("", string(present.RememberedSentence(it.shown, o, c.scope, c.deny)), m.width, s.warn.Bold(true))...)
	for _, n := range present.OfferNotes(it.shown, o, c.deny) {
		style := s.plain
		if n.Careful {
			style = s.warn
		}
		below = append(below, hang("", string(n.Text), m.width, style)...)
	}
	lines = []string{m.line(s.bold, "Remember: what, and for whom")}
	if len(below) > rows-minOffers { // for whom is said by the sentence as well
		below = below[len(present.Scopes()):]
	}
	room := max(rows-len(below), minOffers)
	for i, o := range c.offers {
		mark, style := " ", s.plain
		if i == c.at {
			mark, style = "  ▸", s.bold
		}
		block := hang(mark, string(present.End(o.Text)), m.width, style)
		if i <= c.at {
			if over := len(lines) + len(block) - room; over > 0 {
				lines = slices.Delete(lines, 1, 1+min(over, len(lines)-1))
			}
		} else if len(lines)+len(block) > room {
			break
		}
		lines = append(lines, block...)
	}
	lines = append(lines[:min(len(lines), room)], below...)
	return lines[:min(len(lines), rows)], len(lines) <= rows
}
