package rulescmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
)

type whyFlags struct {
	ruleservice.Flags
	agent, args, mode string
	all, json         bool
}

func NewWhyCommand(a *cli.App) *cobra.Command {
	var f whyFlags
	c := &cobra.Command{
		Use:   "why TOOL [KEY=VALUE|KEY:=JSON]... | why shell -- COMMAND...",
		Short: "Explain what would happen to a call, which rule decides, and what would change that",
		Long: `why plans and checks a call as the supervisor does, without running it or asking anyone. It
shows the decision, the step and rule that made it and where that rule is written, what
every other rule said about the call, and the smallest change that would alter the decision.
Without a running supervisor it uses the configuration alone.

Exit status: 0 if the call would run without a prompt, 1 if it would ask, 121 if it would
be refused.`,
		Example: `  sandgate why shell -- git push
  sandgate why write_file path=go.mod --json-args '{"content": ""}'
  sandgate why read_file path=.env --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: withRules(a, &f.Flags, func(c *cobra.Command, d ruleservice.Service, args []string) error {
			call, err := f.call(a.In, args, c.ArgsLenAtDash())
			if err != nil {
				return cli.UsageError(err)
			}
			t, err := d.TestRules(c.Context(), call)
			if err != nil {
				return cli.WireStatus(err)
			}
			return tellWhy(a, f, t)
		}),
	}
	fs := c.Flags()
	fs.StringVar(&f.agent, "agent", "", "agent `name`: remembered answers for it apply")
	fs.StringVar(&f.mode, "mode", "", "a stricter `mode` than the supervisor's: interactive or strict")
	fs.StringVar(&f.args, "json-args", "", "arguments as one JSON `object`; - reads it from standard input")
	fs.BoolVar(&f.all, "all", false, "also show rules that do not match")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	f.Register(c)
	return c
}

// call reads the arguments: the words after -- are a command line for shell.
func (f whyFlags) call(stdin io.Reader, args []string, dash int) (protocol.RulesTest, error) {
	t := protocol.RulesTest{Tool: protocol.ToolName(args[0]), Agent: f.agent, Mode: approval.Mode(f.mode)}
	values, err := cli.CallArguments(args[0], f.args, stdin, args[1:], dash-1, tools.QuoteCommand)
	if err != nil {
		return t, err
	}
	t.Args, err = json.Marshal(values)
	return t, err
}

func tellWhy(a *cli.App, f whyFlags, t protocol.RulesTested) error {
	if f.json {
		if err := cli.PrintJSON(a.Out, t); err != nil {
			return err
		}
	} else if err := PrintWhy(a.Out, t, f.all); err != nil {
		return err
	}
	switch t.Decision {
	case protocol.CheckAllow:
		return nil
	case protocol.CheckAsk:
		return cli.WithStatus(cli.ExitFound, nil)
	}
	return cli.WithStatus(cli.ExitDenied, nil)
}

func PrintWhy(w io.Writer, t protocol.RulesTested, all bool) error {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, approval.EscapeLine(value))
		}
	}
	line("decision", string(t.Decision))
	line("step", cli.Join(" ", t.Step, cli.Paren(passedText(t.Passed))))
	line("rule", cli.Join(" at ", t.Rule, t.Origin))
	line("because", t.Reason)
	line("hint", t.Hint)
	line("class", t.Class)
	line("ceiling", t.Ceiling)
	hidden := 0
	for _, c := range t.Considered {
		if c.Outcome == string(tools.NoMatch) && !all {
			hidden++
			continue
		}
		line("considered", consideredText(c))
	}
	if hidden > 0 {
		line("considered", fmt.Sprintf("%d rules that do not match (see them with --all)", hidden))
	}
	if t.Change != nil {
		line("to "+string(t.Change.To), t.Change.How)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func passedText(passed []string) string {
	if len(passed) == 0 {
		return ""
	}
	return "nothing from " + strings.Join(passed, ", ")
}

func consideredText(c protocol.ConsideredRule) string {
	return cli.Join(": ", fmt.Sprintf("%s %s %s", c.Rule, cli.Paren(cli.Join(", ", string(c.Effect), c.Origin)), strings.ReplaceAll(c.Outcome, "_", " ")),
		cli.EscapeName(c.Subject), c.Why)
}
