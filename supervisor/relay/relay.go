package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sandgate/sandgate/approval"
)

// A Decider decides, and knows which tools of MCP servers were let through as what.
type Decider interface {
	approval.Outer
	Get(server, tool string) string
	Put(server, tool, digest string) error
}

// The requests of a draft's supervisor.
const (
	toDecide   = "decide"
	toCheck    = "check"
	toRecord   = "recorded"
	definition = "definition"
	approved   = "approved"
)

// What a call is asked, by the one that decides.
const (
	left      = "left"
	offers    = "offers"
	unseen    = "unseen"
	revise    = "revise"
	presented = "present"
	details   = "details"
	asked     = "asked"
	boundary  = "boundary"
	within    = "within"
)

// A question is a call on the socket.
type question struct {
	Call    approval.Call
	Blocked *approval.Blocked `json:",omitempty"` // Call.Err
	Number  uint64            // by which it is called back
	Can     []string          // which of the above it has
}

// about asks a call something.
type about struct {
	Number   uint64
	Patterns []approval.Pattern `json:",omitempty"`
	Args     json.RawMessage    `json:",omitempty"`
	Request  string             `json:",omitempty"`
	Then     string             `json:",omitempty"`
}

// A ruling is the result of Decide.
type ruling struct {
	Decision approval.Decision
	Denied   bool
	Code     approval.Code `json:",omitempty"`
	Hint     string        `json:",omitempty"`
}

// A known is a tool's definition.
type known struct{ Server, Tool, Digest string }

// Serve has d decide about what comes over conn, until it ends.
func Serve(conn io.ReadWriteCloser, d Decider) {
	s := &outer{decider: d}
	s.peer = newPeer(conn, s.serve)
	s.peer.read()
}

type outer struct {
	peer    *peer
	decider Decider
}

func (o *outer) serve(ctx context.Context, method string, body json.RawMessage) (any, error) {
	switch method {
	case toDecide:
		var q question
		if err := decode(body, &q); err != nil {
			return nil, err
		}
		d, err := o.decider.Decide(ctx, o.call(q))
		r := ruling{Decision: d}
		var denied *approval.DeniedError
		if errors.As(err, &denied) {
			return ruling{denied.Decision, true, denied.Code, denied.Hint}, nil
		}
		return r, err
	case toCheck:
		var q question
		if err := decode(body, &q); err != nil {
			return nil, err
		}
		return o.decider.Check(o.call(q))
	case toRecord:
		var id string
		if err := decode(body, &id); err != nil {
			return nil, err
		}
		return nil, o.decider.Recorded(id)
	case definition, approved:
		var k known
		if err := decode(body, &k); err != nil {
			return nil, err
		}
		if method == definition {
			return o.decider.Get(k.Server, k.Tool), nil
		}
		return nil, o.decider.Put(k.Server, k.Tool, k.Digest)
	}
	return nil, fmt.Errorf("relay: bug: request %q", method)
}

// call is a question as a call, which asks back for what it can do.
func (o *outer) call(q question) approval.Call {
	c, me := q.Call, about{Number: q.Number}
	if q.Blocked != nil {
		c.Err = q.Blocked
	}
	for _, can := range q.Can {
		switch can {
		case left:
			c.Reach.Left = func(patterns []approval.Pattern) int {
				me, n := me, 1
				if me.Patterns = patterns; o.peer.compute(left, me, &n) != nil {
					return 1
				}
				return n
			}
		case offers:
			c.Reach.Offers = func() (list []approval.Pattern) {
				_ = o.peer.compute(offers, me, &list)
				return list
			}
		case unseen:
			c.Unseen = sync.OnceValues(func() (any, string) {
				digest := ""
				if err := o.peer.compute(unseen, me, &digest); err != nil || digest == "" {
					digest = "unknown: " + errEnded.Error() // which permits nothing
				}
				return nil, digest
			})
		case revise:
			c.Revise = func(args json.RawMessage) (approval.Call, error) {
				me := me
				me.Args = args
				var revised question
				if err := o.peer.compute(revise, me, &revised); err != nil {
					return approval.Call{}, err
				}
				return o.call(revised), nil
			}
		case presented:
			c.Present = func(ctx context.Context) (p *approval.Presentation, err error) {
				err = o.peer.ask(ctx, presented, me, &p)
				return p, err
			}
		case details:
			c.Details = func() (all map[string]string) {
				_ = o.peer.compute(details, me, &all)
				return all
			}
		case boundary:
			c.Boundary = func() (text string) {
				_ = o.peer.compute(boundary, me, &text) // "" has nothing within it
				return text
			}
		case within:
			c.Within = func(then string) (is bool) {
				me := me
				me.Then = then
				return o.peer.compute(within, me, &is) == nil && is
			}
		case asked:
			c.Asked = func(requestID string) {
				me := me
				me.Request = requestID
				_ = o.peer.compute(asked, me, nil)
			}
		}
	}
	return c
}

// Ask is the Decider at the other end of conn.
func Ask(conn io.ReadWriteCloser) *Asker {
	a := &Asker{open: map[uint64]openCall{}}
	a.peer = newPeer(conn, a.serve)
	go a.peer.read()
	return a
}

// An Asker puts calls to the other side.
type Asker struct {
	peer *peer

	mu   sync.Mutex
	last uint64
	open map[uint64]openCall
}

// An openCall is being decided about.
type openCall struct {
	call approval.Call
	// first is the number of the call as the agent made it; an approver may have had it with
	// other arguments since.
	first uint64
}

// Ended is closed when the other side is gone.
func (a *Asker) Ended() <-chan struct{} { return a.peer.ctx.Done() }

func (a *Asker) Decide(ctx context.Context, c approval.Call) (approval.Decision, error) {
	q, err := a.put(c, 0)
	if err != nil {
		return approval.Decision{}, err
	}
	defer a.over(q.Number)
	var r ruling
	if err := a.peer.ask(ctx, toDecide, q, &r); err != nil {
		return approval.Decision{}, err
	}
	if r.Denied {
		return approval.Decision{}, &approval.DeniedError{Decision: r.Decision, Code: r.Code, Hint: r.Hint}
	}
	return r.Decision, nil
}

func (a *Asker) Check(c approval.Call) (v approval.Verdict, err error) {
	q, err := a.put(c, 0)
	if err == nil {
		defer a.over(q.Number)
		err = a.peer.compute(toCheck, q, &v)
	}
	return v, err
}

func (a *Asker) Recorded(requestID string) error { return a.peer.compute(toRecord, requestID, nil) }

// Get gives a digest that no definition has where none can be had: then the tool is a changed one.
func (a *Asker) Get(server, tool string) (digest string) {
	if err := a.peer.compute(definition, known{Server: server, Tool: tool}, &digest); err != nil {
		return "unknown: " + err.Error()
	}
	return digest
}

func (a *Asker) Put(server, tool, digest string) error {
	return a.peer.compute(approved, known{server, tool, digest}, nil)
}

// put makes a question of a call, which can be called back until the first is over.
func (a *Asker) put(c approval.Call, first uint64) (question, error) {
	q := question{Call: c}
	if c.Err != nil && (!errors.As(c.Err, &q.Blocked) || q.Blocked == nil) {
		q.Blocked = &approval.Blocked{Reason: c.Err.Error()}
	}
	for name, has := range map[string]bool{
		left: c.Reach.Left != nil, offers: c.Reach.Offers != nil, unseen: c.Unseen != nil, revise: c.Revise != nil,
		presented: c.Present != nil, details: c.Details != nil, asked: c.Asked != nil,
		boundary: c.Boundary != nil, within: c.Within != nil,
	} {
		if has {
			q.Can = append(q.Can, name)
		}
	}
	if err := exact(q); err != nil {
		return q, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	q.Number = a.last
	if first == 0 {
		first = q.Number
	} else if _, ok := a.open[first]; !ok {
		return q, errOver
	}
	a.open[q.Number] = openCall{c, first}
	return q, nil
}

func (a *Asker) over(first uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, o := range a.open {
		if o.first == first {
			delete(a.open, n)
		}
	}
}

var errOver = errors.New("the call is over")

// exact refuses what JSON would change on its way: what is then decided about would be a call
// with other names.
func exact(q question) error {
	raw, err := json.Marshal(q)
	if err == nil && bytes.Contains(bytes.ReplaceAll(raw, []byte(`\\`), nil), []byte(`\ufffd`)) {
		err = errors.New("it has a name or a word that is not UTF-8, and a call on a draft cannot prompt for that")
	}
	return err
}

// serve answers what a call is asked.
func (a *Asker) serve(ctx context.Context, method string, body json.RawMessage) (any, error) {
	var ask about
	if err := decode(body, &ask); err != nil {
		return nil, err
	}
	a.mu.Lock()
	o, ok := a.open[ask.Number]
	a.mu.Unlock()
	c := o.call
	switch {
	case !ok:
		return nil, errOver
	case method == left && c.Reach.Left != nil:
		return c.Reach.Left(ask.Patterns), nil
	case method == offers && c.Reach.Offers != nil:
		return c.Reach.Offers(), nil
	case method == boundary && c.Boundary != nil:
		return c.Boundary(), nil
	case method == within && c.Within != nil:
		return c.Within(ask.Then), nil
	case method == unseen && c.Unseen != nil:
		_, digest := c.Unseen()
		return digest, nil
	case method == revise && c.Revise != nil:
		revised, err := c.Revise(ask.Args)
		if err != nil {
			return nil, err
		}
		return a.put(revised, o.first)
	case method == presented && c.Present != nil:
		return c.Present(ctx)
	case method == details && c.Details != nil:
		return c.Details(), nil
	case method == asked && c.Asked != nil:
		c.Asked(ask.Request)
		return nil, nil
	}
	return nil, fmt.Errorf("relay: bug: a call was asked for %q", method)
}
