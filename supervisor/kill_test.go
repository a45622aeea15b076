package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/store"
)

// killEnv names a step and a directory: the test's own binary is then a supervisor
// that is killed, as by kill -9, when it comes to that step.
const killEnv = "SUPERVISOR_TEST_KILL"

// The steps of a call that somebody is asked about, in their order. What is before
// stepAnswered may not run, what is after it may, once.
var killSteps = []string{
	"before the journal", "after the journal", "asked", "before the answer",
	stepAnswered, "before the sandbox", "before the program", "after the program", "before it is taken from the journal", "after it is taken", "answered to the agent",
}

const stepAnswered = "after the answer"

// notBegun are steps after the answer at which nothing has begun: at the second the
// process is there, and waits at the gate that the supervisor was about to open.
var notBegun = []string{"before the sandbox", "before the program"}

func dieAt(step string) {
	if at, _, _ := strings.Cut(os.Getenv(killEnv), ":"); strings.TrimPrefix(at, "deferred ") == step {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it has
	}
}

// TestKilledChild is the supervisor that dies. It is no test of its own.
func TestKilledChild(t *testing.T) {
	step, dir, ok := strings.Cut(os.Getenv(killEnv), ":")
	if !ok {
		return
	}
	h := &hooked{before: func() { dieAt("before the program") }, after: func() { dieAt("after the program") }}
	f := newFixture(t, setup{
		at: dir, journal: dyingJournal{store.NewJournal(dir)},
		confiner: func(c confine.Confiner) confine.Confiner { h.Confiner = c; return dyingConfiner{h} },
	})
	f.answer(t, func(p approval.Pending) {
		fmt.Println("asked:", p.ID)
		dieAt("asked")
		dieAt("before the answer")
		f.allow(t, protocol.ApprovalID(p.ID), approval.Answer{})
		dieAt(stepAnswered)
	})
	if !strings.HasPrefix(step, "deferred ") {
		_, _ = f.call(context.Background(), "run", appendLine)
	} else {
		id := f.deferOne(t)
		// Without defer, the second call waits for the answer.
		_, _ = f.do(func(c *protocol.ToolsCall) { c.ApprovalID = id })
	}
	dieAt("answered to the agent")
	t.Errorf("came past the step %q", step)
}

type dyingJournal struct{ approval.Journal }

func (j dyingJournal) Add(p approval.Pending) error {
	dieAt("before the journal")
	err := j.Journal.Add(p)
	dieAt("after the journal")
	return err
}

func (j dyingJournal) Remove(id string) error {
	dieAt("before it is taken from the journal")
	err := j.Journal.Remove(id)
	dieAt("after it is taken")
	return err
}

type dyingConfiner struct{ confine.Confiner }

func (c dyingConfiner) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	dieAt("before the sandbox")
	return c.Confiner.Prepare(ctx, p)
}

// TestKilledAtEachStep: a supervisor that is killed at any step of a call loses no
// request, has run nothing that was not answered, and the next one runs nothing
// again.
func TestKilledAtEachStep(t *testing.T) {
	for i, step := range killSteps {
		for _, kind := range []string{"", "deferred "} {
			t.Run(strings.ReplaceAll(kind+step, " ", "-"), func(t *testing.T) {
				t.Parallel()
				mayRun := i >= slices.Index(killSteps, stepAnswered) && !slices.Contains(notBegun, step)
				checkKilled(t, kind+step, mayRun)
			})
		}
	}
}

func checkKilled(t *testing.T, step string, mayRun bool) {
	dir := confinetest.Workspace(t)
	if err := os.Mkdir(dir+"/ws", 0o755); err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0], "-test.run=^TestKilledChild$", "-test.timeout=60s")
	child.Env = append(os.Environ(), killEnv+"="+step+":"+dir)
	out, err := child.CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v: it was not killed at %q:\n%s", err, step, out)
	}
	_, id, asked := strings.Cut(string(out), "asked: ")
	id, _, _ = strings.Cut(id, "\n")

	var f *fixture
	for range 2 { // the second start finds nothing left
		left, err := store.FindOrphans(dir)
		if err != nil {
			t.Fatal(err)
		}
		f = newFixture(t, setup{at: dir, left: left})
		if n := f.ran(t); n > 1 || n > 0 && !mayRun {
			t.Fatalf("ran %d times", n)
		}
		if err := f.Supervisor.Close(); err != nil {
			t.Fatal(err)
		}
		f.log.Close()
	}
	ends := endsOf(t, dir+"/audit.jsonl")
	for request, actions := range ends {
		if request != id && asked {
			t.Errorf("the log has a request %q that nobody was asked about", request)
		}
		approved := strings.Contains(actions, string(approval.Approved))
		if approved && strings.Contains(actions, string(approval.Dismissed)) {
			t.Errorf("request %s ended as %s", request, actions)
		}
		if f.ran(t) == 1 && !approved {
			t.Errorf("it ran, and the log says %s", actions)
		}
	}
	if asked && ends[id] == "" {
		t.Errorf("the request %q is lost: the log has %v", id, ends)
	}
	if f.ran(t) == 1 && len(ends) == 0 {
		t.Error("it ran, and the log has no decision")
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		// What was killed in mid-write is kept beside the log, to be looked at.
		if name := file.Name(); name != "ws" && name != "audit.jsonl" && name != "audit.jsonl.checkpoint" && !strings.HasPrefix(name, "audit.jsonl.torn-") {
			t.Errorf("left in the directory: %s", name)
		}
	}
}

// endsOf are the actions of the decisions in a log, by request.
func endsOf(t *testing.T, log string) map[string]string {
	t.Helper()
	ends := map[string]string{}
	for e, err := range audit.Query(log, audit.Filter{Kinds: []audit.Kind{audit.KindDecision, audit.KindAnswer}}) {
		if err != nil {
			t.Fatal(err)
		}
		var d history.DecisionEntry
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		ends[d.Decision.RequestID] += string(d.Decision.Action) + " "
	}
	return ends
}
