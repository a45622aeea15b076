package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
	"github.com/sandgate/sandgate/tools/program"
	"github.com/sandgate/sandgate/tools/shell"
	"github.com/sandgate/sandgate/tools/tasks"
)

// fixture is a supervisor over a real sandbox, a real log and a real workspace.
type fixture struct {
	*Supervisor
	ws, logPath string
	log         *audit.Log
	session     protocol.SessionID
	approvals   *approval.Controller
}

type setup struct {
	mode     approval.Mode
	timeout  time.Duration
	absent   approval.NoApprover
	confiner func(confine.Confiner) confine.Confiner
	missing  error // no confiner at all
	profile  func(*sandboxprofile.Profile)
	operator func(*sandboxprofile.Profile)
	env      []string // of programs, beside PATH
	// credentials are those of the tools shell and run.
	credentials tools.Credentials
	// fallback is for commands that no rule is about; nil lets them run.
	fallback *shell.Default
	// denied is a command that a rule denies, and unasked are those that rules let run: "a; b".
	denied, unasked string
	// within are the roots that the first rule of unasked is for.
	within []string
	// writes lets files of the workspace be changed unasked.
	writes bool
	// asked are directories of the workspace whose reads are to be approved.
	asked []string
	// kept are those whose writes alone are to be approved, and free those that no write asks about.
	kept, free []string
	// shell stands in place of the tool shell.
	shell func(*shell.Tool) tools.Tool
	// at is a directory with ws in it that outlives the test's process; "" makes
	// new ones.
	at      string
	journal approval.Journal
	left    Orphans
}

func (o setup) rules() []shell.Rule {
	list := []shell.Rule{{Pattern: "echo asked", Allowed: new(true), Approval: new(true)}}
	if o.denied != "" {
		list = append(list, shell.Rule{Pattern: o.denied, Allowed: new(false)})
	}
	within := o.within
	for pattern := range strings.SplitSeq(o.unasked, "; ") {
		if pattern != "" {
			list = append(list, shell.Rule{Pattern: pattern, Allowed: new(true), Approval: new(false), SandboxPaths: within})
		}
		within = nil
	}
	return list
}

func newFixture(t testing.TB, o setup) *fixture {
	t.Helper()
	f := &fixture{ws: o.at + "/ws", logPath: o.at + "/audit.jsonl"}
	if o.at == "" {
		f.ws, f.logPath = confinetest.Workspace(t), filepath.Join(t.TempDir(), "audit.jsonl")
	}
	var err error
	if f.log, _, err = audit.Open(f.logPath, audit.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.log.Close() })
	f.approvals = approval.NewController(approval.Options{Mode: o.mode, Timeout: o.timeout, NoApprover: o.absent, Journal: o.journal})
	cfg := Config{
		Version: "test", Tools: f.tools(t, o), Approvals: f.approvals, Mode: o.mode, Log: f.log,
		Operator: sandboxprofile.Top(), Unconfined: o.missing, Orphans: o.left,
		Tasks: background.Limits{Running: 2, Ended: 1, Output: 64 << 10},
	}
	if o.operator != nil {
		o.operator(&cfg.Operator)
	}
	if o.missing == nil {
		cfg.Confiner = bwrap(t, o.confiner)
	}
	if f.Supervisor, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Supervisor.Close() })
	opened, err := f.OpenSession(self, protocol.SessionOpen{Agent: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	f.session = opened.SessionID
	return f
}

var self = unixsock.Peer{UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid()}

func bwrap(t testing.TB, wrap func(confine.Confiner) confine.Confiner) confine.Confiner {
	t.Helper()
	b, err := linux.NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if wrap != nil {
		return wrap(b)
	}
	return b
}

func (f *fixture) tools(t testing.TB, o setup) *tools.Registry {
	t.Helper()
	profile := confinetest.Profile(t, f.ws)
	if o.profile != nil {
		o.profile(&profile)
	}
	env := append([]string{"PATH=/usr/bin:/bin"}, o.env...)
	paths := tools.Paths{
		Rules: []tools.PathRule{{Name: "workspace", Root: f.ws, Write: true, WriteApproval: !o.writes}},
		Hide:  profile.Hide, Protect: profile.Protect,
	}
	for _, name := range o.asked {
		paths.Rules = append(paths.Rules, tools.PathRule{Name: name, Root: filepath.Join(f.ws, name), Write: true, ReadApproval: true, WriteApproval: true})
	}
	for _, name := range o.kept {
		paths.Rules = append(paths.Rules, tools.PathRule{Name: name, Root: filepath.Join(f.ws, name), Write: true, WriteApproval: true})
	}
	for _, name := range o.free {
		paths.Rules = append(paths.Rules, tools.PathRule{Name: name, Root: filepath.Join(f.ws, name), Write: true})
	}
	list := files.New(files.Config{Paths: paths, Profile: profile})
	fallback := shell.Default{Allowed: true}
	if o.fallback != nil {
		fallback = *o.fallback
	}
	sh, err := shell.New(shell.Config{
		Default: fallback, Paths: paths, Profile: profile, Env: env, Credentials: o.credentials,
		Rules: o.rules(),
	})
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, program.New(program.Config{Paths: paths, Profile: profile, Env: env, Credentials: o.credentials, Reach: sh.Reach, Rules: sh.Ruled, Unasked: sh.Unasked, Starts: sh.StartsOf}))
	var asTool tools.Tool = sh
	if o.shell != nil {
		asTool = o.shell(sh)
	}
	list = append(append(list, asTool), tasks.New(tasks.Config{Shell: sh, Wall: time.Minute})...)
	r, err := tools.NewRegistry(list...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// call makes one call. The arguments are JSON.
func (f *fixture) call(ctx context.Context, tool, args string) (protocol.CallResult, *protocol.Error) {
	r, err := f.Call(ctx, self, protocol.ToolsCall{
		SessionID: f.session, CallID: "c1", Tool: protocol.ToolName(tool), Args: json.RawMessage(args),
	}, nil)
	var e *protocol.Error
	errors.As(err, &e)
	return r, e
}

// kinds is what the log holds of calls, after the session's own entries.
func (f *fixture) kinds(t *testing.T) []audit.Kind {
	t.Helper()
	var kinds []audit.Kind
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Call != "" {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// answer lets an approver react to the first request.
func (f *fixture) answer(t *testing.T, react func(approval.Pending)) {
	t.Helper()
	stop := f.approvals.Subscribe(func(e approval.Event) {
		if e.Kind == approval.Requested {
			react(e.Pending)
		}
	})
	t.Cleanup(stop)
}

func (f *fixture) say(t *testing.T, a approval.Answer) {
	a.Approver = "test"
	f.answer(t, func(p approval.Pending) { f.mustAnswer(t, p, a) })
}

func (f *fixture) mustAnswer(t *testing.T, p approval.Pending, a approval.Answer) {
	if _, err := f.approvals.Answer(p.ID, a); err != nil {
		t.Errorf("answer: %v", err)
	}
}

const runTrue = `{"argv": ["true"]}`

// TestEveryExitIsRecordedAndAnswered walks each way out of a call: the code that
// the agent gets, and the entries that the log holds after it.
func TestEveryExitIsRecordedAndAnswered(t *testing.T) {
	decided := []audit.Kind{audit.KindDecision, audit.KindEnd}
	refused := []audit.Kind{audit.KindRefused}
	allow := approval.Answer{Allow: true, Approver: "test"}
	for _, x := range []struct {
		name  string
		setup setup
		tool  string
		args  string
		do    func(*testing.T, *fixture) // before the call
		ctx   func() (context.Context, context.CancelFunc)
		code  protocol.Code // "" is a result
		kinds []audit.Kind
	}{
		{name: "unknown tool", tool: "teleport", code: protocol.CodeUnknownTool, kinds: refused},
		{name: "wrong type", tool: "run", args: `{"argv": "true"}`, code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "missing argument", tool: "run", args: `{}`, code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "unknown argument", tool: "run", args: `{"argv": ["true"], "sudo": true}`, code: protocol.CodeInvalidArguments, kinds: refused},
		{name: "no such program", tool: "run", args: `{"argv": ["no-such-program"]}`, kinds: refused},
		{name: "blocked by the path rules", tool: "read_file", args: `{"path": "/etc/shadow"}`, code: protocol.CodeBlocked, kinds: decided},
		{name: "denied in strict mode", setup: setup{mode: approval.Strict}, tool: "run", args: runTrue, code: protocol.CodeDenied, kinds: decided},
		{name: "denied by an approver", tool: "run", args: runTrue, code: protocol.CodeDenied, kinds: decided,
			do: func(t *testing.T, f *fixture) { f.say(t, approval.Answer{}) }},
		{name: "nobody answers", setup: setup{timeout: time.Millisecond}, tool: "run", args: runTrue, code: protocol.CodeApprovalTimeout, kinds: decided},
		{name: "nobody is there", setup: setup{absent: approval.NoApproverDeny}, tool: "run", args: runTrue, code: protocol.CodeNoApprover, kinds: decided},
		{name: "cancelled while it waits", tool: "run", args: runTrue, code: protocol.CodeCancelled, kinds: decided, ctx: after(50 * time.Millisecond)},
		{name: "no sandbox", setup: setup{missing: &confine.Unenforceable{Part: "user namespaces", Reason: "barred"}}, tool: "run", args: runTrue,
			code: protocol.CodeSandboxUnavailable, kinds: refused},
		{name: "a profile that cannot be kept", tool: "run", args: runTrue, code: protocol.CodeSandboxUnavailable, kinds: decided,
			setup: setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkProxied }}},
		{name: "the sandbox fails", tool: "run", args: runTrue, code: protocol.CodeSandboxFailed, kinds: decided,
			setup: setup{mode: approval.ApproveAll, confiner: broken}},
		{name: "times out", tool: "run", args: `{"argv": ["sleep", "60"]}`, code: protocol.CodeTimedOut, kinds: decided,
			setup: setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) { p.Limits.Wall = 50 * time.Millisecond }}},
		{name: "prints too much", tool: "run", args: `{"argv": ["yes"]}`, code: protocol.CodeLimitExceeded, kinds: decided,
			setup: setup{mode: approval.ApproveAll, profile: func(p *sandboxprofile.Profile) { p.Limits.Output = 1000 }}},
		{name: "cancelled while it runs", tool: "run", args: `{"argv": ["sleep", "60"]}`, code: protocol.CodeCancelled, kinds: decided,
			setup: setup{mode: approval.ApproveAll}, ctx: after(200 * time.Millisecond)},
		{name: "changed between approval and start", tool: "run", code: protocol.CodeDenied, kinds: decided,
			args: `{"argv": ["python3", "script.py"]}`,
			do: func(t *testing.T, f *fixture) {
				writeFile(t, f.ws+"/script.py", "print('shown')")
				f.answer(t, func(p approval.Pending) {
					writeFile(t, f.ws+"/script.py", "print('something else')")
					f.mustAnswer(t, p, allow)
				})
			}},
		{name: "the program runs", tool: "run", args: runTrue, kinds: decided, do: func(t *testing.T, f *fixture) { f.say(t, allow) }},
		{name: "the program fails", tool: "run", args: `{"argv": ["false"]}`, kinds: decided, setup: setup{mode: approval.ApproveAll}},
		{name: "a file is read", tool: "read_file", args: `{"path": "there"}`, kinds: decided,
			do: func(t *testing.T, f *fixture) { writeFile(t, f.ws+"/there", "text") }},
		{name: "a file is not there", tool: "read_file", args: `{"path": "missing"}`, kinds: decided},
		{name: "a file is written", tool: "write_file", args: `{"path": "new", "content": "x"}`, kinds: decided,
			do: func(t *testing.T, f *fixture) { f.say(t, allow) }},
		{name: "the log is gone at the decision", tool: "run", args: runTrue, code: protocol.CodeAuditUnavailable, kinds: nil,
			do: func(t *testing.T, f *fixture) {
				f.answer(t, func(p approval.Pending) { f.log.Close(); f.mustAnswer(t, p, allow) })
			}},
		{name: "the log is gone at the end", tool: "run", args: runTrue, code: protocol.CodeAuditUnavailable, kinds: decided[:1],
			setup: setup{mode: approval.ApproveAll, confiner: func(c confine.Confiner) confine.Confiner { return &hooked{Confiner: c} }},
			do:    func(t *testing.T, f *fixture) { f.cfg.Confiner.(*hooked).after = func() { f.log.Close() } }},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			f := newFixture(t, x.setup)
			if x.do != nil {
				x.do(t, f)
			}
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			if x.ctx != nil {
				ctx, cancel = x.ctx()
			}
			defer cancel()
			r, e := f.call(ctx, x.tool, x.args)
			switch {
			case x.code == "" && e != nil:
				t.Errorf("error %v (hint %q), want a result", e, e.HintText)
			case x.code != "" && (e == nil || e.Code != x.code):
				t.Errorf("got %v and %+v, want code %s", e, r, x.code)
			case e != nil && e.Message == "":
				t.Error("a refusal without a word for people")
			}
			if got := f.kinds(t); !slices.Equal(got, x.kinds) {
				t.Errorf("the log holds %v, want %v", got, x.kinds)
			}
			if report, err := audit.VerifyFile(f.logPath); err != nil {
				t.Errorf("verify: %v, %+v", err, report)
			}
		})
	}
}

func after(d time.Duration) func() (context.Context, context.CancelFunc) {
	return func() (context.Context, context.CancelFunc) { return context.WithTimeout(context.Background(), d) }
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Error(err)
	}
}

// hooked calls after when a sandbox has run something.
type hooked struct {
	confine.Confiner
	before, after func()
}

func (h *hooked) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	box, err := h.Confiner.Prepare(ctx, p)
	return hookedBox{box, h}, err
}

type hookedBox struct {
	confine.Sandbox
	h *hooked
}

func (b hookedBox) Run(ctx context.Context, a sandboxprofile.Action, s confine.Stdio) (confine.Result, error) {
	if hold := s.Hold; b.h.before != nil {
		s.Hold = func() error {
			err := hold()
			if err == nil {
				b.h.before()
			}
			return err
		}
	}
	r, err := b.Sandbox.Run(ctx, a, s)
	if b.h.after != nil {
		b.h.after()
	}
	return r, err
}

// broken is a confiner whose sandboxes die.
func broken(c confine.Confiner) confine.Confiner { return dying{c} }

type dying struct{ confine.Confiner }

func (d dying) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	box, err := d.Confiner.Prepare(ctx, p)
	return dyingBox{box}, err
}

type dyingBox struct{ confine.Sandbox }

func (dyingBox) Run(context.Context, sandboxprofile.Action, confine.Stdio) (confine.Result, error) {
	return confine.Result{}, errors.New("the sandbox died")
}

// TestNothingRunsBeforeItsDecisionIsOnDisk looks at the file itself, from the
// moment at which the program would start.
func TestNothingRunsBeforeItsDecisionIsOnDisk(t *testing.T) {
	var seen []audit.Kind
	h := &hooked{}
	f := newFixture(t, setup{mode: approval.ApproveAll, confiner: func(c confine.Confiner) confine.Confiner { h.Confiner = c; return h }})
	h.before = func() { seen = f.kinds(t) }
	if _, e := f.call(context.Background(), "run", runTrue); e != nil {
		t.Fatal(e)
	}
	if !slices.Equal(seen, []audit.Kind{audit.KindDecision}) {
		t.Errorf("when the program starts the log holds %v", seen)
	}
}

// TestTheGrantIsWhatRuns: the plan comes from the grant, and a grant for another
// plan does not do.
func TestTheGrantIsWhatRuns(t *testing.T) {
	s := &Supervisor{profiles: bounds.NewProfiles()}
	if _, err := s.approvedPlan(approval.Grant{}); failure.Wire(err).Code != protocol.CodeDenied {
		t.Errorf("the zero grant: %v", err)
	}
	c := approval.NewController(approval.Options{Mode: approval.ApproveAll})
	plan := tools.Plan{Tool: "run"}
	for digest, ok := range map[string]bool{plan.Digest(): true, tools.Plan{Tool: "other"}.Digest(): false} {
		g, err := c.Decide(context.Background(), approval.Call{ID: "1", ToolName: "run", Digest: digest, Subject: subject{Proposal: tools.Proposal{Plan: plan}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.approvedPlan(g); (err == nil) != ok {
			t.Errorf("digest %s: %v", digest, err)
		}
	}
}

// TestClosingTheSessionEndsItsCalls covers a client that goes away in mid-call.
func TestClosingTheSessionEndsItsCalls(t *testing.T) {
	h := &hooked{}
	f := newFixture(t, setup{mode: approval.ApproveAll, confiner: func(c confine.Confiner) confine.Confiner { h.Confiner = c; return h }})
	running := make(chan struct{})
	h.before = func() { close(running) }
	done := make(chan *protocol.Error)
	go func() {
		_, e := f.call(context.Background(), "run", `{"argv": ["sleep", "60"]}`)
		done <- e
	}()
	<-running
	if _, err := f.CloseSession(f.session); err != nil {
		t.Fatal(err)
	}
	if e := <-done; e == nil || e.Code != protocol.CodeCancelled {
		t.Errorf("the call ended with %v", e)
	}
	if got := f.kinds(t); !slices.Equal(got, []audit.Kind{audit.KindDecision, audit.KindEnd}) {
		t.Errorf("the log holds %v", got)
	}
}

// TestTheOperatorProfileNarrows: what the tool's profile allows and the
// operator's does not is refused by the kernel.
func TestTheOperatorProfileNarrows(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	act := `{"argv": ["sh", "-c", "echo x > made || exit 9"]}`
	if r, e := f.call(context.Background(), "run", act); e != nil || r.ExitCode != 0 {
		t.Fatalf("without an operator profile: %+v %v", r, e)
	}
	top := sandboxprofile.Top()
	top.Paths[f.ws] = sandboxprofile.Read | sandboxprofile.Execute
	f.cfg.Operator = top
	r, e := f.call(context.Background(), "run", strings.ReplaceAll(act, "made", "again"))
	if e != nil || r.ExitCode != 9 {
		t.Errorf("with a read-only operator profile: %+v %v", r, e)
	}
	if _, err := os.Stat(f.ws + "/again"); err == nil {
		t.Error("the file was written")
	}
	if !strings.Contains(string(r.Content[0].Bytes()), "Read-only file system") {
		t.Errorf("stderr: %q", r.Content[0].Bytes())
	}
}

func TestResultsSayWhatEnforcedThem(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	r, e := f.call(context.Background(), "run", `{"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]}`)
	if e != nil {
		t.Fatal(e)
	}
	if r.ExitCode != 3 || r.EnforcedBy.Backend != "bwrap" || r.EnforcedBy.Network == "" || r.PlanDigest == "" || r.Decision.Source != string(approval.SourceMode) {
		t.Errorf("%+v", r)
	}
	text := map[protocol.Stream]string{}
	for _, c := range r.Content {
		text[c.Stream] += string(c.Bytes())
	}
	if text[protocol.Stdout] != "out\n" || text[protocol.Stderr] != "err\n" {
		t.Errorf("content %q", text)
	}
}

// TestProgramsThatCannotRun gives the statuses that a shell gives.
func TestProgramsThatCannotRun(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	writeFile(t, f.ws+"/data", "not a program")
	for argv, want := range map[string]int{`"no-such-program"`: 127, `"./missing"`: 127, `"./data"`: 126, `"true"`: 0} {
		r, e := f.call(context.Background(), "run", `{"argv": [`+argv+`]}`)
		if e != nil || r.ExitCode != want {
			t.Errorf("%s: status %d and %v, want %d", argv, r.ExitCode, e, want)
		}
	}
}

// TestRefusedToolsSaySo: where nothing can confine, each tool is listed with the
// reason, and so is the supervisor's state.
func TestRefusedToolsSaySo(t *testing.T) {
	missing := &confine.Unenforceable{Part: "user namespaces", Reason: "barred here", Hint: "allow them"}
	for _, x := range []struct {
		missing error
		reason  string
	}{{missing, missing.Error()}, {nil, ""}} {
		f := newFixture(t, setup{missing: x.missing})
		list, err := f.Tools(context.Background(), f.session)
		if err != nil || len(list.Tools) == 0 {
			t.Fatal(list, err)
		}
		for _, tool := range list.Tools {
			if tool.Unavailable != x.reason {
				t.Errorf("%s: unavailable %q, want %q", tool.Name, tool.Unavailable, x.reason)
			}
		}
		if s := f.Status().Sandbox; s.Reason != x.reason || s.Ready != (x.missing == nil) || (s.Hint == "") != (x.missing == nil) {
			t.Errorf("status: %+v", s)
		}
	}
}
