package tui

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/board"
	"github.com/sandgate/sandgate/ui/present"
)

// An Approver shows and answers requests; *client.Approver is one.
type Approver interface {
	Show(context.Context, protocol.ApprovalID) (protocol.Approval, error)
	Decide(context.Context, protocol.ApprovalsDecide) ([]protocol.Decided, error)
	Preview(context.Context, protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error)
}

// Boards make what there is to see beside the requests; a *board.View does.
type Boards interface {
	Load(context.Context, board.Look) (board.Board, error)
	Do(context.Context, board.Act) (present.Sentence, error)
}

// Options are what the screen works on.
type Options struct {
	Approver Approver
	Events   <-chan client.Event // of the same connection
	In       io.Reader           // a terminal
	Out      io.Writer           // a terminal
	// Environ is the environment that the terminal's abilities are taken from:
	// TERM, COLORTERM, NO_COLOR.
	Environ []string
	// Pager is the command line, for sh, that shows long text. "" is the screen's
	// own, which scrolls and no more.
	Pager  string
	Notify Notify
	// Boards are what there is to see beside the requests; nil is nothing.
	Boards Boards
	// Editor is the command line, for sh, that edits a file. "" is for a line on
	// the screen.
	Editor string
}

// Run shows the screen until the person leaves or ctx ends, which is no error.
// What is not answered goes on waiting. It fails with client.ErrClosed when the
// connection is lost, or with what the terminal or the connection says.
func Run(ctx context.Context, o Options) error {
	p := tea.NewProgram(newModel(ctx, o, time.Now),
		tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ),
		tea.WithColorProfile(colours(o.Environ)),
		tea.WithoutSignalHandler()) // the command has one, which ends ctx
	last, err := p.Run()
	if ctx.Err() != nil {
		return nil
	}
	if m, ok := last.(*model); ok && m.err != nil {
		return m.err
	}
	if errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

// colours is what the screen may use: the sixteen of every terminal, or none when
// NO_COLOR is set to anything (no-color.org). Left alone, the library would take
// only some values of it, and start programs to find out more.
func colours(environ []string) colorprofile.Profile {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "NO_COLOR="); ok && value != "" {
			return colorprofile.ASCII
		}
	}
	return colorprofile.ANSI
}
