package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/websock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// Subprotocol is what the page asks for when it opens its channel.
const Subprotocol = "sandgate.page"

// Limits of one page.
const (
	maxMessage = protocol.MaxMessage // edited arguments may be as long as any
	maxAsked   = 16                  // requests of the page at once
)

// Live is the channel of a page. Each has a connection to the operator socket, made by
// dial, and counts as an approver as long as it is open. entry puts an entry of the log
// into words.
func Live(dial func(context.Context) (*client.Approver, error), entry func(protocol.AuditEntry) string) http.Handler {
	l := &live{entry: entry}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := dial(r.Context())
		if err != nil {
			http.Error(w, "no connection to the supervisor", http.StatusServiceUnavailable)
			return
		}
		defer p.Close()
		conn, ctx, err := websock.Accept(w, r, Subprotocol, maxMessage)
		if err != nil {
			return // Accept has said why
		}
		(&page{actions: l.actions(), conn: conn, approver: p, slots: make(chan struct{}, maxAsked)}).serve(ctx)
	})
}

// live is what all pages have in common.
type live struct {
	entry func(protocol.AuditEntry) string
}

// A page is one open channel.
type page struct {
	actions  map[string]action
	conn     *websock.Conn
	approver *client.Approver
	slots    chan struct{}
	running  sync.WaitGroup
}

// serve returns when the page is gone, the supervisor is, or ctx ends. What the page
// has not answered goes on waiting.
func (p *page) serve(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer p.running.Wait()
	defer cancel()
	events, err := p.approver.Subscribe(ctx)
	if err != nil {
		p.conn.Close(websock.Away, "the supervisor does not answer")
		return
	}
	p.running.Go(func() {
		defer cancel()
		p.read(ctx)
	})
	for {
		select {
		case e, ok := <-events:
			if !ok {
				p.conn.Close(websock.Away, "the supervisor has ended")
				return
			}
			if p.conn.Send(ctx, eventOf(e)) != nil {
				p.conn.Drop()
				return
			}
		case <-ctx.Done():
			p.conn.Close(websock.Away, "the server ends")
			return
		}
	}
}

// An event is what has happened to a request.
type event struct {
	Event   string              `json:"event"` // requested, updated, resolved
	ID      protocol.ApprovalID `json:"id"`
	Row     *row                `json:"row,omitempty"`     // not of what is resolved
	Outcome string              `json:"outcome,omitempty"` // of what is resolved
}

func eventOf(e client.Event) event {
	if e.Kind == client.Resolved {
		return event{Event: "resolved", ID: e.Approval.ID, Outcome: present.Outcome(&e.Approval, e.Decision)}
	}
	name := "requested"
	if e.Kind == client.Updated {
		name = "updated"
	}
	r := rowOf(&e.Approval)
	return event{Event: name, ID: e.Approval.ID, Row: &r}
}

// A question is what the page asks. Params are what Do says.
type question struct {
	Ask    int64           `json:"ask"` // comes back with the answer
	Do     string          `json:"do"`
	Params json.RawMessage `json:"params"`
}

// An answer is about one question. A problem is in words, escaped.
type answer struct {
	Answer  int64         `json:"answer"`
	Result  any           `json:"result,omitempty"`
	Problem string        `json:"problem,omitempty"`
	Code    protocol.Code `json:"code,omitempty"`
}

// read takes questions until the page is gone. What is no question ends the channel:
// the page is of this version, so it is none of ours that asks.
func (p *page) read(ctx context.Context) {
	for {
		b, err := p.conn.Receive(ctx)
		if err != nil {
			p.conn.Drop()
			return
		}
		var q question
		if err := protocol.Unmarshal(b, "message", &q); err != nil {
			p.conn.Close(websock.Policy, "not a question")
			return
		}
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		p.running.Go(func() {
			defer func() { <-p.slots }()
			if p.conn.Send(ctx, p.answer(ctx, q)) != nil {
				p.conn.Drop()
			}
		})
	}
}

func (p *page) answer(ctx context.Context, q question) answer {
	do, ok := p.actions[q.Do]
	if !ok {
		return answer{Answer: q.Ask, Problem: "there is nothing of that name to do", Code: protocol.CodeUnknownMethod}
	}
	result, err := do(ctx, p.approver, q.Params)
	if err == nil {
		return answer{Answer: q.Ask, Result: result}
	}
	a := answer{Answer: q.Ask, Problem: approval.EscapeLine(err.Error()), Code: protocol.CodeInternal}
	var e *protocol.Error
	var field *protocol.FieldError
	switch {
	case errors.As(err, &e):
		a.Code, a.Problem = e.Code, approval.EscapeLine(e.Message)
		if e.HintText != "" {
			a.Problem += " (" + approval.EscapeLine(e.HintText) + ")"
		}
	case errors.As(err, &field):
		a.Code = protocol.CodeInvalidParams
	}
	return a
}

// An action answers one kind of question.
type action func(context.Context, *client.Approver, json.RawMessage) (any, error)

// actions is everything that a page can ask for.
func (l *live) actions() map[string]action {
	return map[string]action{
		"activity": with(l.activity),
		"kill":     with(kill),
		"close":    with(closeSession),

		"show":    with(show),
		"full":    with(full),
		"preview": with(preview),
		"decide":  with(decide),
		"status":  with(status),
	}
}

// with makes an action of a function on decoded params.
func with[P any](f func(context.Context, *client.Approver, P) (any, error)) action {
	return func(ctx context.Context, a *client.Approver, raw json.RawMessage) (any, error) {
		var p P
		if len(raw) == 0 {
			raw = json.RawMessage("{}")
		}
		if err := protocol.Unmarshal(raw, "params", &p); err != nil {
			return nil, err
		}
		return f(ctx, a, p)
	}
}

func show(ctx context.Context, a *client.Approver, p protocol.ApprovalsShowParams) (any, error) {
	one, err := a.Show(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	return sheetOf(ctx, &one), nil
}

// A look is at a request with other arguments, or at a pattern. The arguments are the
// text that a person wrote: a page's own JSON would round its numbers.
type look struct {
	ID      protocol.ApprovalID `json:"id"`
	Text    string              `json:"text,omitempty"`
	Pattern *approval.Pattern   `json:"pattern,omitempty"`
}

// arguments are edited ones, without the blanks between them. The supervisor holds them
// against what a message may be.
func arguments(text string) (json.RawMessage, error) {
	if text == "" {
		return nil, nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return b.Bytes(), nil
}

// full is the content of a request before it was cut.
func full(ctx context.Context, a *client.Approver, p look) (any, error) {
	args, err := arguments(p.Text)
	if err != nil {
		return nil, err
	}
	var one protocol.Approval
	if len(args) > 0 {
		var shown protocol.ApprovalsPreviewed
		shown, err = a.Preview(ctx, protocol.ApprovalsPreview{ID: p.ID, Args: args})
		one = shown.Approval
	} else {
		one, err = a.Show(ctx, p.ID)
	}
	if err != nil {
		return nil, err
	}
	_, kind := present.Content(&one)
	return map[string]any{"lines": linesOf(present.FullContent(&one), kind, nil)}, nil
}

// preview is what a request would be with other arguments, or what a pattern covers.
func preview(ctx context.Context, a *client.Approver, p look) (any, error) {
	args, err := arguments(p.Text)
	if err != nil {
		return nil, err
	}
	shown, err := a.Preview(ctx, protocol.ApprovalsPreview{ID: p.ID, Args: args, Pattern: p.Pattern})
	if err != nil {
		return nil, err
	}
	result := map[string]any{"sheet": sheetOf(ctx, &shown.Approval)}
	if shown.Pattern != nil {
		result["pattern"] = offerOf(&shown.Approval, *shown.Pattern)
	}
	return result, nil
}

// A decision is an answer, with the text of edited arguments if there are some.
type decision struct {
	Answer protocol.ApprovalsDecide `json:"answer"`
	Text   string                   `json:"text,omitempty"`
}

// decide hands an answer on as it is. What went wrong with one of several is said for
// each; what went well is an event.
func decide(ctx context.Context, a *client.Approver, p decision) (any, error) {
	args, err := arguments(p.Text)
	if err != nil {
		return nil, err
	}
	p.Answer.Args = args
	results, err := a.Decide(ctx, p.Answer)
	if err != nil {
		return nil, err
	}
	problems := []string{}
	for _, r := range results {
		if r.Error != nil {
			problems = append(problems, approval.EscapeLine(fmt.Sprintf("%s: %s", r.ID, r.Error.Message)))
		}
	}
	return map[string]any{"problems": problems}, nil
}

func status(ctx context.Context, a *client.Approver, _ struct{}) (any, error) {
	st, err := a.Status(ctx)
	if err != nil {
		return nil, err
	}
	warnings := []string{}
	for _, w := range st.Warnings {
		warnings = append(warnings, approval.EscapeLine(w))
	}
	if !st.Sandbox.Ready {
		warnings = append(warnings, approval.EscapeLine("every tool is refused: "+st.Sandbox.Reason))
	}
	return map[string]any{"version": approval.EscapeLine(st.Version), "mode": st.Mode, "warnings": warnings}, nil
}
