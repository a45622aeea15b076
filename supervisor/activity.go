package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// What operators see of the calls and sessions under way, and how they end them.

// maxShownArgs is how long the arguments may be that calls.list shows.
const maxShownArgs = 4 << 10

// CallsUnderWay implements server.Supervisor.
func (s *Supervisor) CallsUnderWay() []protocol.CallInfo {
	waiting := map[[2]string]bool{}
	for _, p := range s.cfg.Approvals.Pending() {
		waiting[[2]string{p.SessionID, p.CallID}] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]protocol.CallInfo, 0, len(s.calls))
	for id, c := range s.calls {
		info := protocol.CallInfo{
			ID: callName(id), SessionID: c.session.id, CallID: c.req.CallID, Agent: c.session.agent, Tool: c.req.Tool,
			Background: c.req.Tool == protocol.ToolRunBackground, Started: c.started,
			Waiting: waiting[[2]string{string(c.session.id), string(c.req.CallID)}],
		}
		if len(c.req.Args) <= maxShownArgs {
			info.Args = c.req.Args
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b protocol.CallInfo) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return list
}

func callName(id int64) string { return fmt.Sprintf("k-%d", id) }

// Kill implements server.Supervisor. It does not wait: the call ends as any that is cancelled.
func (s *Supervisor) Kill(id string, by unixsock.Peer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, c := range s.calls {
		if callName(n) == id {
			c.kill(fmt.Errorf("an operator ended the call (%s)", by))
			return nil
		}
	}
	return protocol.Errorf(protocol.CodeUnknownCall, "no call %q is under way", id).WithHint("calls.list has those that are")
}

// EndSession implements server.Supervisor. Who did it is in the log before it is done.
func (s *Supervisor) EndSession(id protocol.SessionID, by unixsock.Peer) (protocol.SessionClosed, error) {
	s.mu.Lock()
	x, ok := s.sessions[id]
	s.mu.Unlock()
	if !ok {
		return protocol.SessionClosed{}, unknownSession(id)
	}
	err := s.append(context.Background(), audit.Record{
		Kind: audit.KindSession, Session: string(id), Peer: audit.PeerOf(by), Agent: x.agent, Data: map[string]any{"event": "ended by an operator"},
	})
	if err != nil {
		return protocol.SessionClosed{}, err
	}
	return s.CloseSession(id)
}

// Bounds on one answer about the log.
const (
	usualEntries  = 100
	maxEntryBytes = protocol.MaxMessage / 4 // of all their data
)

// Audit implements server.Supervisor.
func (s *Supervisor) Audit(q protocol.AuditQuery) (protocol.AuditEntries, error) {
	f := audit.Filter{Session: string(q.Session), Call: string(q.Call), Tool: string(q.Tool), Agent: q.Agent, Since: q.Since, Until: q.Until}
	for _, k := range q.Kinds {
		if !slices.Contains(audit.Kinds(), audit.Kind(k)) {
			return protocol.AuditEntries{}, protocol.Errorf(protocol.CodeInvalidParams, "params.kinds: no kind %q", k)
		}
		f.Kinds = append(f.Kinds, audit.Kind(k))
	}
	limit := cmp.Or(q.Limit, usualEntries)
	out := protocol.AuditEntries{Entries: []protocol.AuditEntry{}}
	for e, err := range audit.Query(s.cfg.Log.Path(), f) {
		if err != nil {
			continue // a line that is damaged is `audit verify`'s to name
		}
		if out.Entries = append(out.Entries, wireEntry(e)); len(out.Entries) > 2*limit {
			out.Entries, out.More = slices.Clone(out.Entries[len(out.Entries)-limit:]), true
		}
	}
	if over := len(out.Entries) - limit; over > 0 {
		out.Entries, out.More = out.Entries[over:], true
	}
	bytes := 0
	for i, e := range slices.Backward(out.Entries) {
		if bytes += len(e.Data); bytes > maxEntryBytes {
			out.Entries, out.More = out.Entries[i+1:], true
			break
		}
	}
	return out, nil
}

func wireEntry(e audit.Entry) protocol.AuditEntry {
	w := protocol.AuditEntry{
		Seq: e.Seq, Time: e.Time, Kind: string(e.Kind), Session: protocol.SessionID(e.Session), Call: protocol.CallID(e.Call),
		Agent: e.Agent, Tool: protocol.ToolName(e.Tool), Digest: e.Digest, Data: e.Data,
	}
	if e.Peer != nil {
		w.Peer = &protocol.Peer{UID: int(e.Peer.UID), GID: int(e.Peer.GID), PID: int(e.Peer.PID)}
	}
	return w
}
