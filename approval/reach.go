package approval

import (
	"cmp"
	"fmt"
	"slices"
)

// A Reach says what a call touches, so that a remembered pattern can speak about
// it. Its zero value is reached by no pattern.
type Reach struct {
	// Elements are everything that the call touches, in every spelling that a
	// pattern may have of it. A deny needs one of them.
	Elements []Element
	// Left says how much of the call would still need an answer if everything
	// that patterns cover were allowed; 0 is nothing. An allow needs that. nil
	// counts the elements that no pattern covers, which is right where each has
	// one spelling.
	Left func(patterns []Pattern) int `json:"-"`
	// Offers proposes patterns that the approver may remember, or nil.
	Offers func() []Pattern `json:"-"`
	// NotWhole says why the tool cannot be allowed as a whole; "" if it can.
	NotWhole string
	// Single says why each call is a question of its own, or is "": then the tool cannot be
	// allowed as a whole, and no glob of an allow rule covers the call.
	Single string
	// Exact says why only an answer to this very call allows it, or is "": then no pattern
	// covers it, the tool cannot be allowed as a whole, and no allow rule covers it.
	Exact string
	// Tools are the tools that could do the same: a denial for one of them is a denial
	// for all. An allow is for the tool that it was given to.
	Tools []string
	// Same says what the call does, in the same words whichever of Tools makes it: a denial
	// that is remembered for the very call holds for all with these words. "" is no more
	// than the payload says.
	Same string
	// Inside is the same of all that the call does among other things: what was denied by
	// itself is denied in company.
	Inside []string
}

// ofTool is the reach of a call with the tool itself among what a pattern may speak of.
func (r Reach) ofTool(call *Call) Reach {
	whole := Pattern{WholeTool, call.ToolName}
	return Reach{
		Elements: append(slices.Clip(r.Elements), Element{Kind: WholeTool, Name: call.ToolName}),
		Left: func(patterns []Pattern) int {
			if r.NotWhole == "" && slices.Contains(patterns, whole) {
				return 0
			}
			return r.left(patterns)
		},
		Offers: func() []Pattern { // the narrower first
			if r.Offers == nil {
				return []Pattern{whole}
			}
			return append(r.Offers(), whole)
		},
		NotWhole: r.NotWhole, Single: r.Single, Exact: r.Exact, Tools: r.Tools, Same: r.Same, Inside: r.Inside,
	}
}

func (r Reach) left(patterns []Pattern) int {
	if r.Exact != "" {
		return 1
	}
	if r.Left != nil {
		return r.Left(patterns)
	}
	n := 0
	for _, e := range r.Elements {
		if !slices.ContainsFunc(patterns, func(p Pattern) bool { return p.covers(e) }) {
			n++
		}
	}
	return max(n, 1-len(r.Elements)) // what touches nothing known is not covered by anything
}

// Stricter is the reach of a call that two configurations decide about: a pattern covers what it
// covers in both.
func (r Reach) Stricter(other Reach) Reach {
	both := r
	both.Elements = slices.Concat(r.Elements, other.Elements)
	both.Left = func(patterns []Pattern) int { return max(r.left(patterns), other.left(patterns)) }
	both.NotWhole, both.Single, both.Exact = cmp.Or(r.NotWhole, other.NotWhole), cmp.Or(r.Single, other.Single), cmp.Or(r.Exact, other.Exact)
	return both
}

// touchedBy reports whether p covers any element.
func (r Reach) touchedBy(p Pattern) bool {
	return slices.ContainsFunc(r.Elements, p.covers)
}

// servedBy reports whether an allow of p would leave less to ask about.
func (r Reach) servedBy(p Pattern) bool {
	return r.touchedBy(p) && r.left([]Pattern{p}) < r.left(nil)
}

// An Offer is a pattern with the notes that an approver should read before it is remembered.
type Offer struct {
	Kind  PatternKind `json:"kind"`
	Value string      `json:"value"`
	Text  string      `json:"text"` // what it covers, in words
	// Whole: allowing the pattern leaves no open question about this call. Otherwise
	// the rest of the call is allowed once, and asked about again.
	Whole bool `json:"whole"`
	// Matched are calls of this session that it would have decided, the latest
	// first, at most maxMatched of them; Unshown counts the others.
	Matched []string `json:"matched,omitempty"`
	Unshown int      `json:"unshown,omitempty"`
}

// Pattern is the offered pattern.
func (o Offer) Pattern() Pattern { return Pattern{o.Kind, o.Value} }

const (
	maxMatched = 10
	maxHistory = 50
	// maxPastElements is how much a call may touch to be kept: an agent decides how
	// long its commands are.
	maxPastElements = 64
)

// A past is a call of a session that was decided on.
type past struct {
	description string
	tool        string
	connector   string
	reach       Reach
}

// note keeps a call for what later patterns would have matched. Controller.mu is held.
func (s *session) note(q *question) {
	if q.call.Request == nil || len(q.call.Reach.Elements) > maxPastElements {
		return
	}
	p := past{q.call.Request.Description, q.call.ToolName, q.call.Connector, q.call.Reach}
	if len(s.history) < maxHistory {
		s.history = append(s.history, p)
		return
	}
	s.history[s.noted%maxHistory] = p
	s.noted++
}

// pastCalls is the history, the latest first. Controller.mu is held.
func (s *session) pastCalls() []past {
	at := 0
	if len(s.history) == maxHistory {
		at = s.noted % maxHistory
	}
	list := slices.Concat(s.history[at:], s.history[:at])
	slices.Reverse(list)
	return list
}

// offers are the patterns that q's tool proposes and that may be remembered.
func (c *Controller) offers(q *question) []Offer {
	if q.call.Reach.Offers == nil || q.call.ByItself != "" {
		return nil
	}
	var list []Offer
	for _, p := range q.call.Reach.Offers() {
		if c.checkPattern(q, p, Allow) == nil {
			list = append(list, c.offer(q, p))
		}
	}
	return list
}

// offer says what p would do and have done.
func (c *Controller) offer(q *question, p Pattern) Offer {
	o := Offer{Kind: p.Kind, Value: p.Value, Text: p.Text(), Whole: q.call.Reach.left([]Pattern{p}) == 0}
	c.mu.Lock()
	calls := q.session.pastCalls()
	c.mu.Unlock()
	for _, past := range calls {
		switch {
		case past.tool != q.call.ToolName || past.connector != q.call.Connector || !past.reach.servedBy(p):
		case len(o.Matched) < maxMatched:
			o.Matched = append(o.Matched, past.description)
		default:
			o.Unshown++
		}
	}
	return o
}

// checkPattern says why p cannot be remembered as an answer to q, or nil: a
// pattern that does not even fit the call at hand does not mean what its author
// thinks. A deny need not be narrow.
func (c *Controller) checkPattern(q *question, p Pattern, e Effect) error {
	if e == Allow {
		if err := p.Check(); err != nil {
			return err
		}
		if p.Kind == WholeTool && q.call.Reach.NotWhole != "" {
			return fmt.Errorf("%q is too wide: %s", p.Value, q.call.Reach.NotWhole)
		}
		if !q.call.Reach.servedBy(p) {
			return fmt.Errorf("%q does not cover this call, or not safely: the call would still need approval", p.Value)
		}
		return nil
	}
	if !q.call.Reach.touchedBy(p) {
		return fmt.Errorf("%q does not match this call", p.Value)
	}
	return nil
}
