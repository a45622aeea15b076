package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// The rules of what goes where: results to stdout, and nothing else there;
// everything said about the work to stderr, as "sandgate: error: ..." and
// "sandgate: hint: ..."; colour and progress only on a terminal, and no colour
// when NO_COLOR is set (no-color.org).

// App is the basis of every subcommand. Tests make their own.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Version  string // of this program
}

// New is an app on these streams; rows take the place of those that are terminals.
func New(in io.Reader, out, err io.Writer, version string) *App {
	inRows(&out, &err)
	return &App{In: in, Out: out, Err: err, Version: version}
}

// Complain prints err and, where one is attached, what a person can do about it. An error
// may hold a text of an agent's: it moves no cursor, and no line of what came over the wire
// begins where ours do.
func (a *App) Complain(err error) {
	text := approval.Escape(err.Error())
	if wire := new(protocol.Error); errors.As(err, &wire) {
		text = strings.ReplaceAll(text, "\n", "\n  ")
	}
	fmt.Fprintf(a.Err, "sandgate: error: %s\n", text)
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		fmt.Fprintf(a.Err, "sandgate: hint: %s\n", approval.Escape(h.Hint()))
	}
}
