package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/review"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/run"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/supervisor/undo"
)

func newRunCmd(a *cli.App) *cobra.Command {
	var f run.Flags
	c := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run one command in the sandbox, without a daemon",
		Long: `run executes one command with the full path of a call (plan, decision, sandbox, audit log),
without a running supervisor. Input, output and exit status pass through (128+N after
signal N, 127 not found, 126 not executable; 120 to 125: see ` + "`sandgate --help`" + `).
Typing the command approves what it names. Hosts, directories to read and signatures that the
configuration asks about stay refused if it does not name them; --mode approve_all allows them.
Without a configuration file, time and file size are unlimited. On a terminal, the program gets
one of its own: full-screen programs work, but cannot touch your clipboard, title or terminal
reports. It gets none with --mode interactive or strict, or with its output in a pipe.`,
		Example: `  sandgate run -- python3 script.py
  sandgate run --ro ~/data --timeout 30s --network none -- ./analyse ~/data
  sandgate run --expose 8000 -- python3 -m http.server 8000`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, argv []string) error { return runProgram(a, cmd, f, argv) },
	}
	f.Register(c)
	return c
}

func newShellCmd(a *cli.App) *cobra.Command {
	var f run.Flags
	c := &cobra.Command{
		Use:   "shell [flags] [-- ARG...]",
		Short: "Open your shell in the sandbox",
		Long: `shell starts the shell in $SHELL, or else bash or sh, in the sandbox. Every program that you
start from it is confined like a program of ` + "`sandgate run`" + ", until the shell ends.",
		Example: `  sandgate shell
  sandgate shell --network example.org`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runProgram(a, cmd, f, append([]string{ownShell()}, args...))
		},
	}
	f.Register(c)
	return c
}

// ownShell is the person's shell, if sandboxes have it.
func ownShell() string {
	for _, path := range []string{os.Getenv("SHELL"), "/bin/bash"} {
		real, err := assemble.Resolved(path)
		if err == nil && filepath.IsAbs(path) && sandboxprofile.IsSystemTree(real) {
			return path
		}
	}
	return "/bin/sh"
}

func runProgram(a *cli.App, cmd *cobra.Command, f run.Flags, argv []string) error {
	if err := cli.InUTF8(argv); err != nil {
		return err
	}
	if f.Review || f.Draft != "" {
		return review.RunOnDraft(a, cmd, f, argv)
	}
	if f.Keep {
		return cli.UsageError(errors.New("--keep: no draft to keep; add --review"))
	}
	ctx := cmd.Context()
	if f.DraftOf != "" {
		var err error
		if _, ctx, err = draft.Take(ctx, f.DraftOf); err != nil {
			return err
		}
	}
	result, found, err := run.Once(ctx, a, "sandgate run", f, cmd.Flags().Changed("mode"), argv, review.SettleKeeps)
	if err != nil {
		return err
	}
	if result.EnforcedBy.Backend == confine.NoBackend {
		fmt.Fprintf(a.Err, "sandgate: warning: %s\n", confine.UnconfinedWarning)
	}
	for _, w := range result.Warnings { // the others are of the configuration, and the same each time
		if strings.Contains(w, undo.NotUndone) || strings.HasPrefix(w, gateway.Signed) {
			fmt.Fprintf(a.Err, "sandgate: warning: %s\n", approval.EscapeLine(w))
		}
	}
	needs.PrintRefusals(a, result.Violations, found)
	if result.ExitCode != 0 {
		needs.PrintLeftOut(a, found)
		needs.PrintUnread(a, found)
		needs.PrintUnfollowed(a, found)
		err := sayNotStarted(a, result)
		if result.ExitCode == cli.ExitNotFound && len(result.Content) > 0 {
			needs.PrintWhere(a, found, argv[0])
		}
		return cli.WithStatus(result.ExitCode, err)
	}
	return nil
}

// sayNotStarted passes on what sandgate itself has to say about a program that
// could not be executed; everything else has gone through.
func sayNotStarted(a *cli.App, r protocol.CallResult) error {
	for _, c := range r.Content {
		fmt.Fprint(a.Err, c.Text)
	}
	return nil
}
