package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/explain"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/tools"
)

// decideOn has one call decided. The arguments are JSON.
func (f *fixture) decideOn(tool, args string, ask protocol.WhoIsAsked) (protocol.ToolsDecided, *protocol.Error) {
	r, err := f.Decide(context.Background(), self, protocol.ToolsDecide{
		SessionID: f.session, CallID: "c1", Tool: protocol.ToolName(tool), Args: json.RawMessage(args), Ask: ask,
	}, nil)
	var e *protocol.Error
	errors.As(err, &e)
	return r, e
}

// TestCallsDecidedForElsewhere: the rules of a call in the sandbox decide, what only a
// sandbox keeps is refused, each decision is in the log as one that nothing enforces, and
// nothing is run.
func TestCallsDecidedForElsewhere(t *testing.T) {
	decided := []audit.Kind{audit.KindDecision, audit.KindEnd}
	refused := []audit.Kind{audit.KindRefused}
	git := setup{profile: func(p *sandboxprofile.Profile) { p.Protect = append(p.Protect, ".git/config") }}
	onHost := func(p *sandboxprofile.Profile) { git.profile(p); p.Network.Mode = sandboxprofile.NetworkHost }
	noHide := setup{profile: func(p *sandboxprofile.Profile) { p.Hide = nil }}
	for _, x := range []struct {
		name  string
		setup setup
		tool  string
		args  string
		code  protocol.Code
		kinds []audit.Kind
	}{
		{name: "free by the rules", tool: "read_file", args: `{"path": "there"}`, kinds: decided},
		{name: "a write asks", tool: "write_file", args: `{"path": "there", "content": "x"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "an edit asks", tool: "edit_file", args: `{"path": "there", "old_string": "a", "new_string": "b"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "outside the roots", tool: "read_file", args: `{"path": "/etc/shadow"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a link to outside", tool: "read_file", args: `{"path": "link"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "hidden", tool: "read_file", args: `{"path": ".env"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "hidden, for a file system that folds", tool: "read_file", args: `{"path": ".ENV"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "protected, for a file system that folds", tool: "write_file", args: `{"path": ".GIT/hoo\u212aS/x", "content": "x"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "protected, with a character that is ignored", tool: "edit_file", args: `{"path": ".gi\u200dt/hooks/x", "old_string": "a", "new_string": "b"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "the same name where only writing is refused", tool: "read_file", args: `{"path": ".GIT/hooks/x"}`, kinds: decided},
		{name: "protected", tool: "write_file", args: `{"path": ".git/hooks/pre-commit", "content": "x"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "what makes a directory a repository", setup: git, tool: "write_file", args: `{"path": "d/HEAD", "content": "ref: refs/heads/x"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "what sends git elsewhere", setup: git, tool: "write_file", args: `{"path": "sub/.git", "content": "gitdir: ../d"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "its other half", setup: git, tool: "write_file", args: `{"path": "d/CommonDir", "content": ".."}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a part of a repository of any name", setup: git, tool: "write_file", args: `{"path": "bare/config", "content": "[core]"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a part that completes one", setup: git, tool: "write_file", args: `{"path": "bare/refs/heads/x", "content": ""}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a file of such a name in another directory", setup: git, tool: "write_file", args: `{"path": "d/config", "content": "[core]"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "a repository where nothing of git's is protected", tool: "write_file", args: `{"path": "d/HEAD", "content": "x"}`, code: protocol.CodeApprovalRequired, kinds: decided,
			setup: setup{profile: func(p *sandboxprofile.Profile) { p.Protect = nil }}},
		{name: "a search beside hidden files", tool: "grep", args: `{"pattern": "x"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a search where nothing is hidden", setup: noHide, tool: "grep", args: `{"pattern": "x"}`, kinds: decided},
		{name: "a search for one of several names", setup: noHide, tool: "grep", args: `{"pattern": "x", "glob": "{/etc/pass*,x}"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a search for names that another matcher takes for one above", setup: noHide, tool: "glob", args: `{"pattern": "[.][.]/*"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "and with a backslash", setup: noHide, tool: "glob", args: `{"pattern": "\\.\\./*"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "a search for names", setup: noHide, tool: "glob", args: `{"pattern": "*/x?"}`, kinds: decided},
		{name: "a search for one name", setup: noHide, tool: "grep", args: `{"pattern": "x", "glob": "*.x"}`, kinds: decided},
		{name: "a search above what is asked about", setup: setup{profile: noHide.profile, asked: []string{"sub"}}, tool: "grep", args: `{"pattern": "x"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "withheld by the operator", tool: "read_file", args: `{"path": "there"}`, code: protocol.CodeBlocked, kinds: decided,
			setup: setup{operator: func(p *sandboxprofile.Profile) { p.Hide = append(p.Hide, "there") }}},
		{name: "read only for the operator", tool: "write_file", args: `{"path": "there", "content": "x"}`, code: protocol.CodeBlocked, kinds: decided,
			setup: setup{operator: func(p *sandboxprofile.Profile) { p.Protect = append(p.Protect, "there") }}},
		{name: "a command by the default, where the configuration keeps nothing from it", setup: setup{profile: onHost}, tool: "shell", args: `{"command": "echo free"}`, kinds: decided},
		{name: "the same, where a sandbox would have no network", tool: "shell", args: `{"command": "echo free"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "what a rule allows, of what calls may change", setup: setup{unasked: "make"}, tool: "shell", args: `{"command": "make"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "what a rule allows, and starts nothing", setup: setup{fallback: careful, unasked: "date"}, tool: "shell", args: `{"command": "date -u"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "a whole command that prints names", setup: setup{fallback: careful}, tool: "shell", args: `{"command": "date"}`, kinds: decided},
		{name: "a program", setup: setup{profile: onHost}, tool: "run", args: `{"argv": ["date"]}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "a part of a repository, by a redirection", setup: setup{writes: true, profile: git.profile}, tool: "shell", args: `{"command": "echo free > 'd/HEAD'"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "the same from below", setup: setup{writes: true, profile: git.profile}, tool: "shell", args: `{"command": "cd bare && echo free >> config"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "another file, by a redirection", setup: setup{writes: true, profile: onHost}, tool: "shell", args: `{"command": "echo free > d/other"}`, kinds: decided},
		{name: "a command that asks", tool: "shell", args: `{"command": "echo asked"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "a program that is not there", tool: "run", args: `{"argv": ["no-such-program"]}`, code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "a foreign tool", tool: "claude-code:WebFetch", args: `{"url": "https://a.example"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "a task", tool: "run_background", args: `{"command": "echo free"}`, code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "a list of tasks", tool: "list_tasks", code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "wrong arguments", tool: "read_file", args: `{"path": 1}`, code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "a mode that approves all is about the sandbox", setup: setup{mode: approval.ApproveAll}, tool: "write_file",
			args: `{"path": "there", "content": "x"}`, code: protocol.CodeApprovalRequired, kinds: decided},
		{name: "strict denies", setup: setup{mode: approval.Strict}, tool: "write_file", args: `{"path": "there", "content": "x"}`,
			code: protocol.CodeDenied, kinds: decided},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			f := newFixture(t, x.setup)
			if err := os.Mkdir(f.ws+"/bare", 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"there", ".env", "bare/HEAD"} {
				writeFile(t, f.ws+"/"+name, "as it was")
			}
			if err := os.Symlink("/etc/passwd", f.ws+"/link"); err != nil {
				t.Fatal(err)
			}
			r, e := f.decideOn(x.tool, x.args, protocol.AgentAsks)
			if (x.code == "") != (e == nil) || e != nil && e.Code != x.code {
				t.Fatalf("got %v and %+v, want code %q", e, r, x.code)
			}
			if e == nil && (r.EnforcedBy != protocol.EnforcedBy{} || !slices.Contains(r.Warnings, warnExternal) || r.PlanDigest == "") {
				t.Errorf("%+v", r)
			}
			if got := f.kinds(t); !slices.Equal(got, x.kinds) {
				t.Errorf("the log holds %v, want %v", got, x.kinds)
			}
			f.saysElsewhere(t)
			if b, err := os.ReadFile(f.ws + "/there"); err != nil || string(b) != "as it was" {
				t.Errorf("the file holds %q, %v", b, err)
			}
			if len(f.approvals.Pending()) != 0 {
				t.Error("somebody is asked")
			}
		})
	}
}

// TestWordsAloneAllowElsewhere: a pattern that was remembered is a reading of words as well, and answers nothing
// where no sandbox is; in one it does.
func TestWordsAloneAllowElsewhere(t *testing.T) {
	f := newFixture(t, setup{fallback: careful})
	req := protocol.ToolsCall{SessionID: f.session, CallID: "c1", Tool: "shell", Args: json.RawMessage(`{"command": "echo a"}`)}
	inside, err := f.proposeAs(f.cfg.Tools, req, tools.Call{})
	outside, err2 := f.proposeExternal(context.Background(), req)
	if err != nil || err2 != nil || inside.Reach.Exact != "" || outside.Request == nil || outside.Reach.Exact == "" {
		t.Errorf("inside %q, %v; outside %q, %+v, %v", inside.Reach.Exact, err, outside.Reach.Exact, outside.Request, err2)
	}
}

// saysElsewhere looks at the last entry of the log.
func (f *fixture) saysElsewhere(t *testing.T) {
	t.Helper()
	var end history.EndEntry
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == audit.KindEnd || e.Kind == audit.KindRefused {
			end = history.EndEntry{}
			if err := json.Unmarshal(e.Data, &end); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !end.Elsewhere || end.EnforcedBy != nil {
		t.Errorf("the last entry says %+v", end)
	}
}

// TestAnswersForTheSandboxDoNotLeaveIt: what an approver allowed for calls in the sandbox
// is asked again for a call without, and the other way around; the same call is not.
func TestAnswersForTheSandboxDoNotLeaveIt(t *testing.T) {
	f := newFixture(t, setup{})
	asked := 0
	f.answer(t, func(p approval.Pending) {
		asked++
		if p.Editable {
			t.Log("asked about the sandbox:", p.Description)
		} else if p.Connector != fromElsewhere || !strings.HasPrefix(p.Description, "Outside any sandbox: ") {
			t.Errorf("the approver is shown %+v", p)
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
	})
	const write = `{"path": "new", "content": "x"}`
	for i, step := range []struct {
		sandboxed bool
		asked     int
	}{{true, 1}, {true, 1}, {false, 2}, {false, 2}, {true, 2}} {
		var e *protocol.Error
		if step.sandboxed {
			_, e = f.call(t.Context(), "write_file", write)
		} else {
			_, e = f.decideOn("write_file", write, protocol.ApproversAsk)
		}
		if e != nil || asked != step.asked {
			t.Fatalf("step %d: %v, asked %d times, want %d", i, e, asked, step.asked)
		}
	}
}

// TestDenialsForTheSandboxHoldOutside, the call's own and those of a pattern; a denial of
// something else does not.
func TestDenialsForTheSandboxHoldOutside(t *testing.T) {
	for _, x := range []struct {
		name    string
		pattern *approval.Pattern
		path    string
		code    protocol.Code
	}{
		{"the call", nil, "new", protocol.CodeDenied},
		{"another call", nil, "other", protocol.CodeApprovalRequired},
		{"a pattern", &approval.Pattern{Kind: approval.PathGlob, Value: "*.md"}, "b.md", protocol.CodeDenied},
		{"another pattern", &approval.Pattern{Kind: approval.PathGlob, Value: "*.md"}, "b.txt", protocol.CodeApprovalRequired},
	} {
		f := newFixture(t, setup{})
		inside := `{"path": "new", "content": "x"}`
		if x.pattern != nil {
			inside, x.pattern.Value = `{"path": "a.md", "content": "x"}`, f.ws+"/"+x.pattern.Value
		}
		f.say(t, approval.Answer{Scope: approval.Agent, Pattern: x.pattern})
		if _, e := f.call(t.Context(), "write_file", inside); e == nil || e.Code != protocol.CodeDenied {
			t.Fatal(e)
		}
		_, e := f.decideOn("write_file", `{"path": "`+x.path+`", "content": "x"}`, protocol.AgentAsks)
		if e == nil || e.Code != x.code {
			t.Errorf("%s: %v, want %s", x.name, e, x.code)
		}
	}
}

// TestApproversDecideForElsewhere: the real question, with yes and no.
func TestApproversDecideForElsewhere(t *testing.T) {
	for _, allow := range []bool{true, false} {
		f := newFixture(t, setup{})
		f.say(t, approval.Answer{Allow: allow, Feedback: "because"})
		r, e := f.decideOn("mcp__github__merge", `{"number": 7}`, "")
		if allow && (e != nil || r.Decision.Source != string(approval.SourceAsk)) || !allow && (e == nil || e.Code != protocol.CodeDenied || e.HintText != "because") {
			t.Errorf("allow %v: %+v, %v", allow, r, e)
		}
	}
}

// TestReplayKnowsElsewhere: a decision for elsewhere is made again as one.
func TestReplayKnowsElsewhere(t *testing.T) {
	f := newFixture(t, setup{})
	for _, c := range []struct{ tool, args string }{
		{"claude-code:WebFetch", `{"url": "https://a.example"}`}, {"write_file", `{"path": "a", "content": ""}`}, {"read_file", `{"path": "a"}`},
		{"grep", `{"pattern": "a"}`},
	} {
		f.decideOn(c.tool, c.args, protocol.AgentAsks)
	}
	service := f.ruleService()
	sum, err := service.Replay(t.Context(), history.Decisions(audit.Query(f.logPath, audit.Filter{})), func(r explain.Replayed) error {
		t.Errorf("changed: %+v", r)
		return nil
	})
	if err != nil || sum.Same != 4 || sum.Answered != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestElsewhereHasAPlanOfItsOwn, so that no approval of a call in the sandbox is one of the
// same call without; nor one of a foreign tool's call one of another.
func TestElsewhereHasAPlanOfItsOwn(t *testing.T) {
	f := newFixture(t, setup{})
	writeFile(t, f.ws+"/there", "x")
	seen := map[string]string{}
	note := func(what, digest string) {
		if digest == "" || seen[digest] != "" {
			t.Errorf("%s has the plan digest %q, as has %q", what, digest, seen[digest])
		}
		seen[digest] = what
	}
	inside, e := f.call(t.Context(), "read_file", `{"path": "there"}`)
	if e != nil {
		t.Fatal(e)
	}
	note("a read inside", inside.PlanDigest)
	f.say(t, approval.Answer{Allow: true})
	for _, c := range [][2]string{{"read_file", `{"path": "there"}`}, {"mcp__a__b", `{"n": 1}`}, {"mcp__a__b", `{"n": 2}`}, {"mcp__a__c", `{"n": 1}`}} {
		r, e := f.decideOn(c[0], c[1], "")
		if e != nil {
			t.Fatal(e)
		}
		note(c[0]+c[1], r.PlanDigest)
	}
}
