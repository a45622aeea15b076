package rulescmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

func NewCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "List, change and try out standing rules",
		Long: `Standing rules are an operator's permanent decisions about tools, connectors and commands.
They are in rules.yaml in the configuration directory, beside sandgate.yaml. The
administrator's are in /etc/sandgate/rules.yaml.`,
		Example: "  sandgate rules list\n  sandgate rules add --deny 'github_*' --reason 'we push by hand'",
		Args:    cobra.NoArgs, // or else a misspelt subcommand would print the help and succeed
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRulesListCmd(a), newRulesAddCmd(a), newRulesRemoveCmd(a), newRulesReloadCmd(a), newRulesSuggestCmd(a), newRulesTestCmd(a), newRulesTryCmd(a))
	return c
}

// rulesTest has the arguments of `rules test`.
type rulesTest struct {
	cases    string
	json     bool
	allow    []string
	ask      []string
	deny     []string
	readOnly []string
	fallback string
}

func newRulesTestCmd(a *cli.App) *cobra.Command {
	var o rulesTest
	c := &cobra.Command{
		Use:   "test [COMMAND]",
		Short: "Show how rules judge a command line, without running it",
		Long: `test shows how rules judge a command line. It runs nothing and reads no files: paths are
judged by their spelling, in a workspace where reading is allowed and writing asks.

With --cases, each line of FILE is a JSON object: id, default and rules as under "shell:"
in sandgate.yaml, command, and shell (bash). test prints one line for each: id, decision,
rule, reason and, for commands that only read, the ceiling: what the kernel confines them to
unless a person allows them. The FILE - is standard input.

Exit status: 0 if the command is allowed, 1 if it is asked about or denied. With --cases,
0 if every case could be decided, 120 if not.`,
		Example: `  sandgate rules test --allow 'git status' --deny rm 'git status && rm -rf build'
  sandgate rules test --cases cases.jsonl --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case o.cases != "" && len(args) == 0:
				return testCases(a, o)
			case o.cases == "" && len(args) == 1:
				return testCommand(a, o, args[0])
			}
			return cli.WithHint(cli.UsageError(errors.New("rules test: give either a COMMAND or --cases FILE")), "quote the command line as one word")
		},
	}
	f := c.Flags()
	f.StringVar(&o.cases, "cases", "", "read cases from `FILE`, one JSON object per line")
	f.BoolVar(&o.json, "json", false, "print JSON, one object per line")
	f.StringArrayVar(&o.allow, "allow", nil, "a rule that allows commands beginning with `PATTERN`")
	f.StringArrayVar(&o.readOnly, "allow-read-only", nil, "a rule that allows the read-only forms of `PATTERN`")
	f.StringArrayVar(&o.ask, "ask", nil, "a rule that asks about `PATTERN`")
	f.StringArrayVar(&o.deny, "deny", nil, "a rule that denies `PATTERN`")
	f.StringVar(&o.fallback, "default", "ask", "decision if no rule matches: allow, ask or deny")
	return c
}

// ruleCase is one line of a file of cases. Fields that only describe a case are
// not read.
type ruleCase struct {
	ID      string        `json:"id"`
	Default shell.Default `json:"default"`
	Rules   []shell.Rule  `json:"rules"`
	Command string        `json:"command"`
	Shell   string        `json:"shell"`
}

// ruleResult is one line of output.
type ruleResult struct {
	ID       string       `json:"id,omitempty"`
	Decision tools.Effect `json:"decision"`
	Rule     string       `json:"rule"`
	Reason   string       `json:"reason"`
	// Ceiling is the limit that the kernel enforces on the line if it runs without a
	// prompt: "read". A line that a rule allows by name and that does more has what its
	// profile gives.
	Ceiling string `json:"ceiling,omitempty"`
}

func decideCase(c ruleCase) (ruleResult, error) {
	p, err := shell.NewPolicy(c.Default, c.Rules, nil, nil)
	if err != nil {
		return ruleResult{}, err
	}
	d := p.Decide(c.Command, c.Shell)
	r := ruleResult{ID: c.ID, Decision: d.Effect, Rule: d.Rule, Reason: d.Reason}
	if d.Analysis.Class == shell.Read && d.Effect > tools.Deny {
		r.Ceiling = d.Analysis.Class.String()
	}
	return r, nil
}

func testCases(a *cli.App, o rulesTest) error {
	in := a.In
	if o.cases != "-" {
		f, err := os.Open(o.cases)
		if err != nil {
			return cli.UsageError(fmt.Errorf("rules test: %w", err))
		}
		defer f.Close()
		in = f
	}
	return eachCase(a, o, in)
}

// maxCase bounds one line of a file of cases, in bytes.
const maxCase = 4 << 20

func eachCase(a *cli.App, o rulesTest, in io.Reader) error {
	out := a.Out
	if !cli.IsTerminal(out) { // which shows each as it comes
		buffer := bufio.NewWriter(out)
		defer buffer.Flush()
		out = buffer
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCase)
	var failed []error
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := oneCase(out, o.json, lines.Bytes()); err != nil {
			failed = append(failed, fmt.Errorf("%s:%d: %w", o.cases, n, err))
		}
	}
	if err := lines.Err(); err != nil {
		failed = append(failed, fmt.Errorf("%s: %w", o.cases, err))
	}
	if failed != nil {
		return cli.UsageError(fmt.Errorf("rules test: %w", errors.Join(failed...)))
	}
	return nil
}

// oneCase decides the case of one line. One whose rules do not load is denied:
// with such a configuration nothing runs.
func oneCase(w io.Writer, asJSON bool, line []byte) error {
	var c ruleCase
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	r, err := decideCase(c)
	if err != nil {
		r = ruleResult{ID: c.ID, Decision: tools.Deny, Rule: "invalid", Reason: err.Error()}
	}
	return errors.Join(err, writeResult(w, asJSON, r))
}

func writeResult(w io.Writer, asJSON bool, r ruleResult) error {
	if asJSON {
		return cli.Encoder(w).Encode(r)
	}
	line := r.Decision.String()
	if r.ID != "" {
		line = r.ID + "\t" + line
	}
	line += "\t" + r.Rule + "\t" + r.Reason
	if r.Ceiling != "" {
		line += "\tceiling " + r.Ceiling
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func testCommand(a *cli.App, o rulesTest, command string) error {
	c := ruleCase{Command: command}
	if err := o.fill(&c); err != nil {
		return err
	}
	r, err := decideCase(c)
	if err != nil {
		return cli.UsageError(fmt.Errorf("rules test: %w", err))
	}
	if err := writeResult(a.Out, o.json, r); err != nil {
		return err
	}
	if r.Decision != tools.Allow {
		return cli.WithStatus(cli.ExitFound, nil)
	}
	return nil
}

// fill makes the rules that the flags give.
func (o rulesTest) fill(c *ruleCase) error {
	var fallback tools.Effect
	if err := fallback.UnmarshalText([]byte(o.fallback)); err != nil {
		return cli.UsageError(fmt.Errorf("rules test: --default: %w", err))
	}
	c.Default = shell.Default{Allowed: fallback > tools.Deny, Approval: fallback == tools.Ask}
	yes, no := true, false
	add := func(patterns []string, r shell.Rule) {
		for _, p := range patterns {
			r.Pattern = p
			c.Rules = append(c.Rules, r)
		}
	}
	add(o.deny, shell.Rule{Allowed: &no})
	add(o.ask, shell.Rule{Approval: &yes})
	add(o.allow, shell.Rule{Approval: &no})
	add(o.readOnly, shell.Rule{Approval: &no, ReadOnly: true})
	return nil
}
