package rulescmd

import (
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/protocol"
)

func newRulesTryCmd(a *cli.App) *cobra.Command {
	var f ruleFlags
	var since time.Duration
	var limit int
	c := &cobra.Command{
		Use:   "try --allow|--ask|--deny TOOL | --connector NAME | --shell COMMAND",
		Short: "Show which calls in the log a rule would have covered",
		Long: `try compares a rule with the decisions in the audit log: how many calls it covers, the
most recent ones, and how each was decided. It judges the rule alone and ignores other rules. To
compare whole configurations, use ` + "`sandgate audit replay`" + ".",
		Example: "  sandgate rules try --deny 'github_*'\n  sandgate rules try --allow --shell 'go test' --since 168h",
		Args:    cobra.MaximumNArgs(1),
		RunE: withRules(a, &f.Flags, func(c *cobra.Command, d ruleservice.Service, args []string) error {
			spec, err := f.rule(args)
			if err != nil {
				return cli.UsageError(err)
			}
			ask := protocol.RulesTry{Rule: spec, Limit: limit}
			if since > 0 {
				ask.Since = time.Now().Add(-since)
			}
			tried, err := d.TryRule(c.Context(), ask)
			if err != nil {
				return ruleStatus(err)
			}
			if f.json {
				return cli.PrintJSON(a.Out, tried)
			}
			return PrintTried(a, tried)
		}),
	}
	f.describe(c)
	c.Flags().DurationVar(&since, "since", 0, "only calls of the last `time`, such as 24h")
	c.Flags().IntVar(&limit, "limit", 20, "list at most `N` calls")
	return c
}

func PrintTried(a *cli.App, t protocol.RulesTried) error {
	if t.Caution != "" {
		caution(a, t.Caution)
	}
	fmt.Fprintf(a.Out, "covers %d of %s", t.Matches, cli.CountOf(t.Decisions, "decision"))
	if t.Skipped > 0 {
		fmt.Fprintf(a.Out, "; %d could not be checked, because their arguments were redacted or truncated", t.Skipped)
	}
	fmt.Fprintln(a.Out)
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	for _, c := range t.Covered {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", c.Time.Local().Format(time.DateTime), approval.EscapeName(c.Agent), c.Action,
			approval.EscapeName(string(c.Tool)), approval.EscapeLine(c.Subject))
	}
	return w.Flush()
}
