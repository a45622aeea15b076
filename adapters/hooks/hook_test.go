package hooks

import (
	"context"
	"errors"
	"testing"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// told is a session that says what a test has it say.
type told struct {
	writable, shell protocol.CheckDecision
	decide          error
	closed          int
}

func (s *told) Check(_ context.Context, tool protocol.ToolName, _ any, _ ...client.CallOption) (protocol.CheckResult, error) {
	if tool == "write_file" {
		return protocol.CheckResult{Decision: s.writable}, nil
	}
	return protocol.CheckResult{Decision: s.shell, Reason: "a rule", Hint: "another way"}, nil
}

func (s *told) Decide(context.Context, protocol.ToolsDecide) (protocol.ToolsDecided, error) {
	return protocol.ToolsDecided{}, s.decide
}

func (s *told) Close(context.Context) (protocol.SessionClosed, error) {
	s.closed++
	return protocol.SessionClosed{}, nil
}

const (
	readEvent = `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"a"}}`
	bashEvent = `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}`
	bookEvent = `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"NotebookEdit","tool_input":{"notebook_path":"a"}}`
	endEvent  = `{"session_id":"s","hook_event_name":"SessionEnd"}`
)

// TestWhatTheSupervisorSays is what becomes of each of its answers, and of none.
func TestWhatTheSupervisorSays(t *testing.T) {
	interrupted := &protocol.Error{Code: protocol.CodeDenied, Message: "no", Decision: &protocol.Decision{Interrupt: true}}
	for _, x := range []struct {
		name, event string
		session     told
		open        error
		approvers   bool
		want        Answer // but for its words
	}{
		{name: "allowed", event: readEvent, want: Answer{Verdict: Allow}},
		{name: "denied", event: readEvent, session: told{decide: protocol.Errorf(protocol.CodeDenied, "no")}},
		{name: "blocked", event: readEvent, session: told{decide: protocol.Errorf(protocol.CodeBlocked, "no")}},
		{name: "nobody answered", event: readEvent, session: told{decide: protocol.Errorf(protocol.CodeApprovalTimeout, "no")}},
		{name: "interrupted", event: readEvent, session: told{decide: interrupted}, want: Answer{Stop: true}},
		{name: "left to the runtime", event: readEvent, session: told{decide: protocol.Errorf(protocol.CodeApprovalRequired, "ask")}, want: Answer{Verdict: Ask}},
		{name: "what approvers cannot be shown", event: bookEvent, approvers: true,
			session: told{decide: protocol.Errorf(protocol.CodeApprovalRequired, "ask")}},
		{name: "the log is gone", event: readEvent, session: told{decide: protocol.Errorf(protocol.CodeAuditUnavailable, "no")}, want: Answer{Broken: true}},
		{name: "the connection is gone", event: readEvent, session: told{decide: client.ErrClosed}, want: Answer{Broken: true}},
		{name: "no supervisor", event: readEvent, open: errors.New("nobody is there"), want: Answer{Broken: true}},
		{name: "a program that tools can write to", event: readEvent, session: told{writable: protocol.CheckAsk}, want: Answer{Broken: true}},
		{name: "the same, of a command", event: bashEvent, session: told{writable: protocol.CheckAllow, shell: protocol.CheckAllow}, want: Answer{Broken: true}},
		{name: "a command", event: bashEvent, session: told{shell: protocol.CheckAllow}, want: Answer{Verdict: Allow, Input: []byte("x")}},
		{name: "a command that asks", event: bashEvent, session: told{shell: protocol.CheckAsk}, want: Answer{Verdict: Allow, Input: []byte("x"), Note: "x"}},
		{name: "a command that is refused", event: bashEvent, session: told{shell: protocol.CheckDeny, decide: protocol.Errorf(protocol.CodeBlocked, "no")}},
		{name: "a refusal that the rules have just lost", event: bashEvent, session: told{shell: protocol.CheckDeny}},
		{name: "a word that is no decision", event: bashEvent, session: told{shell: "perhaps"}},
		{name: "the end", event: endEvent, want: Answer{Verdict: Abstain}},
	} {
		if x.session.writable == "" {
			x.session.writable = protocol.CheckDeny
		}
		h := Hook{
			Runtime: claudeCode(), Program: "/usr/bin/sandgate", ApproversAsk: x.approvers,
			Command: func(session string) []string { return []string{"/usr/bin/sandgate", "call", session} },
			Open:    func(context.Context, string) (Session, error) { return &x.session, x.open },
		}
		got := h.Answer(t.Context(), []byte(x.event))
		if got.Verdict != x.want.Verdict || got.Broken != x.want.Broken || got.Stop != x.want.Stop ||
			(got.Input == nil) != (x.want.Input == nil) || (got.Note == "") != (x.want.Note == "") {
			t.Errorf("%s: %+v", x.name, got)
		}
		if got.Verdict == Deny && got.Reason == "" {
			t.Errorf("%s: a refusal without a word", x.name)
		}
		if x.event == endEvent && x.session.closed != 1 {
			t.Errorf("%s: closed %d times", x.name, x.session.closed)
		}
	}
}
