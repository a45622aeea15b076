package supervisor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/history"
)

// entries are the data of the log's entries of one kind.
func (f *fixture) entries(t *testing.T, kind audit.Kind) (list []string) {
	t.Helper()
	for e, err := range audit.Query(f.logPath, audit.Filter{Kinds: []audit.Kind{kind}}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(e.Data))
	}
	return list
}

func last(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1]
}

// TestMetadataIsKept: what a runtime says about a session and a call is in the log and in
// what approvers see, without secrets; it changes nothing about the decision.
func TestMetadataIsKept(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	opened := f.open(t, self, protocol.SessionOpen{Agent: "coder", Name: "chat", Metadata: json.RawMessage(`{"conversation":"c-9","token":"hunter2hunter2"}`)})
	if text := last(f.entries(t, audit.KindSession)); !strings.Contains(text, `"conversation":"c-9"`) || !strings.Contains(text, `"name":"chat"`) || strings.Contains(text, "hunter2") {
		t.Errorf("the session's entry is %s", text)
	}
	metadata := map[string]any{"run_id": "r-1", "password": "hunter2hunter2"}
	call := func(change func(*protocol.ToolsCall)) (protocol.CallResult, *protocol.Error) {
		return f.do(func(c *protocol.ToolsCall) { c.SessionID, c.Metadata = opened.SessionID, metadata; change(c) })
	}
	_, e := call(deferred(""))
	p := f.waiting(t, 1)[0]
	wire := protocol.ApprovalOf(p)
	if wire.SessionName != "chat" || !strings.Contains(string(wire.SessionMetadata), "c-9") || !strings.Contains(string(wire.Metadata), "r-1") {
		t.Errorf("approvers see %q, %s, %s", wire.SessionName, wire.SessionMetadata, wire.Metadata)
	}
	if text := string(wire.SessionMetadata) + string(wire.Metadata); strings.Contains(text, "hunter2") {
		t.Errorf("approvers see a secret: %s", text)
	}
	f.allow(t, e.ApprovalID, approval.Answer{Scope: approval.Session})
	if _, e := call(func(c *protocol.ToolsCall) { c.ApprovalID = e.ApprovalID }); e != nil {
		t.Fatal(e)
	}
	if text := last(f.entries(t, audit.KindDecision)); !strings.Contains(text, `"metadata":{`) || !strings.Contains(text, `"run_id":"r-1"`) || strings.Contains(text, "hunter2") {
		t.Errorf("the decision's entry is %s", text)
	}
	metadata = map[string]any{"run_id": "r-2"} // it is no part of what was answered
	if _, e := call(func(c *protocol.ToolsCall) { c.CallID = "again" }); e != nil {
		t.Errorf("with other metadata: %v; want the remembered answer", e)
	}
	if _, e := call(func(c *protocol.ToolsCall) { c.Tool = "no_such_tool" }); e == nil {
		t.Fatal("an unknown tool ran")
	}
	if text := last(f.entries(t, audit.KindRefused)); !strings.Contains(text, `"run_id":"r-2"`) {
		t.Errorf("the refusal's entry is %s", text)
	}
	for range 9 {
		f.open(t, self, protocol.SessionOpen{Agent: "other"})
	}
	sessions := f.Sessions()
	if !slices.IsSortedFunc(sessions, func(a, b protocol.SessionInfo) int { return a.Opened.Compare(b.Opened) }) {
		t.Errorf("sessions.list is not in the order in which they were opened: %+v", sessions)
	}
	for _, s := range sessions {
		if s.ID == opened.SessionID && (s.Name != "chat" || strings.Contains(string(s.Metadata), "hunter2")) {
			t.Errorf("sessions.list has %+v", s)
		}
	}
}

// TestMetadataIsBounded: what is long is named by its size, wherever it is said.
func TestMetadataIsBounded(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	long := strings.Repeat("long ", 10_000)
	raw, err := json.Marshal(map[string]string{"text": long})
	if err != nil {
		t.Fatal(err)
	}
	opened := f.open(t, self, protocol.SessionOpen{Agent: "coder", Metadata: raw})
	f.do(func(c *protocol.ToolsCall) {
		deferred("")(c)
		c.SessionID, c.Metadata = opened.SessionID, map[string]any{"text": long}
	})
	wire := protocol.ApprovalOf(f.waiting(t, 1)[0])
	for name, text := range map[string]string{
		"session": string(wire.SessionMetadata), "call": string(wire.Metadata), "log": last(f.entries(t, audit.KindSession)),
	} {
		if !strings.Contains(text, `{"omitted_bytes":50`) || len(text) > history.MaxMetadata {
			t.Errorf("%s: %d bytes: %.100s", name, len(text), text)
		}
	}
}

// TestEndOfAnAllowedCallSaysWhoEndedIt: a call that was allowed, and is ended by the hard
// rejection of one before it, is denied in every word of its error.
func TestEndOfAnAllowedCallSaysWhoEndedIt(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	b := f.batchOf(2)
	b.Calls = append(b.Calls, protocol.BatchCall{CallID: "free", Tool: "read_file", Args: json.RawMessage(`{"path":"f.txt"}`)})
	results := make(chan []protocol.BatchOutcome)
	go func() { results <- f.batch(b) }()
	pending := f.waiting(t, 2)
	f.allow(t, protocol.ApprovalID(pending[1].ID), approval.Answer{Scope: approval.Session})
	if _, err := f.approvals.Answer(pending[0].ID, approval.Answer{Approver: "test", Feedback: "no"}); err != nil {
		t.Fatal(err)
	}
	for _, o := range (<-results)[1:] {
		if o.Error == nil || o.Error.Decision == nil {
			t.Fatalf("%s: %+v", o.CallID, o)
		}
		d := o.Error.Decision
		if d.Action != approval.Denied || d.Source != string(approval.SourceBatch) || d.Scope != "" || d.Approver != "test" || d.Mode != approval.RejectHard {
			t.Errorf("%s: %+v", o.CallID, d)
		}
	}
}

// TestStatusSaysWhatHolds: axes that something holds are named, and the log is counted.
func TestStatusSaysWhatHolds(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	before := f.Status()
	if before.Audit.Entries < 2 { // start, session
		t.Errorf("%d entries", before.Audit.Entries)
	}
	r, err := f.Call(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "c", Tool: "run", Args: json.RawMessage(`{"argv":["true"]}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := f.Status()
	if after.Sandbox.EnforcedBy != r.EnforcedBy || after.Sandbox.EnforcedBy.Files == "" {
		t.Errorf("status has %+v, the result %+v", after.Sandbox.EnforcedBy, r.EnforcedBy)
	}
	if after.Audit.Entries != before.Audit.Entries+2 {
		t.Errorf("%d entries, then %d after a decision and an end", before.Audit.Entries, after.Audit.Entries)
	}
}
