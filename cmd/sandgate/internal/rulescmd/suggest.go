package rulescmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/fragment"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/protocol"
)

func newRulesSuggestCmd(a *cli.App) *cobra.Command {
	var f ruleservice.Flags
	var p protocol.RulesSuggest
	var since string
	var asJSON, asConfig bool
	c := &cobra.Command{
		Use:   "suggest",
		Short: "Propose narrow rules for commands that people always allowed",
		Long: `suggest reads the audit log for commands that people were asked about and always allowed,
and proposes rules that would have avoided the questions. For each rule it shows how many
questions it would have saved, for which commands, and what else in the log it would have
allowed. It never proposes a rule that would have allowed something that was once denied,
or a rule for an interpreter, a shell, or a program that runs others.

suggest adds nothing: copy the command that it prints, or with --yaml the configuration
lines, in the format of ` + "`sandgate learn`" + ".",
		Example: "  sandgate rules suggest\n  sandgate rules suggest --min 10 --since 720h --json\n  sandgate rules suggest --yaml",
		Args:    cobra.NoArgs,
		RunE: withRules(a, &f, func(c *cobra.Command, d ruleservice.Service, _ []string) error {
			var err error
			if p.Since, err = cli.ParseMoment(since, time.Now()); err != nil {
				return cli.UsageError(fmt.Errorf("--since: %w", err))
			}
			s, err := d.SuggestRules(c.Context(), p)
			switch {
			case err != nil:
				return ruleStatus(err)
			case asJSON:
				return cli.PrintJSON(a.Out, s)
			case asConfig:
				_, err := a.Out.Write([]byte(fragment.Suggested(s).Text()))
				return err
			}
			printSuggestions(a, s)
			return nil
		}),
	}
	c.Flags().IntVar(&p.Min, "min", 3, "propose rules that would have saved at least `N` questions")
	c.Flags().StringVar(&since, "since", "", "only decisions since `TIME`: 2h (ago), 2006-01-02 or RFC 3339")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&asConfig, "yaml", false, "print the rules as configuration lines")
	f.Register(c)
	return c
}

func printSuggestions(a *cli.App, s protocol.RulesSuggested) {
	for _, g := range s.Suggestions {
		fmt.Fprintf(a.Out, "%s\n    would have saved %d questions, the last on %s:\n",
			approval.EscapeLine(addCommand(g.Rule)), g.Saved, g.Last.Format(time.DateOnly))
		for _, e := range g.Examples {
			fmt.Fprintf(a.Out, "        %s\n", approval.EscapeLine(e))
		}
		if len(g.Also) > 0 {
			fmt.Fprintln(a.Out, "    would also have allowed, without asking:")
		}
		for _, e := range g.Also {
			fmt.Fprintf(a.Out, "        %s\n", approval.EscapeLine(e))
		}
	}
	fmt.Fprintf(a.Err, "sandgate: %d suggestions from %d decisions about commands; %d could not be used (redacted, truncated, in another directory, or too many)\n",
		len(s.Suggestions), s.Decisions, s.Skipped)
}

// addCommand is the command that adds a rule that was suggested: its pattern is
// plain words.
func addCommand(r protocol.RuleSpec) string {
	command := "sandgate rules add --" + string(r.Effect)
	if r.Exact {
		command += " --exact"
	}
	return command + " --shell '" + r.Shell + "'"
}
