package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/websock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/present"
)

// Subprotocol is what the page asks for when it opens its channel.
const Subprotocol = "sandgate.page"

// Limits of one page.
const (
	maxMessage = protocol.MaxMessage // edited arguments may be as long as any
	maxAsked   = 16                  // requests of the page at once
)

// Options are what pages work on.
type Options struct {
	// Dial connects to the operator socket. Each open page has a connection of its own, and
	// counts as an approver as long as it is open.
	Dial func(context.Context) (*client.Approver, error)
	// Stores are shown on their boards.
	Stores board.Stores
}

// Live opens the channel of a page. proof is shown to it first: a secret that the page has
// from signing in, and no other program.
func Live(o Options) func(w http.ResponseWriter, r *http.Request, proof string) {
	return func(w http.ResponseWriter, r *http.Request, proof string) {
		p, err := o.Dial(r.Context())
		if err != nil {
			http.Error(w, "no connection to the supervisor", http.StatusServiceUnavailable)
			return
		}
		defer p.Close()
		conn, ctx, err := websock.Accept(w, r, Subprotocol, maxMessage)
		if err != nil {
			return // Accept has said why
		}
		pg := &page{conn: conn, approver: p, boards: board.New(p, o.Stores).View(time.Now), slots: make(chan struct{}, maxAsked), looked: map[protocol.ApprovalID]*protocol.Approval{}}
		pg.serve(ctx, proof)
	}
}

// A page is one open channel.
type page struct {
	conn     *websock.Conn
	approver *client.Approver
	boards   *board.View
	slots    chan struct{}
	running  sync.WaitGroup

	mu     sync.Mutex
	gone   present.Gone
	looked map[protocol.ApprovalID]*protocol.Approval // what the page has asked for, and waits
}

// A hello is what a page is told first: that this is the server it signed in to, the
// words and keys of its answers, and which requests wait, so that it knows which of those
// it still shows do not.
type hello struct {
	Proof    string                `json:"proof"`
	Deny     present.Choice        `json:"deny"`
	Allow    present.Choice        `json:"allow"`
	Denials  []present.Choice      `json:"denials"`
	Scopes   []present.ScopeChoice `json:"scopes"`
	Remember key                   `json:"remember"`
	Others   key                   `json:"others"`
	Boards   []string              `json:"boards"`
	Texts    any                   `json:"texts"`
	Waiting  []protocol.ApprovalID `json:"waiting"`
}

// A key leads to more answers.
type key struct {
	Key   string `json:"key"`
	Words string `json:"words"`
}

func (p *page) hello(ctx context.Context, proof string) error {
	list, err := p.approver.List(ctx)
	if err != nil {
		return err
	}
	h := hello{
		Proof: proof, Deny: present.Deny, Allow: present.AllowOnce, Denials: present.Denials(), Scopes: present.Scopes(),
		Remember: key{present.RememberKey, present.RememberWords}, Others: key{present.DenialsKey, present.DenialsWords},
		Boards: board.Names(), Texts: present.Words, Waiting: []protocol.ApprovalID{},
	}
	for _, a := range list {
		h.Waiting = append(h.Waiting, a.ID)
	}
	return p.conn.Send(ctx, map[string]any{"hello": h})
}

// serve returns when the page is gone, the supervisor is, or ctx ends. What the page
// has not answered goes on waiting.
func (p *page) serve(ctx context.Context, proof string) {
	ctx, cancel := context.WithCancel(ctx)
	defer p.running.Wait()
	defer cancel()
	events, err := p.approver.Subscribe(ctx)
	if err == nil {
		err = p.hello(ctx, proof)
	}
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
			if p.conn.Send(ctx, map[string]any{"events": p.batch(e, events)}) != nil {
				p.conn.Drop()
				return
			}
		case <-ctx.Done():
			p.conn.Close(websock.Away, "the server ends")
			return
		}
	}
}

const (
	// batchTime is how long an event waits for others, which a page draws at once.
	batchTime = 4 * time.Millisecond
	// maxBatch keeps what a page does at once short: each message is a task of its own.
	maxBatch = 200
)

// batch is an event with those that follow at once.
func (p *page) batch(first client.Event, more <-chan client.Event) []event {
	list := []event{p.eventOf(first)}
	soon := time.NewTimer(batchTime)
	defer soon.Stop()
	for len(list) < maxBatch {
		select {
		case e, ok := <-more:
			if !ok {
				return list // the next look finds it closed
			}
			list = append(list, p.eventOf(e))
		case <-soon.C:
			return list
		}
	}
	return list
}

// An event is what has happened to a request.
type event struct {
	Event   string              `json:"event"` // requested, updated, resolved
	ID      protocol.ApprovalID `json:"id"`
	Row     *row                `json:"row,omitempty"`     // not of what is resolved
	Ended   present.Sentence    `json:"ended,omitempty"`   // of what is resolved: how, by whom, and that nothing ran
	Outcome present.Sentence    `json:"outcome,omitempty"` // the same, with what it was about
	// Withdrawn: it ended at the agent's will, and what looks like it says so from now on.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

func (p *page) eventOf(e client.Event) event {
	a := &e.Approval
	if e.Kind == client.Resolved {
		x := event{Event: "resolved", ID: a.ID, Ended: present.Ended(a, e.Decision), Outcome: present.Outcome(a, e.Decision), Withdrawn: present.Withdrawn(e.Decision)}
		p.mu.Lock()
		defer p.mu.Unlock()
		if x.Withdrawn {
			seen := p.looked[a.ID]
			p.gone.Add(cmp.Or(seen, a), seen != nil, time.Now())
		}
		delete(p.looked, a.ID)
		return x
	}
	name := "requested"
	if e.Kind == client.Updated {
		name = "updated"
	}
	r := rowOf(a)
	return event{Event: name, ID: a.ID, Row: &r}
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
	do, ok := actions[q.Do]
	if !ok {
		return answer{Answer: q.Ask, Problem: "unknown action", Code: protocol.CodeUnknownMethod}
	}
	result, err := do(ctx, p, q.Params)
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
type action func(context.Context, *page, json.RawMessage) (any, error)

// actions is everything that a page can ask for.
var actions = map[string]action{
	"show":    with((*page).show),
	"full":    with((*page).full),
	"preview": with((*page).preview),
	"decide":  with((*page).decide),
	"board":   with((*page).board),
	"act":     with((*page).act),
}

// with makes an action of a method on decoded params.
func with[P any](f func(*page, context.Context, P) (any, error)) action {
	return func(ctx context.Context, pg *page, raw json.RawMessage) (any, error) {
		var p P
		if len(raw) == 0 {
			raw = json.RawMessage("{}")
		}
		if err := protocol.Unmarshal(raw, "params", &p); err != nil {
			return nil, err
		}
		return f(pg, ctx, p)
	}
}

func (p *page) show(ctx context.Context, ask protocol.ApprovalsShowParams) (any, error) {
	one, err := p.approver.Show(ctx, ask.ID)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.looked[one.ID] = &one
	p.mu.Unlock()
	return p.sheet(ctx, &one), nil
}

// sheet is what is shown of a request, with what it looks like.
func (p *page) sheet(ctx context.Context, a *protocol.Approval) sheet {
	s := sheetOf(ctx, a)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Like = p.gone.Like(a, time.Now())
	return s
}

func (p *page) board(ctx context.Context, look board.Look) (any, error) {
	return p.boards.Load(ctx, look)
}

func (p *page) act(ctx context.Context, a board.Act) (any, error) {
	said, err := p.boards.Do(ctx, a)
	var q board.Question
	if errors.As(err, &q) {
		return map[string]board.Question{"asks": q}, nil
	}
	return map[string]present.Sentence{"said": said}, err
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
func (p *page) full(ctx context.Context, ask look) (any, error) {
	args, err := arguments(ask.Text)
	if err != nil {
		return nil, err
	}
	var one protocol.Approval
	if len(args) > 0 {
		var shown protocol.ApprovalsPreviewed
		shown, err = p.approver.Preview(ctx, protocol.ApprovalsPreview{ID: ask.ID, Args: args})
		one = shown.Approval
	} else {
		one, err = p.approver.Show(ctx, ask.ID)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"lines": linesOf(&one, present.FullContent(&one), nil, nil)}, nil
}

// preview is what a request would be with other arguments, or what a pattern covers.
func (p *page) preview(ctx context.Context, ask look) (any, error) {
	args, err := arguments(ask.Text)
	if err != nil {
		return nil, err
	}
	shown, err := p.approver.Preview(ctx, protocol.ApprovalsPreview{ID: ask.ID, Args: args, Pattern: ask.Pattern})
	if err != nil {
		return nil, err
	}
	result := map[string]any{"sheet": p.sheet(ctx, &shown.Approval)}
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
func (p *page) decide(ctx context.Context, d decision) (any, error) {
	args, err := arguments(d.Text)
	if err != nil {
		return nil, err
	}
	d.Answer.Args = args
	results, err := p.approver.Decide(ctx, d.Answer)
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
