package rulescmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
)

// withRules opens a rule service for the time of f.
func withRules(a *cli.App, f *ruleservice.Flags, do func(c *cobra.Command, d ruleservice.Service, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) (err error) {
		d, err := f.Open(c.Context(), a, c.CommandPath())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		return do(c, d, args)
	}
}

// ruleFlags describe one rule.
type ruleFlags struct {
	ruleservice.Flags
	spec             protocol.RuleSpec
	allow, ask, deny bool
	replace          string
	json             bool
}

// describe are the flags that say what a rule is.
func (f *ruleFlags) describe(c *cobra.Command) {
	fs := c.Flags()
	fs.BoolVar(&f.allow, "allow", false, "allow matching calls")
	fs.BoolVar(&f.ask, "ask", false, "ask about matching commands (needs --shell)")
	fs.BoolVar(&f.deny, "deny", false, "deny matching calls")
	fs.StringVar(&f.spec.Shell, "shell", "", "match commands that start with these `words`")
	fs.StringVar(&f.spec.Connector, "connector", "", "match tools of connectors that match this `glob`")
	fs.StringVar(&f.spec.Agent, "agent", "", "match agents whose name matches this `glob` (not with --shell)")
	fs.BoolVar(&f.spec.Exact, "exact", false, "with --shell: match only commands without further words")
	fs.BoolVar(&f.spec.ReadOnly, "read-only", false, "with --shell: match only forms that neither write nor run programs")
	fs.StringArrayVar(&f.spec.Match, "match", nil, "`example` that the rule must cover: a command, TOOL or CONNECTOR/TOOL")
	fs.StringArrayVar(&f.spec.NoMatch, "no-match", nil, "`example` that the rule must not cover")
	fs.BoolVar(&f.json, "json", false, "print JSON")
	f.Register(c)
	c.MarkFlagsMutuallyExclusive("allow", "ask", "deny")
	c.MarkFlagsOneRequired("allow", "ask", "deny")
}

func newRulesAddCmd(a *cli.App) *cobra.Command {
	var f ruleFlags
	c := &cobra.Command{
		Use:   "add --allow|--ask|--deny TOOL | --connector NAME | --shell COMMAND",
		Short: "Add a standing rule, effective immediately and permanently",
		Long: `add puts a rule into effect in the running supervisor and writes it to rules.yaml in the
configuration directory. You can edit that file by hand. TOOL and --connector are globs;
--shell takes the first words of a command.

A rule can tighten anything. It can loosen only what the configuration leaves to its
default: it cannot override a rule of the configuration, a rule that denies, or
approval.dangerous_tools; add refuses a rule that would. --match and --no-match give
examples that the rule must and must not cover; they are checked now and at every start.
--agent matches the name that an agent gives itself. Any program of this user can choose
that name, so use it only to tell your own agents apart.`,
		Example: `  sandgate rules add --deny 'github_*' --reason 'we push by hand' --match github_push --no-match git_push
  sandgate rules add --allow --shell 'git log' --read-only
  sandgate rules add --ask --shell 'git push'
  sandgate rules add --allow WebSearch --agent researcher
  sandgate rules add --replace deny-github --deny 'github_*' --agent 'ci-*'`,
		Args: cobra.MaximumNArgs(1),
		RunE: withRules(a, &f.Flags, func(c *cobra.Command, d ruleservice.Service, args []string) error {
			spec, err := f.rule(args)
			if err != nil {
				return cli.UsageError(err)
			}
			done := "added"
			add := func() (protocol.Rule, error) { return d.AddRule(c.Context(), spec) }
			if f.replace != "" {
				done = "replaced"
				add = func() (protocol.Rule, error) { return d.ReplaceRule(c.Context(), f.replace, spec, nil) }
			}
			r, err := add()
			if err != nil {
				return ruleStatus(err)
			}
			return tellRule(a, f.json, done, r)
		}),
	}
	f.describe(c)
	c.Flags().StringVar(&f.spec.Reason, "reason", "", "reason `text` for people and the model")
	c.Flags().StringVar(&f.spec.ID, "id", "", "rule `name` (default: derived from the rule)")
	c.Flags().StringVar(&f.replace, "replace", "", "replace the rule `name`, in one step")
	c.MarkFlagsMutuallyExclusive("id", "replace")
	return c
}

func (f ruleFlags) rule(args []string) (protocol.RuleSpec, error) {
	spec := f.spec
	if len(args) == 1 {
		spec.Tool = args[0]
	}
	switch {
	case f.allow:
		spec.Effect = protocol.CheckAllow
	case f.ask:
		spec.Effect = protocol.CheckAsk
	default:
		spec.Effect = protocol.CheckDeny
	}
	if (spec.Shell != "") == (spec.Tool != "" || spec.Connector != "") {
		return spec, errors.New("give one of TOOL, --connector or --shell")
	}
	return spec, nil
}

// tellRule says what has become of a rule.
func tellRule(a *cli.App, asJSON bool, what string, r protocol.Rule) error {
	if asJSON {
		return cli.PrintJSON(a.Out, r)
	}
	if r.Caution != "" && what != "removed" {
		caution(a, r.Caution)
	}
	_, err := fmt.Fprintf(a.Out, "%s %s: %s\n", what, approval.EscapeName(r.ID), approval.EscapeLine(ruleservice.Text(r)))
	return err
}

func caution(a *cli.App, text string) {
	fmt.Fprintf(a.Err, "sandgate: caution: %s\n", approval.EscapeLine(text))
}

func newRulesRemoveCmd(a *cli.App) *cobra.Command {
	var f ruleservice.Flags
	var asJSON bool
	c := &cobra.Command{
		Use:   "remove ID...",
		Short: "Remove standing rules",
		Long: `remove deletes standing rules from rules.yaml and from the running supervisor. It refuses
to remove the administrator's rules and those of the configuration.`,
		Example:           "  sandgate rules remove deny-github",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeRules,
		RunE: withRules(a, &f, func(c *cobra.Command, d ruleservice.Service, ids []string) error {
			for _, id := range ids {
				r, err := d.RemoveRule(c.Context(), id, nil)
				if err != nil {
					return ruleStatus(err)
				}
				if err := tellRule(a, asJSON, "removed", r); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	f.Register(c)
	return c
}

// completeRules gives the ids of the user's standing rules.
func completeRules(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	env, err := assemble.Env()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []string
	for _, f := range env.RulesFiles() {
		if f.Tier != config.TierUser {
			continue
		}
		rules, _, err := config.ReadRules(f)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, r := range rules {
			ids = append(ids, r.ID+"\t"+string(r.Effect)+" "+r.Shell+r.Connector+r.Tool)
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func newRulesReloadCmd(a *cli.App) *cobra.Command {
	var f ruleservice.Flags
	c := &cobra.Command{
		Use:   "reload",
		Short: "Reload the files of standing rules in the running supervisor",
		Long: `reload applies rules.yaml after you edit it by hand; SIGHUP does the same. If the file does
not load, the rules stay as they were. sandgate.yaml is read at start only.`,
		Example: "  sandgate rules reload",
		Args:    cobra.NoArgs,
		RunE: withRules(a, &f, func(c *cobra.Command, d ruleservice.Service, _ []string) error {
			if _, local := d.(*ruleservice.Local); local {
				fmt.Fprintln(a.Err, "sandgate: no supervisor is running; the next one will load the rules when it starts")
				return nil
			}
			n, err := d.Reload(c.Context())
			if err != nil {
				return ruleStatus(err)
			}
			_, err = fmt.Fprintf(a.Out, "%d rules, %d of them without effect\n", n.Rules, n.Inactive)
			return err
		}),
	}
	f.Register(c)
	return c
}

// ruleStatus is the status of a refusal to change rules.
func ruleStatus(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) && (e.Code == protocol.CodeRuleRefused || e.Code == protocol.CodeUnknownRule) {
		return cli.UsageError(err)
	}
	return cli.WireStatus(err)
}
