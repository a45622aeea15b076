package supervisor

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
)

func (f *fixture) open(t *testing.T, peer unixsock.Peer, p protocol.SessionOpen) protocol.SessionOpened {
	t.Helper()
	opened, err := f.OpenSession(peer, p)
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// TestNamedSessions: the same user, agent, name and mode are one session, across
// connections that come and go; anything else is another.
func TestNamedSessions(t *testing.T) {
	f := newFixture(t, setup{})
	named := protocol.SessionOpen{Agent: "hook", Name: "s-1"}
	first := f.open(t, self, named)
	if first.Resumed {
		t.Error("a new session was there already")
	}
	if again := f.open(t, self, named); again.SessionID != first.SessionID || !again.Resumed {
		t.Errorf("%+v is not %+v", again, first)
	}
	stranger := self
	stranger.UID++
	for _, other := range []protocol.SessionOpened{
		f.open(t, stranger, named),
		f.open(t, self, protocol.SessionOpen{Agent: "other", Name: "s-1"}),
		f.open(t, self, protocol.SessionOpen{Agent: "hook", Name: "s-2"}),
		f.open(t, self, protocol.SessionOpen{Agent: "hook", Name: "s-1", Mode: approval.Strict}),
		f.open(t, self, protocol.SessionOpen{Agent: "hook"}),
	} {
		if other.SessionID == first.SessionID || other.Resumed {
			t.Errorf("%+v is the session of somebody else", other)
		}
	}
	for range 2 {
		if err := f.LeaveSession(first.SessionID); err != nil {
			t.Fatal(err)
		}
	}
	if back := f.open(t, self, named); back.SessionID != first.SessionID {
		t.Error("the session did not outlive its connections")
	}
	if _, err := f.CloseSession(first.SessionID); err != nil {
		t.Fatal(err)
	}
	if next := f.open(t, self, named); next.SessionID == first.SessionID || next.Resumed {
		t.Error("a closed session came back")
	}
	if err := f.LeaveSession(first.SessionID); err != nil {
		t.Errorf("leaving a session that somebody closed: %v", err)
	}
	unnamed := f.open(t, self, protocol.SessionOpen{Agent: "hook"})
	if err := f.LeaveSession(unnamed.SessionID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tools(t.Context(), unnamed.SessionID); err == nil {
		t.Error("a session without a name outlived its connection")
	}
}

// TestNamedSessionsRemember: what was allowed for the session holds for whoever comes back
// to it, and for nobody else.
func TestNamedSessionsRemember(t *testing.T) {
	f := newFixture(t, setup{absent: approval.NoApproverDeny})
	asked := 0
	f.answer(t, func(p approval.Pending) {
		asked++
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
	})
	t.Cleanup(f.approvals.Attach())
	for i, step := range []struct {
		name  string
		asked int
	}{{"s-1", 1}, {"s-1", 1}, {"s-2", 2}, {"s-1", 2}} {
		f.session = f.open(t, self, protocol.SessionOpen{Agent: "hook", Name: step.name}).SessionID
		if _, e := f.call(t.Context(), "run", runTrue); e != nil {
			t.Fatal(e)
		}
		if err := f.LeaveSession(f.session); err != nil || asked != step.asked {
			t.Fatalf("step %d: asked %d times, want %d; %v", i, asked, step.asked, err)
		}
	}
}

// TestNamedSessionsEnd when nobody has been in them for long, and not while somebody is.
func TestNamedSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		open := func(name string) protocol.SessionID {
			opened, err := s.OpenSession(self, protocol.SessionOpen{Agent: "hook", Name: name})
			if err != nil {
				t.Fatal(err)
			}
			return opened.SessionID
		}
		alive := func(id protocol.SessionID) bool { _, err := s.Tools(t.Context(), id); return err == nil }
		stays, goes := open("stays"), open("goes")
		s.LeaveSession(goes)
		time.Sleep(namedIdle - time.Second)
		if !alive(goes) {
			t.Error("closed too early")
		}
		if back := open("goes"); back != goes {
			t.Error("it did not come back")
		}
		time.Sleep(2 * namedIdle)
		if !alive(goes) || !alive(stays) {
			t.Error("closed while somebody was in it")
		}
		s.LeaveSession(goes)
		time.Sleep(namedIdle + time.Second)
		synctest.Wait()
		if alive(goes) || !alive(stays) || len(s.named) != 1 {
			t.Errorf("an abandoned session stays, or another went: %d names", len(s.named))
		}
		var left []protocol.SessionID
		for _, name := range []string{"first", "second"} {
			left = append(left, open(name))
			s.LeaveSession(left[len(left)-1])
			time.Sleep(time.Second)
		}
		s.makeRoom(4)
		if !alive(left[0]) {
			t.Error("closed although there is room")
		}
		for i := range 3 { // the one left first goes first, and one that is in use never
			s.makeRoom(3 - i)
			if alive(left[0]) || alive(left[1]) != (i < 1) || !alive(stays) {
				t.Errorf("%d: first %v, second %v, stays %v", i, alive(left[0]), alive(left[1]), alive(stays))
			}
		}
	})
}

// bare is a supervisor without tools or a sandbox.
func bare(t *testing.T) *Supervisor {
	t.Helper()
	log, _, err := audit.Open(filepath.Join(t.TempDir(), "audit.jsonl"), audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	registry, err := tools.NewRegistry()
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Version: "test", Tools: registry, Approvals: approval.NewController(approval.Options{}), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestCallIDsOfANamedSession: two connections in it cannot use one id at the same time.
func TestCallIDsOfANamedSession(t *testing.T) {
	f := newFixture(t, setup{})
	f.session = f.open(t, self, protocol.SessionOpen{Agent: "hook", Name: "s-1"}).SessionID
	var duplicate, other error
	f.answer(t, func(p approval.Pending) {
		if p.CallID == "c1" {
			req := protocol.ToolsCall{SessionID: f.session, CallID: "c1", Tool: "read_file", Args: json.RawMessage(`{"path": "x"}`)}
			_, duplicate = f.Call(t.Context(), self, req, nil)
			req.CallID = "c2"
			_, other = f.Call(t.Context(), self, req, nil)
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	for range 2 {
		if _, e := f.call(t.Context(), "run", runTrue); e != nil {
			t.Fatal(e)
		}
	}
	var e *protocol.Error
	if !errors.As(duplicate, &e) || e.Code != protocol.CodeDuplicateCall || other != nil {
		t.Errorf("the same id: %v; another: %v", duplicate, other)
	}
}
