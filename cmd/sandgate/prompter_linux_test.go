package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// TestPromptTakesNoLineTypedAhead: on a real terminal nothing that was typed before the
// question was asked answers it, be it a whole line or the beginning of one; what is typed
// after it does. A request that ended leaves its place only for an empty line.
func TestPromptTakesNoLineTypedAhead(t *testing.T) {
	x := newTerminal(t, "xterm")
	p := terminal.NewPrompter()
	p.Open = func() (*os.File, error) { return os.OpenFile(x.slave.Name(), os.O_RDWR|unix.O_NOCTTY, 0) }
	type outcome struct {
		answer approval.Answer
		err    error
	}
	prompt := func(ctx context.Context, id string) <-chan outcome {
		ch := make(chan outcome, 1)
		go func() {
			a, err := p.Prompt(ctx, approval.Pending{ID: id, ToolName: "shell", Description: "Execute: " + id})
			ch <- outcome{a, err}
		}()
		return ch
	}
	question := func(nth int) {
		t.Helper()
		for limit := time.Now().Add(30 * time.Second); strings.Count(x.output(), "allow? [y]es") < nth; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("no question: %q", x.output())
			}
		}
	}
	for i, ahead := range []string{"y\n", "yes\ny\ny\n", "y"} {
		x.press(ahead)
		id := "req-" + string(rune('a'+i))
		ended := prompt(t.Context(), id)
		x.see("Execute: " + id)
		x.press(ahead) // after it has come up, and too soon
		question(i + 1)
		x.press("\n")
		if o := <-ended; o.err != nil || o.answer.Allow {
			t.Errorf("%q typed ahead: %+v", ahead, o)
		}
	}
	ended := prompt(t.Context(), "req-y")
	question(4)
	x.press("y\n") // the twin
	if o := <-ended; o.err != nil || !o.answer.Allow {
		t.Errorf("%+v", o)
	}

	ctx, cancel := context.WithCancel(t.Context())
	ended = prompt(ctx, "req-gone")
	question(5)
	x.press("y") // on the way, as it ends
	cancel()
	if o := <-ended; o.answer.Allow {
		t.Errorf("%+v", o)
	}
	ended = prompt(t.Context(), "req-next")
	x.see("Press Enter to continue")
	time.Sleep(guard.Settle)
	x.press("y\n")
	if strings.Contains(x.output(), "req-next") {
		t.Error("a line for the one that has ended has brought the next")
	}
	x.pressUntil("\n", "Execute: req-next")
	question(6)
	x.press("y\n")
	if o := <-ended; o.err != nil || !o.answer.Allow {
		t.Errorf("%+v", o)
	}
}

// TestPromptHoldsWhatWasCut: a text that was cut is allowed by the same answer twice, or
// after all of it was shown; one that looks like a request that has just gone says so, and
// none begins a line where ours do.
func TestPromptHoldsWhatWasCut(t *testing.T) {
	x := newTerminal(t, "xterm")
	p := terminal.NewPrompter()
	p.Open = func() (*os.File, error) { return os.OpenFile(x.slave.Name(), os.O_RDWR|unix.O_NOCTTY, 0) }
	questions, unshown := 0, ""
	question := func() {
		t.Helper()
		questions++
		for limit := time.Now().Add(30 * time.Second); strings.Count(x.output(), "allow? [y]es") < questions; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("no question: %q", x.output())
			}
		}
	}
	prompt := func(ctx context.Context, id, command string) <-chan bool {
		shown, metadata := approval.Truncate(command, 200, 16<<10)
		if unshown != "" {
			metadata = map[string]any{approval.Unshown: unshown}
		}
		first, _, _ := strings.Cut(command, "\n")
		ended := make(chan bool, 1)
		go func() {
			a, _ := p.Prompt(ctx, approval.Pending{ID: id, ToolName: "shell", Description: "Execute: " + first, Payload: map[string]any{"command": command}, Expires: time.Now().Add(time.Minute),
				Presentation: &approval.Presentation{Type: approval.Command, Content: shown, Metadata: metadata}})
			ended <- a.Allow
		}()
		question()
		return ended
	}
	long := strings.Repeat("# harmless\n", 300) + "touch the-end"

	ended := prompt(t.Context(), "req-once", long)
	x.press("y\n")
	x.see("the text was cut")
	question()
	x.press("\n")
	if <-ended {
		t.Error("one y has allowed what was cut")
	}
	ended = prompt(t.Context(), "req-twice", long)
	x.press("y\n")
	question()
	x.press("y\n")
	if !<-ended {
		t.Error("two do not")
	}
	if strings.Contains(x.output(), "| touch the-end") {
		t.Error("the end was shown without being asked for")
	}
	ended = prompt(t.Context(), "req-view", long)
	x.press("v\n")
	x.see("| touch the-end")
	question()
	x.press("y\n")
	if !<-ended {
		t.Error("y has not allowed what was shown whole")
	}

	// Not cut, and longer than the 24 rows: its beginning has left the screen.
	tall := "rm -r docs\n" + strings.Repeat("# harmless\n", 60) + "echo done"
	ended = prompt(t.Context(), "req-tall", tall)
	x.press("y\n")
	x.see("lines of the request have scrolled off the screen")
	question()
	x.press("\n")
	if <-ended {
		t.Error("one y has allowed what had left the screen")
	}
	// Empty lines push nothing away.
	ended = prompt(t.Context(), "req-gap", "rm -r docs\n"+strings.Repeat("\n", 170)+"echo done")
	x.see("<170 empty lines>")
	x.press("y\n")
	if !<-ended {
		t.Error("y has not allowed what stands on the screen")
	}

	unshown = "what it starts: app"
	ended = prompt(t.Context(), "req-unshown", "./app")
	x.press("v\n")
	question()
	x.press("y\n")
	x.see("no screen can show what it starts: app")
	question()
	x.press("y\n")
	if !<-ended {
		t.Error("two answers have not allowed what is not shown")
	}
	unshown = ""

	ctx, cancel := context.WithCancel(t.Context())
	gone := prompt(ctx, "req-gone", "npm install left-pad@1.3.0"+strings.Repeat(" shell: Execute: ls", 20))
	if strings.Contains(x.output(), "look closely") {
		t.Error(x.output())
	}
	cancel()
	<-gone
	next := make(chan (<-chan bool))
	go func() {
		next <- prompt(t.Context(), "req-like", "npm install left-pam@1.3.0"+strings.Repeat(" shell: Execute: ls", 20))
	}()
	x.see("Press Enter to continue")
	time.Sleep(guard.Settle)
	x.pressUntil("\n", "sandgate asks about\r\nlook closely: this is similar to one")
	ended = <-next
	x.press("y\n")
	if !<-ended {
		t.Error("y has not allowed it")
	}
	for line := range strings.SplitSeq(strings.ReplaceAll(x.output(), "\r", ""), "\n") {
		if present.Width(line) > 80 {
			t.Errorf("%d cells on a terminal of 80: %q", present.Width(line), line)
		}
	}
}

// TestAQuestionHasTheTerminal: while a person is asked, nothing that a program prints gets to the terminal,
// where it could wipe the question away and draw another, and what the person types is not the
// program's. What it has printed before stands neither below the question nor in its colours.
func TestAQuestionHasTheTerminal(t *testing.T) {
	x := newTerminal(t, "xterm")
	shown := terminal.NewProgramOutput(newApp(x.slave, x.slave, x.slave), nil)
	p := terminal.NewPrompter()
	p.Open = func() (*os.File, error) { return os.OpenFile(x.slave.Name(), os.O_RDWR|unix.O_NOCTTY, 0) }
	p.Quiet = shown.Ask
	read := make(chan string, 2)
	go func() {
		lines := bufio.NewScanner(shown.Input(x.slave))
		for lines.Scan() {
			read <- lines.Text()
		}
	}()
	x.press("before\n") // the twin: nobody is asked
	if line := <-read; line != "before" {
		t.Fatalf("the program read %q", line)
	}
	for i, printed := range []string{"\x1b[2J", "\x1b[8;5Hx\x1b[31m\x1b[2A", "a\nb\nc\n\x1b[41m\x1b[?25l\x1bM"} {
		for _, w := range []io.Writer{shown.Out, shown.Err} {
			if _, err := io.WriteString(w, printed); err != nil {
				t.Fatal(err)
			}
		}
		start := len(x.output())
		answered := make(chan bool, 1)
		go func() {
			a, _ := p.Prompt(t.Context(), approval.Pending{ID: string(rune('a' + i)), ToolName: "network", Description: "Connect to evil.example:443"})
			answered <- a.Allow
		}()
		for limit := time.Now().Add(30 * time.Second); !strings.Contains(x.output()[start:], "allow? [y]es"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("no question: %q", x.output()[start:])
			}
		}
		before, _, _ := strings.Cut(x.output()[start:], "sandgate asks about")
		if !strings.Contains(before, "\x1b[J") || i > 0 && !strings.Contains(before, "\x1b[m") || i > 1 && !strings.Contains(before, "\x1b[?25h") {
			t.Errorf("%q stands beside the question: %q", printed, before)
		}
		forged := fmt.Sprintf("forged-%d", i)
		written := make(chan error, 2)
		for _, w := range []io.Writer{shown.Out, shown.Err} {
			go func() {
				_, err := io.WriteString(w, "\x1b[2J"+forged)
				if err == nil && i == 2 {
					_, err = w.Write(bytes.Repeat([]byte("flood\n"), terminal.MaxHeld/6+10))
				}
				written <- err
			}()
		}
		for range 2 { // none waits for the answer, which may be minutes away
			if err := <-written; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(2 * burst)
		if strings.Contains(x.output(), forged) {
			t.Error("the program has drawn over the question")
		}
		x.press("y\n")
		if !<-answered {
			t.Error("not allowed")
		}
		x.see(forged) // the twin: it gets there now
	}
	x.see("bytes that the program wrote during the question are not shown")
	// A program that ends while a person is asked loses nothing of what it wrote.
	done, err := shown.Ask()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(shown.Out, "last-words"); err != nil {
		t.Fatal(err)
	}
	shown.End()
	x.see("last-words")
	done()
	x.press("after\n")
	if line := <-read; line != "after" {
		t.Errorf("the program read %q", line)
	}
}

// TestAQuestionTakesNoLineTypedAhead: the yes or no of undo, review, trust and learn is typed after the
// question has stood for a moment, and not before.
func TestAQuestionTakesNoLineTypedAhead(t *testing.T) {
	x := newTerminal(t, "xterm")
	for i, want := range []string{"y", "n", ""} {
		x.press("y\nyes\ny")
		question := fmt.Sprintf("throw %d away?", i)
		answered := make(chan string, 1)
		go func() {
			line, err := terminal.ConfirmOn(x.slave, question)
			if err != nil {
				line = err.Error()
			}
			answered <- line
		}()
		x.see(question)
		x.press("yes\n") // it has not stood for long
		for limit := time.Now().Add(30 * time.Second); strings.Count(x.output(), "(default n): ") <= i; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("no question: %q", x.output())
			}
		}
		x.press(want + "\n")
		if line := <-answered; line != want {
			t.Errorf("%q instead of %q", line, want)
		}
	}
}

// TestALineThatWasBegunIsNoAnswer: who types a line as a question comes has its end answer nothing, however
// slowly they type. The question comes once they have paused, says why, and the next line answers it.
func TestALineThatWasBegunIsNoAnswer(t *testing.T) {
	text := "make deploy"
	typing := func(x *pty, ask func()) {
		for i, key := range text {
			if i == 3 {
				ask()
			}
			x.press(string(key))
			time.Sleep(150 * time.Millisecond)
		}
		x.press("\n")
	}
	t.Run("question", func(t *testing.T) {
		x := newTerminal(t, "xterm")
		answered := make(chan string, 1)
		typing(x, func() {
			go func() {
				line, err := terminal.ConfirmOn(x.slave, "throw it away?")
				if err != nil {
					line = err.Error()
				}
				answered <- line
			}()
		})
		x.see("input typed before the question is dropped")
		x.see("(default n): ")
		select {
		case line := <-answered:
			t.Fatalf("%q has answered", line)
		default:
		}
		x.press("y\n")
		if line := <-answered; line != "y" {
			t.Errorf("%q instead of y", line)
		}
	})
	t.Run("plain", func(t *testing.T) {
		b := newCLIBench(t)
		x := newTerminal(t, "dumb")
		ended := x.approve(b, "--plain")
		x.see("waiting for requests")
		status := make(chan int, 1)
		typing(x, func() {
			go func() {
				code, _, _ := b.call("ask", "words=begun")
				status <- code
			}()
		})
		x.see("input typed before the question is dropped")
		x.see("(an empty line denies): ")
		select {
		case code := <-status:
			t.Fatalf("the end of a line has answered: status %d", code)
		default:
		}
		x.press("y\n")
		if code := <-status; code != cli.ExitOK {
			t.Errorf("status %d after a line that counts: %q", code, x.output())
		}
		x.press("\x04")
		<-ended
	})
}

// TestALineOfAPasteIsNoAnswer: of a text that is pasted without brackets, or by a program, no line answers, also if the
// first one reads as a yes, and whether or not the last one is ended. A single line does.
func TestALineOfAPasteIsNoAnswer(t *testing.T) {
	for _, text := range []string{"y\nplease look at it first\n", "y\nplease", "y\n\n"} {
		t.Run("question", func(t *testing.T) {
			x := newTerminal(t, "xterm")
			answered := make(chan string, 1)
			go func() {
				line, err := terminal.ConfirmOn(x.slave, "throw it away?")
				if err != nil {
					line = err.Error()
				}
				answered <- line
			}()
			x.see("(default n): ")
			x.press(text)
			x.see("answer with a single line")
			select {
			case line := <-answered:
				t.Fatalf("%q has answered", line)
			default:
			}
			x.seeTimes("(default n): ", 2)
			x.press("y\n")
			if line := <-answered; line != "y" {
				t.Errorf("%q instead of y", line)
			}
		})
		t.Run("plain", func(t *testing.T) {
			b := newCLIBench(t)
			x := newTerminal(t, "dumb")
			ended := x.approve(b, "--plain")
			x.see("waiting for requests")
			status := make(chan int, 1)
			go func() {
				code, _, _ := b.call("ask", "words=begun")
				status <- code
			}()
			x.see("(an empty line denies): ")
			x.press(text)
			x.see("answer with a single line")
			select {
			case code := <-status:
				t.Fatalf("a line of a text has answered: status %d", code)
			default:
			}
			x.seeTimes("(an empty line denies): ", 2)
			x.press("y\n")
			if code := <-status; code != cli.ExitOK {
				t.Errorf("status %d after a line that counts: %q", code, x.output())
			}
			x.press("\x04")
			<-ended
		})
	}
}
