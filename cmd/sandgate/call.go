package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
)

type callFlags struct {
	socket, agent, session, json string
	check, result, here, review  bool
}

func newCallCmd(a *cli.App) *cobra.Command {
	var f callFlags
	c := &cobra.Command{
		Use:   "call TOOL [KEY=VALUE|KEY:=JSON]... [-- COMMAND...]",
		Short: "Call a tool through the running supervisor, as an agent does",
		Long: `call makes one tool call on the agent socket. Give arguments as strings (KEY=VALUE), as
JSON values (KEY:=JSON), or as one object with --json. A command after -- is the argument
command. call streams the output and exits with the program's own status.

Exit codes of sandgate itself:
` + cli.ExitCodeHelp,
		Example: `  sandgate call shell -- go test ./...
  sandgate call shell command='go vet && go test'
  sandgate call read_file path=README.md
  sandgate call write_file --json '{"path": "a.txt", "content": "hello\n"}'
  sandgate call --check shell command='rm -rf build'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.InUTF8(args); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return callOnce(ctx, a, f, args, cmd.ArgsLenAtDash()-1)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.socket, "socket", "", "agent socket `path` (default: runtime directory/agent.sock)")
	fs.StringVar(&f.agent, "agent", "command-line", "agent `name` for approvers and the log")
	fs.StringVar(&f.session, "session", "", "make the call in the session `name`, which stays open afterwards")
	fs.BoolVar(&f.review, "review", false, "work on a draft, and ask a person afterwards what to keep")
	fs.BoolVar(&f.here, "here", false, "set the argument dir to the current directory")
	fs.StringVar(&f.json, "json", "", "arguments as one JSON `object`; - reads it from standard input")
	fs.BoolVar(&f.check, "check", false, "print as JSON what would happen, without running it; status 121 if refused")
	fs.BoolVar(&f.result, "result", false, "print the complete result as JSON instead of streaming the output")
	c.MarkFlagsMutuallyExclusive("check", "result")
	return c
}

// callOnce calls the tool that the first word names; from the dash-th word after it on, words are a command.
func callOnce(ctx context.Context, a *cli.App, f callFlags, words []string, dash int) error {
	tool := protocol.ToolName(words[0])
	args, err := cli.CallArguments(words[0], f.json, a.In, words[1:], dash, tools.QuoteCommand)
	if err == nil && f.here {
		err = addHere(args)
	}
	if err != nil {
		return cli.UsageError(err)
	}
	agent, err := client.DialAgent(ctx, f.socket, client.WithProgram("sandgate call", a.Version))
	if err != nil {
		return cli.WireStatus(err)
	}
	defer agent.Close()
	s, err := agent.OpenSession(ctx, protocol.SessionOpen{Agent: f.agent, Name: f.session, Review: f.review})
	if err != nil {
		return cli.WireStatus(err)
	}
	if f.check {
		r, err := s.Check(ctx, tool, args)
		if err != nil {
			return cli.WireStatus(err)
		}
		return printCheck(a, r)
	}
	if f.result {
		return callForResult(ctx, a, s, tool, args)
	}
	p := resultPrinter{App: a, shown: terminal.NewProgramOutput(a, nil), announce: f.here || cli.IsTerminal(a.Err)}
	defer p.shown.End()
	options := []client.CallOption{client.OnRawOutput(p.piece), client.OnState(p.state)}
	if p.shown.OneStream() {
		options = append(options, client.OneStream())
	}
	r, err := s.Call(ctx, tool, args, options...)
	if err != nil {
		return cli.WireStatus(err)
	}
	return p.result(r)
}

// addHere says in which directory the caller is.
func addHere(args map[string]any) error {
	if _, ok := args["dir"]; ok {
		return errors.New("--here and the argument dir are both given")
	}
	dir, err := os.Getwd()
	args["dir"] = dir
	return err
}

// callForResult makes a call and prints its result as the agent gets it.
func callForResult(ctx context.Context, a *cli.App, s *client.Session, tool protocol.ToolName, args any) error {
	r, err := s.Call(ctx, tool, args)
	if err != nil {
		return cli.WireStatus(err)
	}
	if err := cli.PrintJSON(a.Out, r); err != nil {
		return err
	}
	if r.ExitCode != 0 {
		return cli.WithStatus(r.ExitCode, nil)
	}
	return nil
}

// printCheck prints what would happen. The status reports a refusal.
func printCheck(a *cli.App, r protocol.CheckResult) error {
	if err := cli.PrintJSON(a.Out, r); err != nil {
		return err
	}
	if r.Decision == protocol.CheckDeny {
		return cli.WithStatus(cli.ExitDenied, nil)
	}
	return nil
}

// A resultPrinter shows a call's output as it comes, and its end.
type resultPrinter struct {
	*cli.App
	shown    *terminal.ProgramOutput
	streamed bool
	// announce has it said that a person is asked: where a person sees it, also on the
	// screen of an agent runtime, which shows what its commands write while they run.
	announce bool
}

func (p *resultPrinter) piece(o protocol.RawOutput) {
	p.streamed = true
	if o.Omitted > 0 {
		fmt.Fprintf(p.Err, "sandgate: warning: %d bytes of %s are not shown here\n", o.Omitted, o.Stream)
	}
	p.write(o.Stream, o.Data)
}

func (p *resultPrinter) write(s protocol.Stream, data []byte) {
	if s == protocol.Stderr {
		p.shown.Err.Write(data)
		return
	}
	p.shown.Out.Write(data)
}

// state tells a person why nothing happens.
func (p *resultPrinter) state(s protocol.ToolState) {
	if s.State == protocol.Pending && p.announce {
		fmt.Fprintln(p.Err, "sandgate: waiting for an approver (answer with `sandgate approve`)")
	}
}

func (p *resultPrinter) result(r protocol.CallResult) error {
	for _, c := range r.Content {
		switch {
		case p.streamed && (c.Stream != "" || c.Omitted > 0): // has been shown already
		case c.Omitted > 0:
			p.write(protocol.Stderr, c.Bytes())
		default:
			p.write(c.Stream, c.Bytes())
		}
	}
	p.shown.End()
	needs.PrintViolations(p.App, r.Violations)
	for _, w := range r.Warnings {
		fmt.Fprintf(p.Err, "sandgate: warning: %s\n", approval.EscapeLine(w))
	}
	if r.Truncated {
		fmt.Fprintln(p.Err, "sandgate: warning: the output is incomplete")
	}
	if r.ExitCode != 0 {
		return cli.WithStatus(r.ExitCode, nil)
	}
	return nil
}
