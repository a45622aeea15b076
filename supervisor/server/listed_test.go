package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// TestManyLongRequestsBlindNobody: whatever agents ask, an approver who connects has the
// list, hears of the next request, sees each one and can answer it.
func TestManyLongRequestsBlindNobody(t *testing.T) {
	for name, c := range map[string]struct {
		requests int
		text     string
		cut      bool // the last one, in the list
	}{
		"a few of megabytes":        {3, strings.Repeat("x", 7<<20), true},
		"of quotes":                 {2, strings.Repeat(`"`, 3<<20), true},
		"of characters with escape": {2, strings.Repeat("\x01", 1<<20), true},
		"many of a hundred KiB":     {160, strings.Repeat("y", 120_000), true},
		"many just below the bound": {300, strings.Repeat("z", maxListed-4096), true},
		"short ones":                {300, "short", false},
	} {
		t.Run(name, func(t *testing.T) {
			ts := startServer(t, Config{})
			approvals := ts.gate.approvals
			if err := approvals.OpenSession("s"); err != nil {
				t.Fatal(err)
			}
			defer approvals.CloseSession("s")
			asked := 0
			for i := range c.requests {
				_, err := approvals.Defer(t.Context(), approval.Call{
					SessionID: "s", ToolName: "big", Agent: "test", Digest: fmt.Sprint(i), Peer: fmt.Sprint(i % 2),
					Args:    json.RawMessage(`{}`),
					Request: &approval.Request{ToolName: "big", Description: "big", Payload: map[string]any{"n": fmt.Sprint(i), "text": c.text}},
				})
				if err == nil || !strings.Contains(err.Error(), "waits for an answer") {
					t.Fatalf("request %d: %v", i, err)
				}
				asked++
			}
			op := ts.dial(ts.operator)
			var list protocol.ApprovalsList
			op.must(protocol.MethodApprovalsSubscribe, `{}`, &list)
			if len(list.Approvals) != asked {
				t.Fatalf("%d of %d requests are listed", len(list.Approvals), asked)
			}
			if last := list.Approvals[asked-1]; last.Omitted != c.cut || (last.Payload == nil) != c.cut {
				t.Errorf("the last one is cut: %v", last.Omitted)
			}
			_, _ = approvals.Defer(t.Context(), approval.Call{
				SessionID: "s", ToolName: "big", Agent: "test", Digest: "last",
				Request: &approval.Request{ToolName: "big", Description: "the last one", Payload: map[string]any{"text": c.text + "!"}},
			})
			for described := ""; described != "the last one"; {
				m := op.next()
				var e protocol.ApprovalEvent
				if err := json.Unmarshal(m.Params, &e); err != nil || len(m.Params) > 2*maxListed {
					t.Fatalf("got %s of %d bytes: %v", m.Method, len(m.Params), err)
				}
				described = e.Approval.Description
			}
			var one protocol.Approval
			id := list.Approvals[0].ID
			op.must(protocol.MethodApprovalsShow, fmt.Sprintf(`{"id":%q}`, id), &one)
			if one.Presentation == nil || one.Presentation.Content == "" {
				t.Error("nothing is shown of it")
			}
			var decided protocol.ApprovalsDecided
			op.must(protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,"decision":"allow","scope":"session"}`, id), &decided)
			var kept protocol.Remembered
			op.must(protocol.MethodApprovalsRemembered, `{}`, &kept)
			if len(kept.Answers) != 1 || (kept.Answers[0].Payload == "") != (len(c.text) > maxListed) {
				t.Errorf("remembered: %d answers", len(kept.Answers))
			}
		})
	}
}

// TestListsOfManyFit: the other lists of an operator are shortened from their end, and say so.
func TestListsOfManyFit(t *testing.T) {
	sessions := make([]protocol.SessionInfo, 30_000)
	for i := range sessions {
		sessions[i] = protocol.SessionInfo{ID: "s", Agent: strings.Repeat("a", 200), Name: strings.Repeat("n", 200), Metadata: json.RawMessage(`"` + strings.Repeat("m", 2000) + `"`), Opened: time.Now()}
	}
	weigh := func(s *protocol.SessionInfo) int { return 256 + weight(s.Agent) + weight(s.Name) + weight(s.Metadata) }
	cut := func(s *protocol.SessionInfo) { s.Metadata, s.Name = nil, short(s.Name) }
	kept, more := shortened(sessions, weigh, cut)
	line, err := protocol.EncodeResult(protocol.StringID("1"), protocol.SessionsList{Sessions: kept, More: more})
	if err != nil || len(line) > protocol.MaxMessage || !more || kept[0].Metadata == nil || kept[len(kept)-1].Metadata != nil {
		t.Errorf("%d bytes, %d kept, more %v: %v", len(line), len(kept), more, err)
	}
	if kept, more = shortened(sessions[:10], weigh, cut); more || len(kept) != 10 {
		t.Errorf("%d of 10, more %v", len(kept), more)
	}
}
