package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/ui/guard"
)

// TestPromptTakesNoLineTypedAhead: on a real terminal nothing that was typed before the
// question was asked answers it, be it a whole line or the beginning of one; what is typed
// after it does. A request that ended leaves its place only for an empty line.
func TestPromptTakesNoLineTypedAhead(t *testing.T) {
	x := newTerminal(t, "xterm")
	p := newTTYPrompter()
	p.open = func() (*os.File, error) { return os.OpenFile(x.slave.Name(), os.O_RDWR|unix.O_NOCTTY, 0) }
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
	x.see("An empty line goes on")
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
