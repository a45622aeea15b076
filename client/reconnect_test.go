package client

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// TestReconnectingOpensANewSession: after the connection was lost the next call
// has a new one, and a call under way is not made twice.
func TestReconnectingOpensANewSession(t *testing.T) {
	var sessions, calls atomic.Int64
	path, stop := FakeSupervisor(func(r FakeRequest) {
		switch r.Method {
		case protocol.MethodSessionOpen:
			sessions.Add(1)
			r.Reply(protocol.SessionOpened{SessionID: "s"})
		case protocol.MethodToolsCall:
			if calls.Add(1) == 2 {
				r.Hangup() // while the call is under way
				return
			}
			r.Reply(protocol.CallResult{})
		}
	})
	defer stop()
	agent := Reconnecting{Path: path, Open: protocol.SessionOpen{Agent: "me"}}
	defer agent.Close()
	for i, want := range []error{nil, ErrClosed, nil, nil} {
		if _, err := agent.Call(t.Context(), "shell", nil); !errors.Is(err, want) {
			t.Fatalf("call %d: %v, want %v", i, err, want)
		}
	}
	if sessions.Load() != 2 || calls.Load() != 4 {
		t.Errorf("%d sessions, %d calls; want 2 and 4", sessions.Load(), calls.Load())
	}
	if err := agent.Close(); err != nil {
		t.Error(err)
	}
	if _, err := agent.Call(t.Context(), "shell", nil); err != nil || sessions.Load() != 3 {
		t.Errorf("after Close: %v, %d sessions", err, sessions.Load())
	}
}

func TestReconnectingErrors(t *testing.T) {
	path, stop := FakeSupervisor(func(r FakeRequest) {
		r.Refuse(protocol.Errorf(protocol.CodeTooManyRequests, "no more sessions"))
	})
	defer stop()
	agent := Reconnecting{Path: path, Wait: time.Minute}
	var refused *protocol.Error
	if _, err := agent.Call(t.Context(), "shell", nil); !errors.As(err, &refused) || refused.Code != protocol.CodeTooManyRequests {
		t.Errorf("a refusal is not waited out: %v", err)
	}
	absent := Reconnecting{Path: t.TempDir() + "/s"}
	var dial *DialError
	if _, err := absent.Call(t.Context(), "shell", nil); !errors.As(err, &dial) {
		t.Errorf("got %v, want a *DialError", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	absent.Wait = time.Minute
	if _, err := absent.Call(ctx, "shell", nil); err == nil {
		t.Error("a call whose context has ended waits for a supervisor")
	}
}

// TestApproveConnectsAgain: a request that waits is answered over the next
// connection when the first was lost before the answer; one that is taken already
// ends nothing.
func TestApproveConnectsAgain(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	var connections atomic.Int64
	path, stop := FakeSupervisor(func(r FakeRequest) {
		switch r.Method {
		case protocol.MethodApprovalsSubscribe:
			connections.Add(1)
			for _, id := range []protocol.ApprovalID{"taken", "mine", "left"} {
				r.Notify(protocol.MethodApprovalRequested, protocol.ApprovalEvent{Approval: protocol.Approval{ID: id}})
			}
			r.Reply(protocol.ApprovalsList{})
		case protocol.MethodApprovalsDecide:
			var p protocol.ApprovalsDecide
			if err := protocol.UnmarshalParams(r.Message, &p); err != nil {
				t.Error(err)
			}
			switch {
			case p.ID == "taken":
				r.Refuse(protocol.Errorf(protocol.CodeAlreadyDecided, "ann was faster"))
			case connections.Load() == 1:
				r.Hangup()
			default:
				r.Reply(protocol.ApprovalsDecided{})
			}
		}
	})
	defer stop()
	asked := map[protocol.ApprovalID]int{}
	err := Approve(ctx, path, func(_ context.Context, _ *Approver, a protocol.Approval) (protocol.ApprovalsDecide, bool) {
		asked[a.ID]++
		if a.ID == "left" {
			cancel(enough)
			return protocol.ApprovalsDecide{}, false
		}
		return protocol.ApprovalsDecide{Decision: protocol.Allow}, true
	})
	if !errors.Is(err, enough) {
		t.Errorf("ended with %v", err)
	}
	if asked["taken"] != 2 || asked["mine"] != 2 || asked["left"] != 1 {
		t.Errorf("asked %v, want each of the first two once a connection", asked)
	}
}

func TestApproveRefused(t *testing.T) {
	path, stop := FakeSupervisor(func(r FakeRequest) { r.Refuse(protocol.Errorf(protocol.CodeUnknownMethod, "no such method")) })
	defer stop()
	err := Approve(t.Context(), path, nil)
	var refused *protocol.Error
	if !errors.As(err, &refused) || refused.Code != protocol.CodeUnknownMethod {
		t.Errorf("got %v, want the supervisor's error", err)
	}
}
