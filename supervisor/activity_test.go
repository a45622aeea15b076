package supervisor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// underWay makes a call and waits until it is listed.
func (f *fixture) underWay(t *testing.T, id, tool, args string) (info protocol.CallInfo, ended <-chan *protocol.Error) {
	t.Helper()
	ch := make(chan *protocol.Error, 1)
	go func() {
		_, err := f.Call(context.Background(), self, protocol.ToolsCall{
			SessionID: f.session, CallID: protocol.CallID(id), Tool: protocol.ToolName(tool), Args: json.RawMessage(args)}, nil)
		ch <- failure.Wire(err)
	}()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		for _, c := range f.CallsUnderWay() {
			if string(c.CallID) == id {
				return c, ch
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no call %s in %+v", id, f.CallsUnderWay())
		}
	}
}

// TestOperatorKillsACall: the one that is named, whether it runs or waits, and no other;
// the log says who did it.
func TestOperatorKillsACall(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	runs, ran := f.underWay(t, "runs", "shell", `{"command":"sleep 63.5"}`)
	stays, stayed := f.underWay(t, "stays", "shell", `{"command":"until [ -e go ]; do sleep 0.02; done"}`)
	waits, waited := f.underWay(t, "waits", "shell", `{"command":"echo asked > made"}`)
	f.waiting(t, 1)
	if string(runs.Args) != `{"command":"sleep 63.5"}` || runs.Agent != "tester" || runs.SessionID != f.session || runs.Tool != "shell" {
		t.Errorf("%+v", runs)
	}
	if list := f.CallsUnderWay(); len(list) != 3 || list[0].ID != runs.ID || list[2].ID != waits.ID || list[0].Waiting || !list[2].Waiting {
		t.Errorf("%+v", list)
	}
	for _, id := range []string{runs.ID, waits.ID} {
		if err := f.Kill(id, self); err != nil {
			t.Error(err)
		}
	}
	if e := <-ran; e == nil || e.Code != protocol.CodeCancelled || !strings.Contains(e.Message, "an operator ended the call (uid") {
		t.Errorf("%+v", e)
	}
	if e := <-waited; e == nil || e.Code != protocol.CodeCancelled {
		t.Errorf("%+v", e)
	}
	f.waiting(t, 0)
	if err := f.Kill(runs.ID, self); failure.Wire(err).Code != protocol.CodeUnknownCall {
		t.Errorf("killed twice: %v", err)
	}
	writeFile(t, f.ws+"/go", "")
	if e := <-stayed; e != nil {
		t.Errorf("%s: %+v", stays.ID, e)
	}
	if list := f.CallsUnderWay(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	entries, err := f.Audit(protocol.AuditQuery{Call: "runs", Kinds: []string{"end", "refused"}})
	if err != nil || len(entries.Entries) != 1 || !strings.Contains(string(entries.Entries[0].Data), "an operator ended the call") {
		t.Errorf("%+v %v", entries, err)
	}
}

// TestOperatorEndsASession: with its calls; another session goes on.
func TestOperatorEndsASession(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	other, err := f.OpenSession(self, protocol.SessionOpen{Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	_, ran := f.underWay(t, "runs", "shell", `{"command":"sleep 63.75"}`)
	counts, err := f.EndSession(f.session, self)
	if err != nil || counts.Calls != 1 {
		t.Errorf("%+v %v", counts, err)
	}
	if e := <-ran; e == nil || e.Code != protocol.CodeCancelled {
		t.Errorf("%+v", e)
	}
	if _, e := f.call(t.Context(), "shell", `{"command":"echo x"}`); e == nil || e.Code != protocol.CodeUnknownSession {
		t.Errorf("%+v", e)
	}
	if _, err := f.EndSession(f.session, self); failure.Wire(err).Code != protocol.CodeUnknownSession {
		t.Error(err)
	}
	f.session = other.SessionID
	if _, e := f.call(t.Context(), "shell", `{"command":"echo x"}`); e != nil {
		t.Error(e)
	}
	f.waitFor(t, audit.KindSession, "ended by an operator")
}

// TestOperatorReadsTheLog: what is asked for, the last of it, and whether there is more.
func TestOperatorReadsTheLog(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	for range 7 {
		if _, e := f.call(t.Context(), "shell", `{"command":"true"}`); e != nil {
			t.Fatal(e)
		}
	}
	all, err := f.Audit(protocol.AuditQuery{})
	if err != nil || all.More || len(all.Entries) < 15 || all.Entries[0].Kind != "start" || all.Entries[0].Seq >= all.Entries[1].Seq {
		t.Errorf("%+v %v", all, err)
	}
	for limit, more := range map[int]bool{1: true, 2: true, 6: true, 7: false, 100: false} {
		ends, err := f.Audit(protocol.AuditQuery{Kinds: []string{"end"}, Tool: "shell", Limit: limit})
		if err != nil || len(ends.Entries) != min(limit, 7) || ends.More != more {
			t.Errorf("limit %d: %d entries, more %v, %v", limit, len(ends.Entries), ends.More, err)
		}
		if last := ends.Entries[len(ends.Entries)-1]; last.Seq != all.Entries[len(all.Entries)-1].Seq || len(last.Data) == 0 {
			t.Errorf("limit %d: the last is %+v", limit, last)
		}
	}
	if none, err := f.Audit(protocol.AuditQuery{Agent: "nobody"}); err != nil || none.Entries == nil || len(none.Entries) != 0 {
		t.Errorf("%+v %v", none, err)
	}
	if _, err := f.Audit(protocol.AuditQuery{Kinds: []string{"secret"}}); failure.Wire(err).Code != protocol.CodeInvalidParams {
		t.Error(err)
	}
	for limit, good := range map[int]bool{-1: false, 0: true, 1000: true, 1001: false} {
		if err := (&protocol.AuditQuery{Limit: limit}).Validate(); (err == nil) != good {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
