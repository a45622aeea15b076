package rulescmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/auditcmd"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/protocol"
)

// A ListedRule is a rule with how often the log names it.
type ListedRule struct {
	protocol.Rule
	Hits *int `json:"hits,omitempty"`
}

func newRulesListCmd(a *cli.App) *cobra.Command {
	var f ruleservice.Flags
	var asJSON, hits bool
	var log string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the rules in effect, in the order in which they are tried",
		Long: `list shows the standing rules and the shell rules of the configuration, and the file and line
of each. It says why a rule has no effect. A matching rule that denies always decides,
wherever it stands; otherwise the first matching rule decides.`,
		Example: "  sandgate rules list\n  sandgate rules list --hits --json",
		Args:    cobra.NoArgs,
		RunE: withRules(a, &f, func(c *cobra.Command, d ruleservice.Service, _ []string) error {
			list, err := listRules(c.Context(), d, hits, log)
			switch {
			case err != nil:
				return err
			case asJSON:
				return cli.PrintJSON(a.Out, list)
			}
			return PrintRules(a.Out, list)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&hits, "hits", false, "count each rule's decisions in the audit log")
	c.Flags().StringVar(&log, "log", "", "with --hits: the audit log `FILE` (default: in the state directory)")
	f.Register(c)
	return c
}

func listRules(ctx context.Context, d ruleservice.Service, hits bool, log string) ([]ListedRule, error) {
	rules, err := d.Rules(ctx)
	if err != nil {
		return nil, ruleStatus(err)
	}
	var count map[string]int
	if hits {
		if count, err = countHits(log); err != nil {
			return nil, err
		}
	}
	list := []ListedRule{}
	for _, r := range rules.Rules {
		l := ListedRule{Rule: r}
		if hits {
			n := count[r.Name]
			l.Hits = &n
		}
		list = append(list, l)
	}
	return list, nil
}

// countHits counts the decisions that the log puts down to each rule.
func countHits(log string) (map[string]int, error) {
	x := &auditcmd.Command{Log: log}
	path, err := x.Path()
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for e, err := range audit.Query(path, audit.Filter{Kinds: []audit.Kind{audit.KindDecision}}) {
		var bad *audit.ChainError
		if errors.As(err, &bad) {
			continue
		}
		if err != nil {
			return nil, x.Unreadable(err)
		}
		var f auditcmd.Facts
		if json.Unmarshal(e.Data, &f) == nil {
			count[f.DecidedBy()]++
		}
	}
	return count, nil
}

func PrintRules(w io.Writer, list []ListedRule) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range list {
		line := []string{r.ID, string(r.Effect), ruleservice.Subject(r.Rule), r.Origin, r.Reason}
		if r.ID == "" {
			line[0] = r.Tier
		}
		if r.Hits != nil {
			line = append(line, fmt.Sprintf("%d hits", *r.Hits))
		}
		if r.Inactive != "" {
			line = append(line, "NO EFFECT: "+r.Inactive)
		}
		for i := range line {
			line[i] = approval.EscapeLine(line[i])
		}
		fmt.Fprintln(t, strings.Join(line, "\t"))
	}
	return t.Flush()
}
