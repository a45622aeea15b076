package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
)

// needsScreens leaves a test out where there is neither a browser nor tmux to look at a
// screen with: they are no part of what sandgate needs, and take their time. `make page`,
// which continuous integration runs as well, installs both and says here that nothing may
// be left out.
func needsScreens(t *testing.T) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestPage") && !strings.HasPrefix(t.Name(), "TestSwapsOn") {
		t.Fatal("scripts/page would never run this test: it runs those whose names begin with TestPage or TestSwapsOn")
	}
	if os.Getenv("SANDGATE_NEEDS_SCREENS") == "" {
		t.Skip("drives a browser or a terminal: `make page` installs them and runs this test")
	}
}

// A screen is a program in tmux: what stands on it is what a person sees, and not
// the bytes that brought it there.
type screen struct {
	t      *testing.T
	server string
}

// newScreen is `sandgate approve` on a terminal.
func newScreen(t *testing.T, operator string, columns, rows int) *screen {
	t.Helper()
	return newScreenOf(t, "", "sandgate approve --operator-socket "+operator+"; true", columns, rows)
}

func newScreenOf(t *testing.T, dir, command string, columns, rows int) *screen {
	t.Helper()
	needsScreens(t)
	x := &screen{t, fmt.Sprintf("sandgate-%d-%d", os.Getpid(), time.Now().UnixNano())}
	t.Cleanup(func() { exec.Command("tmux", "-L", x.server, "kill-server").Run() }) // it may have ended
	x.tmux("-f", "/dev/null", "start-server", ";", "set-option", "-g", "status", "off", ";", "set-option", "-g", "default-terminal", "tmux-256color", ";",
		"new-session", "-d", "-c", cmp.Or(dir, "."), "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), command)
	return x
}

func (x *screen) tmux(args ...string) string {
	x.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", x.server}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// text is what stands on the screen. Lines that were too long for it are whole.
func (x *screen) text() string { return x.tmux("capture-pane", "-p", "-J") }

// shows reports whether a text comes on the screen in time.
func (x *screen) shows(text string, within time.Duration) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if strings.Contains(strings.Join(strings.Fields(x.text()), " "), text) {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func (x *screen) see(text string) {
	x.t.Helper()
	if !x.shows(text, 30*time.Second) {
		x.t.Fatalf("no %q on the screen:\n%s", text, x.text())
	}
}

// gone waits until a text is no longer on the screen.
func (x *screen) gone(text string) {
	x.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); strings.Contains(x.text(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			x.t.Fatalf("%q is still on the screen:\n%s", text, x.text())
		}
	}
}

// press presses a key until a text is on the screen: one that comes too soon does nothing.
func (x *screen) press(key, until string) {
	x.t.Helper()
	for range 10 {
		x.tmux("send-keys", key)
		if x.shows(until, 3*time.Second) {
			return
		}
	}
	x.t.Fatalf("no %q on the screen after %s:\n%s", until, key, x.text())
}

// enter writes a text in place of what stands in the line, and enters it.
func (x *screen) enter(text, until string) {
	x.t.Helper()
	x.tmux("send-keys", "C-u")
	x.tmux("send-keys", "-l", text)
	x.see("> " + text)
	x.tmux("send-keys", "Enter")
	x.see(until)
}

// mark moves the mark of a board, from the first item on, to one that begins with a text.
func (x *screen) mark(text string) {
	x.t.Helper()
	x.tmux("send-keys", "-N", "50", "Up")
	for range 50 {
		if x.shows("▸ "+text, 300*time.Millisecond) {
			return
		}
		x.tmux("send-keys", "Down")
	}
	x.t.Fatalf("no %q to mark:\n%s", text, x.text())
}

// TestPageRulesOnATerminal: rules are made from a request, listed, edited, held against
// the log, tried on a call and removed, on a real terminal; and they hold.
func TestPageRulesOnATerminal(t *testing.T) {
	needsScreens(t)
	s := newServing(t, pageConfig)
	x := newScreen(t, s.operator, 100, 30)
	agent := s.session("coder")
	x.see("nothing is waiting")
	waiting := call(t.Context(), agent, "shell", map[string]any{"command": "touch made.txt"})
	x.see("touch made.txt")
	x.press("R", "The rule: EFFECT KIND WORDS")
	x.see("> allow shell touch made.txt")
	x.enter("allow shell touch made.txt # made of a request", "Add this rule, in every session and for every agent, until you remove it?")
	x.press("y", `Added: Run without asking commands that begin with "touch made.txt"`)
	x.see(`made of a request", `) // it is listed
	p := &person{serving: s, t: t}
	if _, e := p.ran(call(t.Context(), agent, "shell", map[string]any{"command": "touch made.txt"})); e != nil {
		t.Errorf("what allow matching calls: %v", e)
	}
	x.mark(`Run without asking commands that begin with "touch made.txt"`)
	x.press("a", "The rule: EFFECT KIND WORDS")
	x.enter("deny shell touch made.txt # by hand", "Replace the rule")
	x.press("y", `Changed: Refuse commands that begin with "touch made.txt"`)
	x.see(`by hand", `)
	if _, e := p.ran(call(t.Context(), agent, "shell", map[string]any{"command": "touch made.txt"})); e == nil || e.Code != protocol.CodeBlocked {
		t.Errorf("what deny matching calls: %+v", e)
	}
	x.mark(`Refuse commands that begin with "touch made.txt"`)
	x.press("b", "The rule: EFFECT KIND WORDS")
	x.enter("deny shell touch", `latest first: coder: shell "touch made.txt"`)
	x.see("Nothing was added.")
	x.press("C", "The call: TOOL and its arguments")
	x.enter("shell touch made.txt now", "It would be refused, by")
	x.mark(`Refuse commands that begin with "touch made.txt"`)
	x.press("c", `Remove this rule? Refuse commands that begin with "touch made.txt"`)
	x.press("y", "Removed: Refuse commands that begin with")
	x.gone(`by hand", `)
	x.press("1", "touch made.txt")
	x.press("N", "nothing is waiting")
	if _, e := p.ran(waiting); e == nil {
		t.Error("it ran")
	}
}

// TestSwapsOnAStoppedTerminal: a key that is pressed before its request has stood for long
// enough answers nothing, though the program reads it only later, because it did not run
// meanwhile. In a real terminal, at random times.
func TestSwapsOnAStoppedTerminal(t *testing.T) {
	needsScreens(t)
	s := newServing(t, pageConfig)
	p := &person{serving: s, t: t}
	x := newScreen(t, s.operator, 100, 30)
	agent := s.session("coder")
	x.see("nothing is waiting")
	// The shell's child: tmux would have its own go on at once.
	shell := strings.TrimSpace(x.tmux("display-message", "-p", "#{pane_pid}"))
	children, err := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for i := range tries(5) {
		time.Sleep(aMoment) // nothing stands in its place any more
		asked := time.Now()
		ch := call(t.Context(), agent, "shell", map[string]any{"command": fmt.Sprintf("echo late-%d", i)})
		x.see(fmt.Sprintf("echo late-%d", i))
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		x.tmux("send-keys", "y")
		early := time.Since(asked) < guard.Settle
		time.Sleep(guard.Settle + time.Duration(rand.IntN(500))*time.Millisecond)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * burst)
		if early { // on a busy machine it may have stood for long enough
			tried++
			p.waits(ch, fmt.Sprintf("try %d: answered by a key that was pressed too soon", i))
		}
		time.Sleep(guard.Settle + burst)
		x.press("y", "nothing is waiting")
		if text, e := p.ran(ch); text != fmt.Sprintf("late-%d\n", i) {
			t.Fatalf("%q %v", text, e)
		}
	}
	if tried == 0 {
		t.Error("the machine was too busy to press a key in time")
	}
	t.Logf("%d keys were read late", tried)
}
