package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// longCommand is cut for display; its end is in the full text only.
func longCommand() protocol.Approval {
	return request(1, func(a *protocol.Approval) {
		shown, metadata := approval.Truncate(strings.Repeat("echo fine\n", 300)+"rm -rf ~"+strings.Repeat(" x", 100)+"\n", 200, 16<<10)
		a.Presentation.Content, a.Presentation.Metadata = shown, metadata
	})
}

// TestReader: who has no pager reads the whole text all the same, and what was read
// to its end needs no second press.
func TestReader(t *testing.T) {
	d := newDesk(80, 24)
	d.m.opts.Pager = ""
	d.arrive(longCommand())
	d.read()
	d.press("v")
	golden(t, "reader.txt", d.screen())
	for range 20 {
		d.press("pgdown")
		fitsScreen(t, d.screen(), 80, 24)
	}
	golden(t, "reader_end.txt", d.screen())
	if !strings.Contains(d.screen(), "| rm -rf ~") || !strings.Contains(d.screen(), "  ┆ ") {
		t.Error(d.screen())
	}
	d.press("y") // closes it, and answers nothing
	expect(t, d)
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
}

// TestReaderLeftEarly: what was not read to its end is still asked about.
func TestReaderLeftEarly(t *testing.T) {
	d := newDesk(80, 24)
	d.m.opts.Pager = ""
	d.arrive(longCommand())
	d.read()
	d.press("v", "pgdown", "up", "home", "q")
	d.read()
	d.press("y")
	expect(t, d)
	if !strings.Contains(d.screen(), "The text was cut") {
		t.Error(d.screen())
	}
}

// TestReaderOfARequestThatEnds stays, and leads back to the one that took its place
// with a moment of its own.
func TestReaderOfARequestThatEnds(t *testing.T) {
	d := newDesk(80, 24)
	d.m.opts.Pager = ""
	d.arrive(longCommand(), request(2, nil))
	d.read()
	d.press("v")
	d.ends(1)
	d.read()
	d.press("y", "y")
	expect(t, d)
	d.do(tea.WindowSizeMsg{Width: 100, Height: 30})
	d.read()
	d.press("enter")
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-2", Decision: protocol.Allow, Scope: approval.Once})
}
