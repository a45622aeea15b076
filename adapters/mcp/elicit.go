package mcp

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// A request for approval can be put to the client's person (elicitation/create), where the
// operator allows that and the client says that it can. The client draws the question and
// brings the answer, so an answer is worth what the client is: it is for a call of this very
// session, once, and the supervisor sees to that. Everything but a plain "Allow once", chosen
// no sooner than a person can, is a denial or no answer.

// An elicitation asks the person of one client, one request at a time.
type elicitation struct {
	client   *mcp.ServerSession
	approver *client.Approver
	turn     chan struct{} // holds a token while nothing is asked

	mu     sync.Mutex
	calls  map[protocol.CallID]context.Context // under way
	asked  map[protocol.ApprovalID]context.CancelFunc
	shown  protocol.ApprovalID // that the person has in front of them
	gone   present.Gone
	guard  guard.Guard
	last   *lately
	began  time.Time
	closed bool
}

// lately is when a question of any session of this process went: a client has one person for all its sessions, and one that is
// withdrawn in the first must not be answered in the second.
type lately struct {
	mu sync.Mutex
	at time.Time
}

func (l *lately) note() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = time.Now()
}

func (l *lately) within(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.at.IsZero() && time.Since(l.at) < d
}

// elicits reports whether a client can ask its person with a form.
func elicits(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	c := p.Capabilities.Elicitation
	return c.Form != nil || c.URL == nil // neither is a form, as it was before there were two
}

// elicit has the person asked about the calls of a session, nil if that may not be.
func elicit(ctx context.Context, dial func(context.Context) (*client.Approver, error), session protocol.SessionID, s *mcp.ServerSession, last *lately) (*elicitation, error) {
	p, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	events, err := p.SubscribeTo(ctx, session)
	if err != nil {
		p.Close()
		return nil, err
	}
	e := &elicitation{
		client: s, approver: p, turn: make(chan struct{}, 1), last: last, began: time.Now(),
		calls: map[protocol.CallID]context.Context{}, asked: map[protocol.ApprovalID]context.CancelFunc{},
	}
	e.turn <- struct{}{}
	go e.listen(events)
	return e, nil
}

func (e *elicitation) now() time.Duration { return time.Since(e.began) }

// call has requests about a call asked on its behalf: over HTTP the question goes where the
// call came from, and it ends with the call.
func (e *elicitation) call(ctx context.Context, id protocol.CallID) (done func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls[id] = ctx
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.calls, id)
	}
}

func (e *elicitation) listen(events <-chan client.Event) {
	for event := range events {
		e.event(event)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, withdraw := range e.asked {
		withdraw()
	}
}

func (e *elicitation) event(event client.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := event.Approval.ID
	withdraw, known := e.asked[id]
	switch event.Kind {
	case client.Requested:
		call := e.calls[event.Approval.CallID]
		if known || call == nil {
			return
		}
		ctx, cancel := context.WithCancel(call)
		e.asked[id] = cancel
		go e.ask(ctx, id)
	case client.Resolved:
		if known {
			withdraw()
			delete(e.asked, id)
		}
		if present.Withdrawn(event.Decision) {
			e.gone.Add(&event.Approval, id == e.shown, time.Now())
		}
	}
}

// close ends the connection and withdraws its questions. There may be none.
func (e *elicitation) close() {
	if e != nil {
		e.approver.Close()
	}
}

func (e *elicitation) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.closed
}

// ask puts one request to the person. A failure is not an answer. Other approvers may
// have one; without any, the call is denied.
func (e *elicitation) ask(ctx context.Context, id protocol.ApprovalID) {
	select {
	case <-e.turn:
	case <-ctx.Done():
		return
	}
	defer func() {
		e.guard.Look(e.now(), "", "")
		e.last.note()
		e.turn <- struct{}{}
	}()
	a, err := e.approver.Show(ctx, id)
	if err != nil {
		return
	}
	said := ""
	for round := range maxRounds {
		e.look(id, round)
		choice, err := e.question(ctx, &a, said)
		if ctx.Err() != nil {
			return // the call or its question is over, and the client knows
		}
		allowed := choice == present.AllowOnce.Words
		if err == nil && allowed && !e.guard.Answer(e.now(), e.now(), false) {
			said = tooSoon
			continue
		}
		e.answer(ctx, &a, choice, err)
		return
	}
	e.answer(ctx, &a, "", nil)
}

// look begins a round of a question.
func (e *elicitation) look(id protocol.ApprovalID, round int) {
	if round == 0 && e.last.within(guard.Other) {
		e.guard.Look(e.now(), "a session of another client", "")
	}
	e.guard.Look(e.now(), string(id), fmt.Sprint(round))
}

// maxRounds is how often a person may be too fast. A program that answers in their place is
// so always.
const maxRounds = 3

const tooSoon = "That answer came too soon after the question, so it was ignored. Please answer again:\n"

// question gives the words that were chosen, or "".
func (e *elicitation) question(ctx context.Context, a *protocol.Approval, said string) (string, error) {
	e.mu.Lock()
	e.shown = a.ID
	if like := e.gone.Like(a, time.Now()); like != "" {
		said += "Look carefully: this is " + like + ".\n"
	}
	e.mu.Unlock()
	r, err := e.client.Elicit(ctx, form(a, said))
	if err != nil {
		return "", err
	}
	switch r.Action {
	case "accept":
		choice, _ := r.Content[answerField].(string)
		if choice == present.AllowOnce.Words && present.NotWhole(a) == "" {
			return choice, nil
		}
		return present.Deny.Words, nil
	case "decline":
		return present.Deny.Words, nil
	}
	return "", nil
}

const answerField = "answer"

// asks is all that stands outside of the block.
const asks = "sandgate asks whether this call may run:\n\n"

// form is the question: the words of every screen in a block, out of which nothing in it
// can lead, whether the client draws Markdown or not. What does not fit into it can be
// denied here, and not allowed.
func form(a *protocol.Approval, said string) *mcp.ElicitParams {
	choices := []present.Choice{present.Deny, present.AllowOnce}
	why := present.NotWhole(a)
	if why != "" {
		choices = choices[:1]
		said += "You cannot allow it here: " + why + ". `sandgate approve` shows it and can allow it.\n"
	}
	words := make([]any, len(choices))
	var titles []string
	for i, c := range choices {
		words[i] = c.Words
		titles = append(titles, c.Words+": "+c.Title)
	}
	return &mcp.ElicitParams{
		Message: asks + present.Block(a, said),
		RequestedSchema: map[string]any{
			"type": "object", "required": []any{answerField},
			"properties": map[string]any{answerField: map[string]any{
				"type": "string", "title": "Answer", "description": strings.Join(titles, "; "), "enum": words,
			}},
		},
	}
}

// answer tells the supervisor. A person who has dismissed the question, or whom the client
// could not ask, leaves it to the other approvers. If there are none, it stays unanswered.
func (e *elicitation) answer(ctx context.Context, a *protocol.Approval, choice string, failed error) {
	d := protocol.ApprovalsDecide{ID: a.ID, Decision: protocol.Dismiss}
	switch {
	case failed == nil && choice == present.AllowOnce.Words:
		d = present.AllowOnce.Decide(a.ID, "")
		d.PlanDigest = a.PlanDigest
	case failed == nil && choice != "":
		d = present.Deny.Decide(a.ID, "")
	default:
		if st, err := e.approver.Status(ctx); err != nil || st.Approvers > 0 {
			return
		}
	}
	// Another approver may have been faster, and a call that is over needs no answer.
	_, _ = e.approver.Decide(ctx, d)
}
