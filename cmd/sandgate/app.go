package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/approvals"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/approve"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/auditcmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/configcmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/hook"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/learn"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/profilecmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/rulescmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/serve"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/undo"
)

func newApp(in io.Reader, out, err io.Writer) *cli.App { return cli.New(in, out, err, version) }

// commands is the table of subcommands.
var commands = []func(*cli.App) *cobra.Command{
	serve.NewCommand,
	newRunCmd,
	newShellCmd,
	approvals.NewStatusCommand,
	newDoctorCmd,
	newBenchCmd,
	auditcmd.NewCommand,
	rulescmd.NewCommand,
	rulescmd.NewWhyCommand,
	profilecmd.NewCommand,
	newCallCmd,
	serve.NewMCPCommand,
	approvals.NewCommand,
	approve.NewCommand,
	undo.NewLogCommand,
	undo.NewCommand,
	newPutBackCmd,
	review.NewCommand,
	learn.NewCommand,
	learn.NewTryCommand,
	newInDraftCmd,
	newQuarantineCmd,
	newCacheCmd,
	newVersionCmd,
	newCompletionCmd,
	configcmd.NewCommand,
	hook.NewCommand,
	newGitSignCmd,
}

func root(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:           "sandgate",
		Short:         "Control what an AI agent does on your machine",
		Long:          rootHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.In)
	root.SetOut(cli.Bare(a.Out)) // help, which is ours
	root.SetErr(cli.Bare(a.Err))
	root.Flags().BoolP("help", "h", false, "help for sandgate")
	_ = root.Flags().MarkHidden("help") // the list of commands takes the room
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return cli.WithHint(cli.UsageError(err), "see `"+c.CommandPath()+" --help`")
	})
	for _, c := range commands {
		root.AddCommand(c(a))
	}
	return root
}

const rootHelp = `sandgate sits between an AI agent and your machine: it decides whether each tool call
may run, and runs approved calls in an operating-system sandbox.

Exit codes of sandgate itself:
` + cli.ExitCodeHelp

func execute(a *cli.App, args []string) int {
	root := root(a)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return cli.ExitOK
	}
	var status *cli.StatusError
	if errors.As(err, &status) && status.Err == nil {
		return status.Code // the command has said all there is to say
	}
	a.Complain(err)
	return cli.ExitOf(err)
}
