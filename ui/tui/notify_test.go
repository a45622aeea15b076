package tui

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/protocol"
)

// TestNotify: a person is called in the ways they asked for, by words of ours.
func TestNotify(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	t.Setenv("SAID", said)
	d := newDesk(80, 24)
	d.m.opts.Notify = Notify{Bell: true, OSC9: true, Command: []string{"sh", "-c", `printf %s "$1" >"$SAID"`, "sh"}}
	d.arrive(request(1, func(a *protocol.Approval) { a.Agent, a.Description = hostile, hostile }))
	var raw string
	for _, msg := range d.other {
		if r, ok := msg.(tea.RawMsg); ok {
			raw += r.Msg.(string)
		}
	}
	if want := "\a\x1b]9;sandgate: 1 waiting\a"; raw != want {
		t.Errorf("the terminal gets %q, want %q", raw, want)
	}
	if got, err := os.ReadFile(said); err != nil || string(got) != "sandgate: 1 waiting" {
		t.Errorf("the program gets %q, %v", got, err)
	}
	if len(d.m.opts.Notify.Command) != 4 {
		t.Errorf("the command grew: %q", d.m.opts.Notify.Command)
	}
}

func TestNotifyNothing(t *testing.T) {
	d := newDesk(80, 24)
	d.m.opts.Notify = Notify{}
	d.arrive(request(1, nil))
	if len(d.other) != 0 {
		t.Errorf("%v", d.other)
	}
}

func TestNotifierThatFails(t *testing.T) {
	d := newDesk(80, 24)
	d.m.opts.Notify = Notify{Command: []string{"/nonexistent/\x1bnotify"}}
	d.arrive(request(1, nil))
	if s := d.screen(); !strings.Contains(s, "/nonexistent/<U+001B>notify") {
		t.Error(s)
	}
}

// TestNotifierIsStopped: it ends with the screen.
func TestNotifierIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := newDesk(80, 24)
	d.m.ctx, d.m.opts.Notify = ctx, Notify{Command: []string{"sleep", "1000"}}
	d.arrive(request(1, nil))
	if s := d.screen(); !strings.Contains(s, "context canceled") {
		t.Error(s)
	}
}
