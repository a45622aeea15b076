package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// Unread holds an answer back until a person knows that the text was cut or has scrolled off,
// and what no screen shows.
type Unread struct {
	Known, Told bool
	Scrolled    int // lines
}

// Holds says why an answer that allows has to be given again; "" if it counts.
func (u *Unread) Holds(a *protocol.Approval) string {
	switch {
	case !u.Known && present.IsCut(a):
		u.Known = true
		return "the text was cut: v shows all of it; repeat the answer to allow it unread\n"
	case !u.Known && u.Scrolled > 0:
		u.Known = true
		return fmt.Sprintf("%d lines of the request have scrolled off the screen; repeat the answer to allow it\n", u.Scrolled)
	case !u.Told && present.Unshown(a) != "":
		u.Told = true
		return "repeat the answer to allow it unread: no screen can show " + present.Unshown(a) + "\n"
	}
	return ""
}

// LookTwice is a warning of a request that looks like one that has just gone.
func LookTwice(gone *present.Gone, a *protocol.Approval) string {
	if like := gone.Like(a, time.Now()); like != "" {
		return "look closely: this is " + like + "\n"
	}
	return ""
}

// A Fitted writer breaks all that is written to a terminal: one that breaks a long line by
// itself has a text from outside begin where a line or a list of ours does. Each write
// begins a line.
type Fitted struct{ io.Writer }

func (f Fitted) Write(text []byte) (int, error) {
	if _, err := io.WriteString(f.Writer, Fit(f.Writer, string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Fit breaks text for a terminal, and leaves it alone for a pipe.
func Fit(w io.Writer, text string) string {
	width, _, ok := cli.TerminalSize(w)
	if !ok {
		return text
	}
	end := ""
	if strings.HasSuffix(text, "\n") {
		end = "\n"
	}
	return strings.Join(present.Fit(text, width), "\n") + end
}

// Scrolled is how many lines of a request that was just written have left the screen of a
// terminal, at least, when the question stands below it.
func Scrolled(w io.Writer, text string) int {
	if f, ok := w.(Fitted); ok {
		w = f.Writer
	}
	_, height, ok := cli.TerminalSize(w)
	if !ok {
		return 0
	}
	const question = 2
	return max(0, strings.Count(strings.Trim(Fit(w, text), "\n"), "\n")+1+question-height)
}
