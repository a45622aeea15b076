package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// app is what every subcommand is built on. Tests make their own.
type app struct {
	in       io.Reader
	out, err io.Writer
}

// The rules of what goes where: results to stdout, and nothing else there;
// everything said about the work to stderr, as "sandgate: error: ..." and
// "sandgate: hint: ..."; colour and progress only on a terminal, and no colour
// when NO_COLOR is set (no-color.org).

func newApp(in io.Reader, out, err io.Writer) *app {
	inRows(&out, &err)
	return &app{in: in, out: out, err: err}
}

// commands is the table of subcommands.
var commands = []func(*app) *cobra.Command{
	newServeCmd,
	newRunCmd,
	newShellCmd,
	newStatusCmd,
	newDoctorCmd,
	newBenchCmd,
	newAuditCmd,
	newRulesCmd,
	newWhyCmd,
	newProfileCmd,
	newCallCmd,
	newMCPCmd,
	newApprovalsCmd,
	newApproveCmd,
	newLogCmd,
	newUndoCmd,
	newPutBackCmd,
	newReviewCmd,
	newLearnCmd,
	newLearnTryCmd,
	newInDraftCmd,
	newQuarantineCmd,
	newCacheCmd,
	newVersionCmd,
	newCompletionCmd,
	newConfigCmd,
	newHookCmd,
	newGitSignCmd,
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "sandgate",
		Short:         "The gate between an AI agent and the machine it works on",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.in)
	root.SetOut(bare(a.out)) // help, which is ours
	root.SetErr(bare(a.err))
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return withHint(usageError(err), "see `"+c.CommandPath()+" --help`")
	})
	for _, c := range commands {
		root.AddCommand(c(a))
	}
	return root
}

const rootHelp = `sandgate sits between an AI agent and the machine it works on. An agent runtime
sends each tool call over a Unix socket; sandgate asks whether the call may
happen and runs what was approved inside an operating-system sandbox.

Exit codes of sandgate itself, in every command:
` + exitCodeHelp

func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	var status *statusError
	if errors.As(err, &status) && status.err == nil {
		return status.code // the command has said all there is to say
	}
	a.complain(err)
	return exitOf(err)
}

// replaceProcess is execve(2). Tests that run commands in their own process refuse it: what takes
// their place would end well for them.
var replaceProcess = syscall.Exec

// complain prints err and, where one is attached, what a person can do about it. An error
// may hold a text of an agent's: it moves no cursor, and no line of what came over the wire
// begins where ours do.
func (a *app) complain(err error) {
	text := approval.Escape(err.Error())
	if wire := new(protocol.Error); errors.As(err, &wire) {
		text = strings.ReplaceAll(text, "\n", "\n  ")
	}
	fmt.Fprintf(a.err, "sandgate: error: %s\n", text)
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		fmt.Fprintf(a.err, "sandgate: hint: %s\n", approval.Escape(h.Hint()))
	}
}
