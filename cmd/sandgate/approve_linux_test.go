package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/approve"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// A pty is a pseudo-terminal, pty(7), with a person at the other end.
type pty struct {
	t             *testing.T
	master, slave *os.File

	mu      sync.Mutex
	written strings.Builder
	more    chan struct{}
}

func newTerminal(t *testing.T, term string) *pty {
	t.Helper()
	t.Setenv("TERM", term)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &pty{t: t, master: master, slave: slave, more: make(chan struct{}, 1)}
	go x.read()
	t.Cleanup(func() {
		slave.Close()
		master.Close()
	})
	return x
}

// whatAreYou asks a terminal for its attributes (DA1).
const whatAreYou = "\x1b[c"

func (x *pty) read() {
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		if err != nil {
			return
		}
		x.mu.Lock()
		before := max(x.written.Len()-len(whatAreYou)+1, 0)
		x.written.Write(buf[:n])
		asked := strings.Count(x.written.String()[before:], whatAreYou)
		x.mu.Unlock()
		io.WriteString(x.master, strings.Repeat("\x1b[?62;22c", asked)) // every terminal answers that
		select {
		case x.more <- struct{}{}:
		default:
		}
	}
}

// output is all that was written, escape sequences and all.
func (x *pty) output() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.written.String()
}

// see waits until text is on the terminal.
func (x *pty) see(text string) {
	x.t.Helper()
	limit := time.After(30 * time.Second)
	for !strings.Contains(x.output(), text) {
		select {
		case <-x.more:
		case <-limit:
			x.t.Fatalf("no %q on the terminal: %q", text, x.output())
		}
	}
}

// seeTimes waits until text has come that often.
func (x *pty) seeTimes(text string, n int) {
	x.t.Helper()
	for limit := time.Now().Add(30 * time.Second); strings.Count(x.output(), text) < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			x.t.Fatalf("%q is not %d times on the terminal: %q", text, n, x.output())
		}
	}
}

// shows reports whether text comes on the terminal soon, after what was written before.
func (x *pty) shows(text string, from int) bool {
	for limit := time.Now().Add(time.Second); !strings.Contains(x.output()[from:], text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			return false
		}
	}
	return true
}

// pressUntil presses keys until text is on the terminal: on a busy machine a request
// may have been in sight for too short a time when the first ones come.
func (x *pty) pressUntil(keys, text string) {
	x.t.Helper()
	for range 10 {
		x.press(keys)
		limit := time.After(3 * aMoment)
		for waiting := true; waiting; {
			if strings.Contains(x.output(), text) {
				return
			}
			select {
			case <-x.more:
			case <-limit:
				waiting = false
			}
		}
	}
	x.t.Fatalf("no %q on the terminal after %q: %q", text, keys, x.output())
}

func (x *pty) press(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.master, keys); err != nil {
		x.t.Fatal(err)
	}
}

// approve runs the command on the terminal.
func (x *pty) approve(b *cliBench, flags ...string) (status <-chan int) {
	ended := make(chan int, 1)
	go func() {
		ended <- execute(newApp(x.slave, x.slave, x.slave), append([]string{"approve", "--operator-socket", b.operator}, flags...))
	}()
	return ended
}

// quit leaves the screen, and the tombstone of a request before. A key that came with the
// one before it, or too soon after the screen changed, counts for nothing: a person presses
// it again.
func (x *pty) quit(ended <-chan int) int {
	x.t.Helper()
	for range 30 {
		x.press("q")
		select {
		case status := <-ended:
			return status
		case <-time.After(time.Second):
			x.press("\r")
			time.Sleep(burst)
		}
	}
	x.t.Fatalf("it does not end:\n%s", x.output())
	return 0
}

// aMoment is longer than the time in which a key does not count yet. It is not
// there to wait for the program: that moment is what is tested.
const aMoment = guard.Other + 200*time.Millisecond

// burst is longer than keys may come apart and still be taken for pasted ones.
const burst = 60 * time.Millisecond

// TestApproveOnATerminal answers two requests on a real pseudo-terminal: keys that
// were typed ahead are dropped, and each counts a moment later.
func TestApproveOnATerminal(t *testing.T) {
	b := newCLIBench(t)
	_, results := b.asks(2)
	t.Setenv("NO_COLOR", "")
	x := newTerminal(t, "xterm-256color")
	x.press("yyy") // before anything is on the screen
	ended := x.approve(b)
	x.see("Allow once")
	x.see("do<U+000A>it")
	if n := len(b.gate.approvals.Pending()); n != 2 {
		t.Fatalf("%d requests wait, want both", n)
	}
	time.Sleep(aMoment)
	x.press("y")
	if got := <-results; got != cli.ExitOK {
		t.Errorf("the first call: status %d", got)
	}
	x.see("Allowed (once)")
	time.Sleep(aMoment)
	x.press("\r") // deny has the focus
	if got := <-results; got != cli.ExitDenied {
		t.Errorf("the second call: status %d", got)
	}
	x.see("nothing is waiting")
	if got := x.quit(ended); got != cli.ExitOK {
		t.Errorf("status %d", got)
	}
	if out := x.output(); !colour.MatchString(out) || !strings.Contains(out, "\a") {
		t.Errorf("no colour, or no bell: %q", out)
	}
	if leak := "\x1b[2Jent"; strings.Contains(x.output(), leak) {
		t.Errorf("%q went through", leak)
	}
}

// TestEditOnATerminal: the person's own editor changes the arguments, what becomes of
// them is shown, and that is what runs.
func TestEditOnATerminal(t *testing.T) {
	b := newCLIBench(t)
	waiting := b.nextRequest()
	result := make(chan string, 1)
	go func() {
		_, out, errs := b.call("ask", "words=go test ./x")
		result <- out + errs
	}()
	<-waiting
	t.Setenv("VISUAL", "")
	t.Setenv("EDITOR", "sed -i s/test/VUPK/")
	x := newTerminal(t, "xterm-256color")
	ended := x.approve(b)
	x.see("go test ./x")
	time.Sleep(aMoment)
	x.press("ey") // both at once: text that was pasted opens nothing, and answers nothing
	x.see("several keys at once count as pasted text")
	if n := len(b.gate.approvals.Pending()); n != 1 {
		t.Fatalf("%d requests wait, want the one", n)
	}
	time.Sleep(aMoment)
	x.pressUntil("e", "Edited by you")
	x.see("VUPK")
	time.Sleep(aMoment)
	x.press("y")
	if got, want := <-result, "done {\"words\":\"go VUPK ./x\"}\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	x.quit(ended)
}

// TestPatternOnATerminal: chosen, asked about once more, and remembered.
func TestPatternOnATerminal(t *testing.T) {
	b := newCLIBench(t)
	waiting := b.nextRequest()
	result := make(chan int, 1)
	go func() {
		status, _, _ := b.call("ask", "words=go test ./x")
		result <- status
	}()
	<-waiting
	x := newTerminal(t, "xterm-256color")
	ended := x.approve(b)
	x.see("go test ./x")
	time.Sleep(aMoment)
	x.pressUntil("r", "what, and for whom")
	x.press("j")
	time.Sleep(burst)
	x.press("g")
	x.see("whichever agent asks")
	time.Sleep(aMoment)
	x.press("y")
	if got := <-result; got != cli.ExitOK {
		t.Errorf("status %d", got)
	}
	if status, _, errs := b.call("ask", "words=go test ./x", "n:=2"); status != cli.ExitOK {
		t.Errorf("a call that the pattern covers: %d %q", status, errs)
	}
	x.quit(ended)
}

// TestFloodOnATerminal: thousands of waiting requests come up, and the key that answers
// reaches the one that is looked at. SANDGATE_REQUESTS=10000 has as many wait.
func TestFloodOnATerminal(t *testing.T) {
	b := newCLIBench(t)
	flood, err := strconv.Atoi(cmp.Or(os.Getenv("SANDGATE_REQUESTS"), "1000"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	decided := make(chan string, flood)
	for i := range flood {
		session := fmt.Sprintf("s-flood-%d", i) // each session may ask only so often
		if err := b.gate.approvals.OpenSession(session); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := b.gate.approvals.Decide(ctx, approval.Call{SessionID: session, Agent: "flood", ToolName: "ask",
				Request: &approval.Request{ToolName: "ask", Description: session}})
			if err == nil {
				decided <- session
			}
		}()
	}
	for len(b.gate.approvals.Pending()) < flood {
		runtime.Gosched()
	}
	x := newTerminal(t, "xterm-256color")
	started := time.Now()
	ended := x.approve(b)
	x.see(fmt.Sprintf("%d waiting", flood)) // in the title
	t.Logf("%d waiting are on the screen after %v", flood, time.Since(started).Round(time.Millisecond))
	want := b.gate.approvals.Pending()[0].SessionID
	x.see(want)
	time.Sleep(aMoment)
	x.press("y")
	if got := <-decided; got != want {
		t.Errorf("%s was allowed, want %s, which was on the screen", got, want)
	}
	x.see(fmt.Sprintf("%d waiting", flood-1))
	if got := x.quit(ended); got != cli.ExitOK {
		t.Errorf("status %d", got)
	}
}

// TestPlainCutTextAsksTwice: on a terminal, what was cut for display is allowed with
// a second answer only.
func TestPlainCutTextAsksTwice(t *testing.T) {
	b := newCLIBench(t)
	waiting := b.nextRequest()
	result := make(chan int, 1)
	go func() {
		status, _, _ := b.call("ask", "long="+strings.Repeat("x", 20<<10))
		result <- status
	}()
	<-waiting
	x := newTerminal(t, "dumb")
	ended := x.approve(b)
	x.see("an empty line denies): ")
	x.pressUntil("y\n", "the text was cut")
	if n := len(b.gate.approvals.Pending()); n != 1 {
		t.Fatalf("%d requests wait, want the one", n)
	}
	x.pressUntil("y\n", "approved (once)")
	if got := <-result; got != cli.ExitOK {
		t.Errorf("status %d", got)
	}
	x.press("\x04")
	<-ended
}

// TestPlainAsksAboutWhatIsNotShown: a program from the workspace is allowed by a second answer, and
// remembered for its content.
func TestPlainAsksAboutWhatIsNotShown(t *testing.T) {
	s := newServing(t, pageConfig)
	build := func(text string) {
		if err := os.WriteFile(s.ws+"/app", []byte("echo "+text+"\nexit\n"+strings.Repeat("\x00", 16)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build("one")
	agent := s.session("coder")
	runs := func() <-chan ended { return call(t.Context(), agent, "shell", map[string]any{"command": "sh app"}) }
	x := newTerminal(t, "dumb")
	stopped := x.approve(&cliBench{t: t, operator: s.operator}, "--plain")
	x.see("waiting for requests")
	first := runs()
	x.see("an empty line denies): ")
	x.pressUntil("y\n", "allow it unread: no screen can show what it starts: app")
	x.pressUntil("y\n", "approved (once)")
	if e := <-first; e.err != nil {
		t.Error(e.err)
	}
	second := runs()
	x.pressUntil("s\n", "No screen can show what it starts: app (Binary file")
	x.pressUntil("y\n", "approved (session)")
	if e := <-second; e.err != nil {
		t.Error(e.err)
	}
	if e := <-runs(); e.err != nil { // nobody was asked
		t.Error(e.err)
	}
	build("another")
	third := runs()
	x.pressUntil("N\n", "denied (once)")
	if e := <-third; e.err == nil {
		t.Error("another content has run")
	}
	x.press("\x04")
	<-stopped
}

var colour = regexp.MustCompile(`\x1b\[(\d+;)*[349][0-7][;m]`)

func TestApproveWithoutColour(t *testing.T) {
	b := newCLIBench(t)
	ids, results := b.asks(1)
	t.Setenv("NO_COLOR", "any")
	x := newTerminal(t, "xterm-256color")
	ended := x.approve(b)
	x.see("other denials")
	if out := x.output(); colour.MatchString(out) {
		t.Errorf("colours: %q", out)
	}
	b.approvals("deny", ids[0])
	<-results
	x.see("Nothing ran") // it stays until somebody has seen it
	time.Sleep(guard.Settle + burst)
	x.press("\r")
	x.see("nothing is waiting")
	time.Sleep(burst)
	x.quit(ended)
}

// TestApprovePlainOnATerminal: a terminal that cannot move its cursor, and a
// person who asks for it, get lines and no escape sequence.
func TestApprovePlainOnATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		term  string
		flags []string
	}{"dumb": {"dumb", nil}, "asked for": {"xterm-256color", []string{"--plain"}}, "no TERM": {"", nil}} {
		t.Run(name, func(t *testing.T) {
			b := newCLIBench(t)
			_, results := b.asks(1)
			x := newTerminal(t, c.term)
			ended := x.approve(b, c.flags...)
			x.see("an empty line denies): ")
			x.pressUntil("y\n", "approved (once)")
			if got := <-results; got != cli.ExitOK {
				t.Errorf("the call: status %d", got)
			}
			x.press("\x04") // Ctrl-D
			if got := <-ended; got != cli.ExitOK {
				t.Errorf("status %d", got)
			}
			if out := x.output(); strings.Contains(out, "\x1b") {
				t.Errorf("escape sequences: %q", out)
			}
		})
	}
}

// TestPlainHasTheRule: on a terminal a line that comes too soon answers nothing; a request
// that ended by another hand stays until an empty line, whatever was being written about
// it; and what is remembered is said first.
func TestPlainHasTheRule(t *testing.T) {
	b := newCLIBench(t)
	x := newTerminal(t, "dumb")
	ended := x.approve(b, "--plain")
	x.see("waiting for requests")
	for i := range tries(1) {
		s := b.swap(t, i)
		x.see(fmt.Sprintf("ask: bait-%d", i))
		s.withdraw()
		x.press("y\n") // about the bait, at whatever moment it arrives
		if <-s.bait {
			t.Error("a line that was entered at once has answered")
		}
		x.pressUntil("\n", fmt.Sprintf("ask: evil-%d", i))
		x.press("y\n") // at once
		x.pressUntil("s\n", "From now on ask runs without asking, until this session ends: exactly this call")
		x.pressUntil("no\n", "not answered")
		s.drop()
		if <-s.evil {
			t.Error("answered without an act that counts")
		}
		x.see("Nothing ran")
		time.Sleep(guard.Settle + burst)
		x.press("\n")
		time.Sleep(burst)
	}
	x.press("\x04")
	<-ended
}

// TestSwapsOnAStoppedPlainMode: the program stands still at any moment after a request came, as one does
// that waits for memory, a network or a processor, and a person types meanwhile. A line that was
// entered before the question stood there answers nothing, however late it is read; one that is
// entered after it does.
func TestSwapsOnAStoppedPlainMode(t *testing.T) {
	b := newCLIBench(t)
	x := newTerminal(t, "dumb")
	// No child of the supervisor's may answer: setsid leaves it to init.
	pidFile := b.operator + ".pid"
	c := exec.Command("setsid", "--fork", "--ctty", "sh", "-c", `echo $$ > "$1"; exec sandgate approve --plain --operator-socket "$2"`, "sh", pidFile, b.operator)
	c.Stdin, c.Stdout, c.Stderr = x.slave, x.slave, x.slave
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	x.see("waiting for requests")
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	signal := func(n syscall.Signal) {
		if err := syscall.Kill(pid, n); err != nil {
			t.Fatal(err)
		}
	}
	early := 0
	for i := range tries(5) {
		from := len(x.output())
		status := make(chan int, 1)
		go func() {
			code, _, _ := b.call("ask", fmt.Sprintf("words=late-%d.", i))
			status <- code
		}()
		x.see(fmt.Sprintf("late-%d.", i))
		const question = "(an empty line denies): "
		time.Sleep(upTo(guard.Settle + 200*time.Millisecond))
		signal(syscall.SIGSTOP)
		time.Sleep(burst)
		tooSoon := !strings.Contains(x.output()[from:], question)
		x.press("y\n")
		time.Sleep(upTo(2 * guard.Other))
		signal(syscall.SIGCONT)
		if tooSoon {
			early++
			for limit := time.Now().Add(30 * time.Second); !x.shows(question, from); {
				if time.Now().After(limit) {
					t.Fatalf("try %d: no question: %q", i, x.output()[from:])
				}
			}
			time.Sleep(2 * burst)
			select {
			case code := <-status:
				t.Fatalf("try %d: a line that was entered before the question has answered: status %d", i, code)
			default:
			}
			x.press("y\n")
		}
		select {
		case code := <-status:
			if code != cli.ExitOK {
				t.Fatalf("try %d: status %d after a line that counts: %q", i, code, x.output()[from:])
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("try %d: a line after the question does not answer: %q", i, x.output()[from:])
		}
	}
	if early == 0 {
		t.Error("no line was early")
	}
	t.Logf("%d lines of %d were early", early, tries(5))
}

// TestPlainKeepsALineFromTheShell: the connection goes while a person writes. What they write
// on is read, and is no command of the shell below; Enter leaves.
func TestPlainKeepsALineFromTheShell(t *testing.T) {
	b := newCLIBench(t)
	way := newTunnelOf(t, "unix", b.operator+".way", b.operator)
	b.operator += ".way"
	x := newTerminal(t, "dumb")
	ended := x.approve(b, "--plain")
	x.see("waiting for requests")
	s := b.swap(t, 0)
	x.see("ask: bait-0")
	x.press("t never do")
	way.cut()
	x.see("is closed; press Enter to leave")
	from := len(x.output())
	x.press(" that\n")
	if !x.shows("press Enter to leave", from) {
		t.Errorf("the rest of the line was not read: %q", x.output()[from:])
	}
	x.press("\n")
	if status := <-ended; status != cli.ExitInternal {
		t.Errorf("exit %d", status)
	}
	s.withdraw()
	s.drop()
	if <-s.bait || <-s.evil {
		t.Error("a line has answered")
	}
}

// TestPlainForgesNothing: whatever the plain mode writes of a request, the terminal breaks no
// line of it by itself, and no text from outside begins where a line or a list of ours does.
func TestPlainForgesNothing(t *testing.T) {
	b := newCLIBench(t)
	x := newTerminal(t, "dumb")
	ended := x.approve(b, "--plain")
	x.see("waiting for requests")
	status := make(chan int, 1)
	go func() {
		code, _, _ := b.call("ask", "words=go test "+strings.Repeat("ZZ  2  commands that begin with ", 20))
		status <- code
	}()
	x.see("an empty line denies): ")
	for _, c := range []struct{ line, want string }{
		{"v", "left to answer"}, {"e", "its arguments: "}, {"r", "r NUMBER s, a or g"}, {"r 2 s", "y allows and remembers that"}, {"no", "not answered"},
		{`e {"bad": 1}`, "bad is not allowed"}, {"e {", "not JSON"},
	} {
		x.pressUntil(c.line+"\n", c.want)
		time.Sleep(guard.Settle + burst)
	}
	x.pressUntil("y\n", "approved (once)")
	if got := <-status; got != cli.ExitOK {
		t.Errorf("the call: status %d", got)
	}
	x.press("\x04")
	<-ended
	continued := 0
	for line := range strings.SplitSeq(strings.ReplaceAll(x.output(), "\r", ""), "\n") {
		if present.Width(line) > 80 {
			t.Errorf("%d cells on a terminal of 80: %q", present.Width(line), line)
		}
		if strings.HasPrefix(line, "ZZ") || strings.HasPrefix(line, "  2  c") {
			t.Errorf("a text from outside begins a line: %q", line)
		}
		if strings.HasPrefix(line, "  ┆ ") {
			continued++
		}
	}
	for _, want := range []string{"\n  1  exactly this call", "\n  2  every call, whatever"} { // the twin
		if !strings.Contains(strings.ReplaceAll(x.output(), "\r", ""), want) {
			t.Errorf("no %q in\n%s", want, x.output())
		}
	}
	if continued < 20 {
		t.Errorf("%d lines go on behind a margin:\n%s", continued, x.output())
	}
}

// TestPlainLooksTwice: a request that looks like one that was withdrawn under the hand of a
// person says so; one that does not look like it says nothing.
func TestPlainLooksTwice(t *testing.T) {
	b := newCLIBench(t)
	x := newTerminal(t, "dumb")
	ended := x.approve(b, "--plain")
	x.see("waiting for requests")
	s := b.swap(t, 0)
	x.see("ask: bait-0")
	s.withdraw()
	<-s.bait
	x.see("Press Enter to continue")
	x.pressUntil("\n", "ask: evil-0")
	if strings.Contains(x.output(), "look closely") {
		t.Errorf("evil-0 is like bait-0:\n%s", x.output())
	}
	s.drop()
	<-s.evil
	again := b.swap(t, 1)
	time.Sleep(guard.Settle + burst)
	x.pressUntil("\n", "look closely: this is similar to one that was withdrawn")
	again.withdraw()
	again.drop()
	<-again.bait
	<-again.evil
	x.press("\x04")
	<-ended
}

// TestPlainAnswers: the words of the plain mode, and that all else denies hard.
func TestPlainAnswers(t *testing.T) {
	allow := func(s approval.Scope) protocol.ApprovalsDecide {
		return protocol.ApprovalsDecide{ID: "r", Decision: protocol.Allow, Scope: s}
	}
	deny := func(m approval.RejectMode) protocol.ApprovalsDecide {
		return protocol.ApprovalsDecide{ID: "r", Decision: protocol.Deny, Mode: m}
	}
	saying := func(d protocol.ApprovalsDecide, text string) protocol.ApprovalsDecide {
		d.Feedback = text
		return d
	}
	for text, want := range map[string]protocol.ApprovalsDecide{
		"y": allow(""), " YES ": allow(""), "s": allow(approval.Session), "agent": allow(approval.Agent), "G": allow(approval.Global),
		"n": deny(approval.RejectSoft), "x": deny(approval.RejectExplain), "Explain": deny(approval.RejectExplain),
		"N": deny(""), "": deny(""), "no": deny(""), "yy": deny(""), "y\x00": deny(""), "ye s": deny(""), "y please": deny(""), "no way": deny(""),
		"t not now":       saying(deny(""), "not now"),
		"n use the trash": saying(deny(approval.RejectSoft), "use the trash"), "N stop": saying(deny(""), "stop"),
		"x why?": saying(deny(approval.RejectExplain), "why?"),
		"i":      {ID: "r", Decision: protocol.Deny, Interrupt: true},
		"d":      {ID: "r", Decision: protocol.Dismiss},
	} {
		got := approve.AnswerTo("r", text)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
