package httpgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// keepAlive is how often a stream that has nothing to say says so.
const keepAlive = 15 * time.Second

// A translator puts what has happened to a request into the words of a protocol; nil is
// nothing to say.
type translator func(context.Context, *client.Approver, client.Event) any

// Headers that narrow a stream to the requests of one session or of one agent. A query
// is not taken anywhere: see find.
const (
	SessionHeader = "Sandgate-Session"
	AgentHeader   = "Sandgate-Agent"
)

// chosen is which requests a stream is about.
func chosen(h http.Header) (func(protocol.Approval) bool, error) {
	for _, name := range []string{SessionHeader, AgentHeader} {
		if n := len(h.Values(name)); n > 1 || n == 1 && h.Get(name) == "" {
			return nil, protocol.Errorf(protocol.CodeInvalidParams, "the header %s must appear at most once, with a value", name)
		}
	}
	session, agent := h.Get(SessionHeader), h.Get(AgentHeader)
	return func(a protocol.Approval) bool {
		return (session == "" || session == string(a.SessionID)) && (agent == "" || agent == a.Agent)
	}, nil
}

// about is who makes a request, in the events of every bridge: what the agent runtime
// says of itself. Its texts are raw, as on the operator socket.
type about struct {
	Agent           string          `json:"agent"`
	SessionName     string          `json:"session_name,omitempty"`
	SessionMetadata json.RawMessage `json:"session_metadata,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
}

// shows adds what every other screen shows of a request: the texts of the files that it
// starts, and its consequences. An approver who can have an answer remembered has to see
// what it covers.
type shows struct {
	Presentation *approval.Presentation `json:"presentation,omitempty"`
	Details      map[string]string      `json:"details,omitempty"`
}

func showsOf(a protocol.Approval) shows { return shows{a.Presentation, a.Details} }

func aboutOf(a protocol.Approval) about {
	return about{a.Agent, a.SessionName, a.SessionMetadata, a.Metadata}
}

// stream answers with server-sent events: one for each thing that happens to a request,
// beginning with those that wait. A client that reads it counts as an approver.
func (s *Server) stream(say translator) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ours, err := chosen(r.Header)
		if err != nil {
			writeProblem(w, err)
			return
		}
		p, err := s.cfg.Approver(r.Context())
		if err != nil {
			writeProblem(w, err)
			return
		}
		defer p.Close()
		events, err := p.Subscribe(r.Context())
		if err != nil {
			writeProblem(w, err)
			return
		}
		out := newEvents(w)
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		ctx, cancel := context.WithCancel(r.Context())
		said := newSaying(ctx, func(e client.Event) any { return say(ctx, p, e) })
		defer said.running.Wait()
		defer cancel()
		for err == nil {
			select {
			case e, ok := <-said.room(events):
				if !ok {
					return
				}
				if ours(e.Approval) {
					said.begin(e)
				}
			case m := <-said.done:
				if said.end(); m != nil {
					err = out.send(m)
				}
			case <-tick.C:
				err = out.write(": nothing new\n\n")
			case <-r.Context().Done():
				return
			}
		}
	}
}

// maxSaid is how many events are put into words at once.
const maxSaid = 16

// A saying puts events into words beside each other, and those of one request one after the other: a request of
// megabytes, which takes seconds, holds up no other agent's.
type saying struct {
	ctx     context.Context
	say     func(client.Event) any
	done    chan any // what was said of one event, nil if that was nothing
	running sync.WaitGroup
	under   int                                     // way
	last    map[protocol.ApprovalID]<-chan struct{} // closed when the last event of a request has been said
}

func newSaying(ctx context.Context, say func(client.Event) any) *saying {
	return &saying{ctx: ctx, say: say, done: make(chan any), last: map[protocol.ApprovalID]<-chan struct{}{}}
}

// room is the events, or nothing while there are enough under way.
func (s *saying) room(events <-chan client.Event) <-chan client.Event {
	if s.under >= maxSaid {
		return nil
	}
	return events
}

func (s *saying) begin(e client.Event) {
	s.under++
	id, said := e.Approval.ID, make(chan struct{})
	before := s.last[id]
	if s.last[id] = said; e.Kind == client.Resolved { // the last
		delete(s.last, id)
	}
	s.running.Go(func() {
		defer close(said)
		if before != nil {
			<-before
		}
		select {
		case s.done <- s.say(e):
		case <-s.ctx.Done():
		}
	})
}

// end says that something was received from done.
func (s *saying) end() { s.under-- }

// An eventWriter writes server-sent events to a peer that has to read them in time.
type eventWriter struct {
	w http.ResponseWriter
	c *http.ResponseController
}

func newEvents(w http.ResponseWriter) *eventWriter {
	e := &eventWriter{w, http.NewResponseController(w)}
	_ = e.c.SetReadDeadline(time.Time{}) // the request has been read; what follows may take hours
	w.Header().Set("Content-Type", "text/event-stream")
	_ = e.write(": the requests that wait, and what becomes of them\n\n") // the first event will fail too
	return e
}

// send writes one event. JSON has no line feed in it that could end a line early.
func (e *eventWriter) send(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.write("data: " + string(b) + "\n\n")
}

func (e *eventWriter) write(text string) error {
	if err := e.c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(e.w, text); err != nil {
		return err
	}
	return e.c.Flush()
}

// inputOf is what a request asks to do: its arguments, or what it says of them where
// they cannot be edited. It reports false for a request that no longer waits.
func inputOf(ctx context.Context, p *client.Approver, a protocol.Approval) (input json.RawMessage, shown protocol.Approval, waits bool) {
	shown, err := p.Show(ctx, a.ID)
	if err == nil && len(shown.Args) > 0 {
		return shown.Args, shown, true
	}
	var e *protocol.Error
	waits = !errors.As(err, &e) || e.Code != protocol.CodeUnknownApproval && e.Code != protocol.CodeAlreadyDecided
	if err != nil {
		shown = a
	}
	raw, err := json.Marshal(shown.Payload)
	if err != nil || shown.Payload == nil {
		raw = json.RawMessage("{}")
	}
	return raw, shown, waits
}

// answer hands an answer to the supervisor, over a connection of its own.
func (s *Server) answer(ctx context.Context, id protocol.ApprovalID, make func(protocol.Approval) (protocol.ApprovalsDecide, error)) error {
	p, err := s.cfg.Approver(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	waiting, err := p.List(ctx)
	if err != nil {
		return err
	}
	for _, a := range waiting {
		if a.ID == id {
			d, err := make(a)
			if err == nil {
				d.ID = id
				_, err = p.Decide(ctx, d)
			}
			return err
		}
	}
	return protocol.Errorf(protocol.CodeUnknownApproval, "no request %q is pending", id)
}

// statuses are those of HTTP for what the supervisor says; everything else that it
// refuses is the request's fault.
func statusOf(c protocol.Code) int {
	switch c {
	case protocol.CodeUnknownApproval:
		return http.StatusNotFound
	case protocol.CodeAlreadyDecided:
		return http.StatusConflict
	case codeNoAnswer:
		return http.StatusUnprocessableEntity
	case protocol.CodeInternal, protocol.CodeShuttingDown:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// writeProblem answers with what went wrong behind the operator socket.
func writeProblem(w http.ResponseWriter, err error) {
	var e *protocol.Error
	if !errors.As(err, &e) {
		e = protocol.Errorf(protocol.CodeInternal, "no answer from the supervisor")
	}
	writeError(w, statusOf(e.Code), e)
}
