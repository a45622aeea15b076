package auditcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

func (x *Command) query() *cobra.Command {
	var q auditQuery
	c := &cobra.Command{
		Use:     "query",
		Short:   "Print the entries that match all given flags",
		Example: "  sandgate audit query --tool shell --since 2h\n  sandgate audit query --kind refused --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			f, err := q.filter(time.Now())
			if err != nil {
				return cli.UsageError(err)
			}
			path, err := x.Path()
			if err != nil {
				return err
			}
			return x.print(audit.Query(path, f))
		},
	}
	q.flags(c)
	return x.jsonFlag(c)
}

// flags adds the flags that choose entries.
func (q *auditQuery) flags(c *cobra.Command) {
	c.Flags().StringVar(&q.Session, "session", "", "only session `ID`")
	c.Flags().StringVar(&q.Call, "call", "", "only call `ID`")
	c.Flags().StringVar(&q.Tool, "tool", "", "only tool `NAME`")
	c.Flags().StringVar(&q.Agent, "agent", "", "only agent `NAME`")
	c.Flags().StringSliceVar(&q.kinds, "kind", nil, "only entries of this `KIND`: "+kindList())
	c.Flags().StringVar(&q.since, "since", "", "only entries since `TIME`: 2h (ago), 2006-01-02 or RFC 3339")
	c.Flags().StringVar(&q.until, "until", "", "only entries before `TIME`")
}

// auditQuery has the flags of `audit query`.
type auditQuery struct {
	audit.Filter
	kinds        []string
	since, until string
}

func (q *auditQuery) filter(now time.Time) (f audit.Filter, err error) {
	f = q.Filter
	if f.Kinds, err = parseKinds(q.kinds); err != nil {
		return f, fmt.Errorf("--kind: %w", err)
	}
	if f.Since, err = cli.ParseMoment(q.since, now); err != nil {
		return f, fmt.Errorf("--since: %w", err)
	}
	if f.Until, err = cli.ParseMoment(q.until, now); err != nil {
		return f, fmt.Errorf("--until: %w", err)
	}
	return f, nil
}

func kindList() string {
	var names []string
	for _, k := range audit.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

func parseKinds(names []string) ([]audit.Kind, error) {
	var kinds []audit.Kind
	for _, n := range names {
		k := audit.Kind(n)
		if !slices.Contains(audit.Kinds(), k) {
			return nil, fmt.Errorf("unknown kind %q: want one of %s", n, kindList())
		}
		kinds = append(kinds, k)
	}
	return kinds, nil
}
