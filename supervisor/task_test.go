package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/tools/tasks"
)

// start starts a task and gives how it stood then.
func (f *fixture) start(t *testing.T, args map[string]any) protocol.TaskInfo {
	t.Helper()
	r, e := f.call(context.Background(), tasks.Start, string(must.JSON(args)))
	if e != nil {
		t.Fatalf("%v: %+v", args, e)
	}
	return decodeAs[protocol.TaskInfo](t, r)
}

func decodeAs[T any](t *testing.T, r protocol.CallResult) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(r.Structured, &v); err != nil {
		t.Fatalf("%s: %v", r.Structured, err)
	}
	return v
}

// read reads a task's output from offset on until the task is over or the output
// holds want, and gives it with the state that it was in.
func (f *fixture) read(t *testing.T, id protocol.TaskID, want string) (string, protocol.TaskOutput) {
	t.Helper()
	var text bytes.Buffer
	var offset int64
	for {
		r, e := f.call(context.Background(), tasks.Output, fmt.Sprintf(`{"task_id": %q, "offset": %d, "wait_ms": 60000}`, id, offset))
		if e != nil {
			t.Fatal(e)
		}
		o := decodeAs[protocol.TaskOutput](t, r)
		n := 0
		for _, c := range r.Content {
			n += len(c.Bytes())
			text.Write(c.Bytes())
		}
		if o.NextOffset != offset+o.DroppedBytes+int64(n) {
			t.Fatalf("from %d: %d bytes, %d dropped, next is %d", offset, n, o.DroppedBytes, o.NextOffset)
		}
		offset = o.NextOffset
		if n == 0 && o.State == protocol.Done || want != "" && strings.Contains(text.String(), want) {
			return text.String(), o
		}
	}
}

func TestATaskRunsWhileItsCallIsAnswered(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	i := f.start(t, map[string]any{"command": "read -r line; echo got $line; echo to stderr >&2; exit 3"})
	if i.State != protocol.Running || i.TaskID == "" || i.ExitCode != nil {
		t.Fatalf("%+v", i)
	}
	r, e := f.call(context.Background(), tasks.Input, fmt.Sprintf(`{"task_id": %q, "input": "words\n"}`, i.TaskID))
	if e != nil {
		t.Fatal(e)
	}
	if got := string(r.Content[0].Bytes()); got != "wrote 6 bytes\n" {
		t.Errorf("input: %q", got)
	}
	text, o := f.read(t, i.TaskID, "")
	if !strings.Contains(text, "got words\n") || !strings.Contains(text, "to stderr\n") || o.ExitCode == nil || *o.ExitCode != 3 {
		t.Errorf("%q, %+v", text, o)
	}
	if o.StdoutBytes != 10 || o.StderrBytes != 10 {
		t.Errorf("counted %d and %d bytes", o.StdoutBytes, o.StderrBytes)
	}
	kinds := f.kinds(t)
	if n := len(slices.DeleteFunc(kinds, func(k audit.Kind) bool { return k != audit.KindEnd })); n < 3 {
		t.Errorf("the log has %d ends of a start, an input and a task's end or more", n)
	}
}

// TestTasksEndWithTheirSession: killing, closing and the end of the supervisor
// leave no process.
func TestTasksEndWithTheirSession(t *testing.T) {
	const forever = `trap "" TERM INT HUP; echo up; setsid sleep 1000 & while :; do sleep 1000; done`
	for name, end := range map[string]func(*testing.T, *fixture, protocol.TaskID){
		"kill_task": func(t *testing.T, f *fixture, id protocol.TaskID) {
			r, e := f.call(context.Background(), tasks.Kill, fmt.Sprintf(`{"task_id": %q}`, id))
			if e != nil {
				t.Fatal(e)
			}
			i := decodeAs[protocol.TaskInfo](t, r)
			if i.State != protocol.Done || i.Signal != "SIGKILL" || i.Error != background.ErrKilled.Error() {
				t.Errorf("%+v", i)
			}
		},
		"session.close": func(t *testing.T, f *fixture, _ protocol.TaskID) {
			if _, err := f.CloseSession(f.session); err != nil {
				t.Fatal(err)
			}
		},
		"stop": func(t *testing.T, f *fixture, _ protocol.TaskID) {
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, setup{mode: approval.ApproveAll})
			i := f.start(t, map[string]any{"command": forever + " # " + f.ws})
			f.read(t, i.TaskID, "up")
			if !runs(t, f.ws) {
				t.Fatal("the task is not seen in /proc while it runs: the check below would mean nothing")
			}
			end(t, f, i.TaskID)
			if runs(t, f.ws) {
				t.Error("a process is left")
			}
			var last audit.Entry
			for e, err := range audit.Query(f.logPath, audit.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Kind == audit.KindEnd && e.Tool == tasks.Start {
					last = e
				}
			}
			if !strings.Contains(string(last.Data), "SIGKILL") {
				t.Errorf("the end in the log: %s", last.Data)
			}
		})
	}
}

// runs reports whether a process has mark in its command line.
func runs(t *testing.T, mark string) bool {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		b, _ := os.ReadFile(name)
		return bytes.Contains(b, []byte(mark))
	})
}

func TestTasksAreBounded(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	first := f.start(t, map[string]any{"command": "sleep 1000"})
	f.start(t, map[string]any{"command": "sleep 1000"})
	_, e := f.call(context.Background(), tasks.Start, `{"command": "true"}`)
	if e == nil || e.Code != protocol.CodeLimitExceeded {
		t.Errorf("a third of two: %+v", e)
	}
	f.call(context.Background(), tasks.Kill, fmt.Sprintf(`{"task_id": %q}`, first.TaskID))
	f.read(t, f.start(t, map[string]any{"command": "true"}).TaskID, "") // there is room again
	f.read(t, f.start(t, map[string]any{"command": "true"}).TaskID, "") // and the oldest that is over is gone
	_, e = f.call(context.Background(), tasks.Output, fmt.Sprintf(`{"task_id": %q}`, first.TaskID))
	if e == nil || e.Code != protocol.CodeUnknownTask {
		t.Errorf("one that is no longer kept: %+v", e)
	}

	i := f.start(t, map[string]any{"command": "sleep 1000", "timeout_ms": 50})
	if _, o := f.read(t, i.TaskID, ""); !strings.Contains(o.Error, "timed out after 50ms") {
		t.Errorf("%+v", o)
	}
}

// TestAFloodOfOutputIsKeptInPart: the beginning and the end, and what is missing
// is counted.
func TestAFloodOfOutputIsKeptInPart(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	i := f.start(t, map[string]any{"command": "echo first; head -c 20000000 /dev/zero; echo last"})
	for state := protocol.Running; state == protocol.Running; {
		r, e := f.call(context.Background(), tasks.Output, fmt.Sprintf(`{"task_id": %q, "offset": 99999999, "wait_ms": 60000}`, i.TaskID))
		var o protocol.TaskOutput
		if e != nil || json.Unmarshal(r.Structured, &o) != nil {
			t.Fatal(e, r)
		}
		state = o.State
	}
	text, o := f.read(t, i.TaskID, "")
	if !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "last\n") || len(text) > 80<<10 {
		t.Errorf("%d bytes, %.20q to %.20q", len(text), text, text[len(text)-20:])
	}
	if o.StdoutBytes != 20000011 || *o.ExitCode != 0 {
		t.Errorf("%+v", o)
	}
}

// TestTasksAreTheirSessions: no other session can read, write, end or see one.
func TestTasksAreTheirSessions(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	i := f.start(t, map[string]any{"command": "echo secret; sleep 1000"})
	f.read(t, i.TaskID, "secret")
	mine := f.session
	other, err := f.OpenSession(self, protocol.SessionOpen{Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	f.session = other.SessionID
	for tool, args := range map[string]string{
		tasks.Output: `{"task_id": %q}`, tasks.Input: `{"task_id": %q, "input": "x"}`, tasks.Kill: `{"task_id": %q}`,
	} {
		_, e := f.call(context.Background(), tool, fmt.Sprintf(args, i.TaskID))
		_, never := f.call(context.Background(), tool, fmt.Sprintf(args, "t-NEVERWAS"))
		if e == nil || e.Code != protocol.CodeUnknownTask || never == nil ||
			strings.ReplaceAll(e.Message, string(i.TaskID), "t-NEVERWAS") != never.Message {
			t.Errorf("%s: %+v, and of a task that never was: %+v", tool, e, never)
		}
	}
	if r, _ := f.call(context.Background(), tasks.List, `{}`); len(decodeAs[protocol.TaskList](t, r).Tasks) != 0 {
		t.Errorf("%s", r.Structured)
	}
	f.session = mine
	r, _ := f.call(context.Background(), tasks.List, `{}`)
	if l := decodeAs[protocol.TaskList](t, r).Tasks; len(l) != 1 || l[0].TaskID != i.TaskID || l[0].State != protocol.Running {
		t.Errorf("%s", r.Structured)
	}
}

// TestBackgroundIsAskedAboutOfItself: an answer for the command in the foreground
// does not cover it in the background, a rule for the shell does, and what is
// typed into a task is asked about in every case.
func TestBackgroundIsAskedAboutOfItself(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Interactive})
	var asked []approval.Pending
	f.answer(t, func(p approval.Pending) {
		asked = append(asked, p)
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: approval.Session, Approver: "test"})
	})
	for range 2 {
		if _, e := f.call(context.Background(), "shell", `{"command": "echo asked"}`); e != nil {
			t.Fatal(e)
		}
		f.read(t, f.start(t, map[string]any{"command": "echo asked"}).TaskID, "asked")
	}
	if len(asked) != 2 || asked[0].ToolName != "shell" || asked[1].ToolName != "shell" || asked[1].Payload["background"] != true {
		t.Fatalf("asked %d times: %+v", len(asked), asked)
	}
	i := f.start(t, map[string]any{"command": "cat"}) // free by the default rule
	f.call(context.Background(), tasks.Input, fmt.Sprintf(`{"task_id": %q, "input": "typed\n"}`, i.TaskID))
	if len(asked) != 3 || asked[2].Payload["command"] != "cat" || asked[2].Payload["input"] != "typed\n" {
		t.Errorf("asked %d times: %+v", len(asked), asked)
	}
	f.read(t, i.TaskID, "typed")
}

func TestWhatIsRefusedDoesNotStart(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Strict})
	if _, e := f.call(context.Background(), tasks.Start, `{"command": "echo asked"}`); e == nil || e.Code != protocol.CodeDenied {
		t.Errorf("%+v", e)
	}
	if r, _ := f.call(context.Background(), tasks.List, `{}`); len(decodeAs[protocol.TaskList](t, r).Tasks) != 0 {
		t.Errorf("%s", r.Structured)
	}
	f.read(t, f.start(t, map[string]any{"command": "echo free"}).TaskID, "free")
}

// TestATaskThatDoesNotRead: input is bounded, and blocks nobody.
func TestATaskThatDoesNotRead(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	i := f.start(t, map[string]any{"command": "sleep 1000"})
	args := string(must.JSON(map[string]any{"task_id": i.TaskID, "input": strings.Repeat("x", 64<<10)}))
	for n := range 20 {
		if _, e := f.call(context.Background(), tasks.Input, args); e != nil {
			if e.Code != protocol.CodeLimitExceeded || n < 4 {
				t.Errorf("after %d: %+v", n, e)
			}
			return
		}
	}
	t.Error("a task takes input without end")
}

// TestATerminalOfItsOwn: the program has a terminal, which is made inside the
// sandbox, and nothing that it does to it reaches another.
func TestATerminalOfItsOwn(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	script := `
import fcntl, os, signal, sys, termios
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) # one that comes before a read begins would not end it
print("streams", [os.isatty(fd) for fd in range(3)], os.ttyname(0).startswith("/dev/pts/"), os.get_terminal_size(0))
print("same", os.fstat(os.open("/dev/tty", os.O_RDWR)).st_rdev != 0, os.path.samestat(os.stat(os.ttyname(0)), os.fstat(0)))
print("others", [n for n in os.listdir("/dev/pts") if n not in ("ptmx", os.path.basename(os.ttyname(0)))])
try:
    fcntl.ioctl(0, termios.TIOCSTI, b"x")
    print("pushed")
except OSError as e:
    print("TIOCSTI", e.errno)
sys.stdout.flush()
print("read", repr(sys.stdin.readline()))
sys.stdout.flush()
signal.sigwait({signal.SIGINT})
print("interrupted")
`
	if err := os.WriteFile(filepath.Join(f.ws, "tty.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	i := f.start(t, map[string]any{"command": "exec python3 tty.py", "terminal": map[string]any{"rows": 30, "columns": 100}})
	text, _ := f.read(t, i.TaskID, "TIOCSTI 1\r\n")
	for _, want := range []string{
		"streams [True, True, True] True os.terminal_size(columns=100, lines=30)\r\n",
		"same True True\r\n", "others []\r\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	for input, want := range map[string]string{"words\n": "read 'words\\n'\r\n"} {
		f.input(t, i.TaskID, input)
		f.read(t, i.TaskID, want)
	}
	f.input(t, i.TaskID, "\x03")
	text, o := f.read(t, i.TaskID, "")
	if !strings.Contains(text, "interrupted\r\n") || o.ExitCode == nil || *o.ExitCode != 0 || !o.Terminal {
		t.Errorf("%q, %+v", text, o)
	}
	twin := f.start(t, map[string]any{"command": "tty; test -t 1 || echo none"})
	if text, _ := f.read(t, twin.TaskID, ""); !strings.Contains(text, "not a tty") || !strings.Contains(text, "none") {
		t.Errorf("a task that asked for no terminal: %q", text)
	}
}

func (f *fixture) input(t *testing.T, id protocol.TaskID, text string) {
	t.Helper()
	if _, e := f.call(context.Background(), tasks.Input, string(must.JSON(map[string]any{"task_id": id, "input": text}))); e != nil {
		t.Fatal(e)
	}
}
