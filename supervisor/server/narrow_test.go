package server

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestAProcessAnswersForItsOwnSession: what asks an agent's own person sees one session, has
// no other method, and allows one request at a time, once; and only where the operator lets it.
func TestAProcessAnswersForItsOwnSession(t *testing.T) {
	ts := startServer(t, Config{Elicitation: true})
	ts.gate.lists = true
	agent, own := ts.dialAgent()
	second, other := ts.dialAgent()
	all := ts.dial(ts.operator)
	all.must(protocol.MethodApprovalsSubscribe, `{}`, &protocol.ApprovalsList{})
	agent.send(request("1", "tools.call", callParams(own, "mine", "ask")))
	second.send(request("1", "tools.call", callParams(other, "theirs", "ask")))
	waits := map[protocol.CallID]protocol.Approval{}
	for len(waits) < 2 {
		var e protocol.ApprovalEvent
		if err := json.Unmarshal(all.next().Params, &e); err != nil {
			t.Fatal(err)
		}
		waits[e.Approval.CallID] = e.Approval
	}
	mine, theirs := waits["mine"], waits["theirs"]

	op := ts.dial(ts.operator)
	op.fails(protocol.CodeUnknownSession, protocol.MethodApprovalsSubscribe, `{"session_id":"s-99"}`)
	var list protocol.ApprovalsList
	op.must(protocol.MethodApprovalsSubscribe, fmt.Sprintf(`{"session_id":%q}`, own), &list)
	if len(list.Approvals) != 1 || list.Approvals[0].ID != mine.ID {
		t.Errorf("it sees %+v", list.Approvals)
	}
	op.must(protocol.MethodApprovalsShow, fmt.Sprintf(`{"id":%q}`, mine.ID), &protocol.Approval{})
	op.fails(protocol.CodeUnknownApproval, protocol.MethodApprovalsShow, fmt.Sprintf(`{"id":%q}`, theirs.ID))
	op.fails(protocol.CodeUnknownApproval, protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,"decision":"deny"}`, theirs.ID))
	within := []protocol.Method{protocol.MethodInitialize, protocol.MethodApprovalsSubscribe, protocol.MethodApprovalsList,
		protocol.MethodApprovalsShow, protocol.MethodApprovalsDecide, protocol.MethodStatus}
	for name := range operatorMethods {
		refused := !strings.Contains(fmt.Sprint(within), string(name))
		if e := op.ask(name, `{}`).Error; (e != nil && e.Code == protocol.CodeUnknownMethod) != refused {
			t.Errorf("%s: %v", name, e)
		}
		if e := all.ask(name, `{}`).Error; e != nil && e.Code == protocol.CodeUnknownMethod {
			t.Errorf("the twin, %s: %v", name, e)
		}
	}
	for _, more := range []string{
		`"decision":"allow"`, // of what, is not said
		`"decision":"allow","plan_digest":"d","scope":"session"`, `"decision":"allow","plan_digest":"d","scope":"global"`,
		`"decision":"allow","plan_digest":"d","args":{"command":"other"}`,
		`"decision":"allow","plan_digest":"d","scope":"session","pattern":{"kind":"tool","value":"ask"}`,
		`"decision":"deny","feedback":"do this instead"`, `"decision":"deny","scope":"global"`,
	} {
		op.fails(protocol.CodeInvalidParams, protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,%s}`, mine.ID, more))
	}
	op.fails(protocol.CodeInvalidParams, protocol.MethodApprovalsDecide, fmt.Sprintf(`{"ids":[%q],"decision":"deny"}`, mine.ID))
	op.fails(protocol.CodeInvalidParams, protocol.MethodApprovalsDecide, `{"group":"g","decision":"deny"}`)

	var decided protocol.ApprovalsDecided
	op.must(protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,"decision":"deny"}`, mine.ID), &decided)
	if d := decided.Results[0].Decision; d == nil || !strings.HasSuffix(d.Approver, "for its own session") {
		t.Errorf("decided %+v", decided.Results)
	}
	all.must(protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,"decision":"deny"}`, theirs.ID), &decided)
	agent.reply()
	second.reply()

	// A session of another process is like none, and without the operator's word there is no way in.
	ts.gate.mu.Lock()
	p := ts.gate.sessions[own]
	p.PID = os.Getppid()
	ts.gate.sessions[own] = p
	ts.gate.mu.Unlock()
	ts.dial(ts.operator).fails(protocol.CodeUnknownSession, protocol.MethodApprovalsSubscribe, fmt.Sprintf(`{"session_id":%q}`, own))
	off := startServer(t, Config{})
	_, session := off.dialAgent()
	off.dial(off.operator).fails(protocol.CodeDenied, protocol.MethodApprovalsSubscribe, fmt.Sprintf(`{"session_id":%q}`, session))
}
