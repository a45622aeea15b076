package httpgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// keepAlive is how often a stream that has nothing to say says so.
const keepAlive = 15 * time.Second

// A translator puts what has happened to a request into the words of a protocol; nil is
// nothing to say.
type translator func(context.Context, *client.Approver, client.Event) any

// stream answers with server-sent events: one for each thing that happens to a request,
// beginning with those that wait. Whoever reads it counts as an approver.
func (s *Server) stream(say translator) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
		for err == nil {
			select {
			case e, ok := <-events:
				if !ok {
					return
				}
				if m := say(r.Context(), p, e); m != nil {
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
// they cannot be edited.
func inputOf(ctx context.Context, p *client.Approver, a protocol.Approval) (json.RawMessage, protocol.Approval) {
	shown, err := p.Show(ctx, a.ID)
	if err == nil && len(shown.Args) > 0 {
		return shown.Args, shown
	}
	if err != nil {
		shown = a
	}
	raw, err := json.Marshal(shown.Payload)
	if err != nil || shown.Payload == nil {
		raw = json.RawMessage("{}")
	}
	return raw, shown
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
