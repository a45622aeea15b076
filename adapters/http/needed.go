package httpgate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/websock"
	"github.com/sandgate/sandgate/protocol"
)

// The bridge for approvals over a WebSocket: approval_needed, and an answer to it.
//
// In that protocol an answer names no request: it is for the last that was sent. So
// requests are sent one at a time, and when one ends in another way than by this
// connection's answer, the connection is closed: an answer that is on its way then must
// not reach the next request. Nor may the second half of one that was sent twice, as by a
// double click: an answer that names no request and comes right after another one closes
// the connection too. A client that opens its next connection is asked what still waits. It
// does so at once, and the person has not seen that: so an answer that names no request has
// to come well after its request there, too.
// One that asks for the subprotocol idsProtocol gets all requests at once, and says in
// each answer which it is for.
const (
	idsProtocol = "sandgate.ids"
	// closedElsewhere is the code of a connection whose request ended in another way.
	closedElsewhere = 4001
)

// A neededMessage is a request.
type neededMessage struct {
	Type           string              `json:"type"` // approval_needed
	Tool           protocol.ToolName   `json:"tool"`
	Arguments      json.RawMessage     `json:"arguments"`
	BatchRemaining []batchItem         `json:"batch_remaining,omitempty"` // absent for the last
	ApprovalID     protocol.ApprovalID `json:"approval_id"`
	SessionID      protocol.SessionID  `json:"session_id"`
	Description    string              `json:"description"`
	about
	shows
}

type batchItem struct {
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"` // as the agent gave them
}

// A neededAnswer answers one.
type neededAnswer struct {
	Approved   *bool               `json:"approved"`
	Scope      approval.Scope      `json:"scope,omitempty"`
	Mode       approval.RejectMode `json:"mode,omitempty"`
	Feedback   string              `json:"feedback,omitempty"`
	ApprovalID protocol.ApprovalID `json:"approval_id,omitempty"`
}

// decide is the answer in the supervisor's words. A denial is of the whole batch, unless
// it says otherwise.
func (n neededAnswer) decide(id protocol.ApprovalID) protocol.ApprovalsDecide {
	d := protocol.ApprovalsDecide{ID: id, Decision: protocol.Deny, Scope: n.Scope, Mode: n.Mode, Feedback: n.Feedback}
	if *n.Approved {
		d.Decision = protocol.Allow
	}
	return d
}

// A neededEnd and a neededProblem are for clients that know ids.
type neededEnd struct {
	Type       string              `json:"type"` // approval_resolved
	ApprovalID protocol.ApprovalID `json:"approval_id"`
	Approved   bool                `json:"approved"`
	Reason     string              `json:"reason,omitempty"`
}

type neededProblem struct {
	Type       string              `json:"type"` // error
	ApprovalID protocol.ApprovalID `json:"approval_id"`
	Code       protocol.Code       `json:"code"`
	Message    string              `json:"message"`
}

func (s *Server) needed(w http.ResponseWriter, r *http.Request) {
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
	conn, ctx, err := websock.Accept(w, r, idsProtocol, protocol.MaxMessage)
	if err != nil {
		return // Accept has said why
	}
	defer conn.Drop()
	events, err := p.Subscribe(ctx)
	if err != nil {
		conn.Close(websock.Away, "the supervisor does not answer")
		return
	}
	n := &neededConn{conn: conn, approver: p, ours: ours, ids: conn.Subprotocol() == idsProtocol, stood: s.stood, left: &s.left}
	n.serve(ctx, events)
}

// A leaving is the last request that went from a client without ids, without an answer of its own:
// the person may still be about to answer it, whichever connection shows them the next.
type leaving struct {
	mu sync.Mutex
	id protocol.ApprovalID
	at time.Time
}

// note says that a request goes; "" is the last one still.
func (l *leaving) note(id protocol.ApprovalID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.at = cmp.Or(id, l.id), time.Now()
}

// answered says that a request was answered after all.
func (l *leaving) answered(id protocol.ApprovalID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == id {
		l.id = ""
	}
}

// before reports whether another request went within a time.
func (l *leaving) before(id protocol.ApprovalID, within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id != "" && l.id != id && time.Since(l.at) < within
}

// A neededConn is one client. It is served by one goroutine, beside one that reads.
type neededConn struct {
	conn     *websock.Conn
	approver *client.Approver
	ids      bool
	ours     func(protocol.Approval) bool // requests that the client has asked for

	waiting []protocol.Approval // in their turns
	asked   protocol.ApprovalID // that was sent last; of a client without ids
	own     protocol.ApprovalID // that the client's answer has ended
	stood   time.Duration
	left    *leaving
	due     time.Time // from when an answer without an id can be to what was asked, and is not meant for the one before
}

func (n *neededConn) serve(ctx context.Context, events <-chan client.Event) {
	answers := make(chan []byte)
	ctx, cancel := context.WithCancel(ctx)
	read := make(chan struct{})
	defer func() {
		switch {
		case n.asked == "" || n.asked == n.own:
		case time.Now().Before(n.due): // the person has not read it yet, and has the one before in mind
			n.left.note(n.own)
		default:
			n.left.note(n.asked)
		}
		n.conn.Drop()
		cancel()
		<-read
	}()
	go func() {
		defer close(read)
		defer cancel()
		for {
			b, err := n.conn.Receive(ctx)
			if err != nil {
				return
			}
			select {
			case answers <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	for more := true; more; {
		select {
		case e, ok := <-events:
			if !ok {
				n.conn.Close(websock.Away, "the supervisor stopped")
				return
			}
			more = n.event(ctx, e)
		case b := <-answers:
			more = n.answered(ctx, b)
		case <-ctx.Done():
			return
		}
	}
}

// event takes in what has happened to a request, and reports whether to go on.
func (n *neededConn) event(ctx context.Context, e client.Event) bool {
	a := e.Approval
	if !n.ours(a) {
		return true
	}
	switch e.Kind {
	case client.Requested:
		if slices.ContainsFunc(n.waiting, func(w protocol.Approval) bool { return w.ID == a.ID }) {
			return true
		}
		at := len(n.waiting)
		for at > 0 && n.waiting[at-1].Turn > a.Turn {
			at--
		}
		n.waiting = slices.Insert(n.waiting, at, a)
		if !n.ids {
			return n.next(ctx)
		}
		m, _ := n.message(ctx, a) // one that is over now has its end coming
		return n.conn.Send(ctx, m) == nil
	case client.Resolved:
		n.waiting = slices.DeleteFunc(n.waiting, func(w protocol.Approval) bool { return w.ID == a.ID })
		switch {
		case n.ids:
			end := neededEnd{Type: "approval_resolved", ApprovalID: a.ID}
			if d := e.Decision; d != nil {
				end.Approved, end.Reason = allowed(d), d.Reason
			}
			return n.conn.Send(ctx, end) == nil
		case a.ID == n.asked && a.ID != n.own:
			n.conn.Close(closedElsewhere, "another client answered, or time ran out; connect again for the next request")
			return false
		case a.ID == n.asked:
			n.asked = ""
		}
		return n.next(ctx)
	}
	return true
}

// next sends the first request to a client that has answered the one before it. What
// that answer has ended as well, such as the rest of a batch, waits no longer although
// its end is still to be read: it is passed over. Whether it waits is asked after the
// answer was taken, and taking one ends all that it ends.
func (n *neededConn) next(ctx context.Context) bool {
	for n.asked == "" && len(n.waiting) > 0 {
		a := n.waiting[0]
		m, waits := n.message(ctx, a)
		if !waits {
			n.waiting = n.waiting[1:]
			continue
		}
		n.asked = a.ID
		if n.own != "" || n.left.before(a.ID, recently*n.stood) {
			n.due = time.Now().Add(n.stood)
		}
		return n.conn.Send(ctx, m) == nil
	}
	return true
}

// message reports false for a request that no longer waits.
func (n *neededConn) message(ctx context.Context, a protocol.Approval) (m neededMessage, waits bool) {
	m = neededMessage{Type: "approval_needed", Tool: a.Tool, ApprovalID: a.ID, SessionID: a.SessionID, Description: a.Description, about: aboutOf(a)}
	var shown protocol.Approval
	m.Arguments, shown, waits = inputOf(ctx, n.approver, a)
	m.shows = showsOf(shown)
	for _, next := range a.BatchRemaining {
		tool, args, _ := strings.Cut(next, " ")
		m.BatchRemaining = append(m.BatchRemaining, batchItem{tool, args})
	}
	return m, waits
}

// answered takes an answer, and reports whether to go on.
func (n *neededConn) answered(ctx context.Context, b []byte) bool {
	var a neededAnswer
	err := protocol.Unmarshal(b, "answer", &a)
	if err == nil && a.Approved == nil {
		err = &protocol.FieldError{Path: "answer.approved", Reason: "must be true or false"}
	}
	if err != nil {
		n.conn.Close(websock.Policy, reason(err))
		return false
	}
	id := a.ApprovalID
	switch {
	case n.ids && id == "":
		n.conn.Close(websock.Policy, "the answer must name its request as approval_id")
		return false
	case !n.ids && n.asked == "", !n.ids && n.asked == n.own, !n.ids && id != "" && id != n.asked:
		n.conn.Close(websock.Policy, "no request was sent that this answers")
		return false
	case !n.ids && id == "" && time.Now().Before(n.due):
		n.conn.Close(closedElsewhere, "an answer without approval_id came too soon after the one before; connect again for the next request")
		return false
	case !n.ids:
		id = n.asked
	}
	_, err = n.approver.Decide(ctx, a.decide(id))
	var e *protocol.Error
	switch {
	case err == nil:
		n.own = id // its end comes as an event
		n.left.answered(id)
		return true
	case n.ids && errors.As(err, &e):
		return n.conn.Send(ctx, neededProblem{"error", id, e.Code, e.Message}) == nil
	case errors.As(err, &e) && (e.Code == protocol.CodeAlreadyDecided || e.Code == protocol.CodeUnknownApproval):
		n.conn.Close(closedElsewhere, "another client answered, or time ran out; connect again for the next request")
	default:
		n.conn.Close(websock.Policy, reason(err))
	}
	return false
}

// reason is an error as the reason of a close, which has room for 123 bytes.
func reason(err error) string {
	text := approval.EscapeLine(err.Error())
	for i := range text {
		if i > 110 {
			return text[:i]
		}
	}
	return text
}
