package auditcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/explain"
	"github.com/sandgate/sandgate/supervisor/history"
)

func (x *Command) replay() *cobra.Command {
	var q auditQuery
	var file string
	c := &cobra.Command{
		Use:   "replay --config NEW",
		Short: "Show which past decisions another configuration would change",
		Long: `replay decides every call in the log again, under the configuration NEW and today's
standing rules, and prints the calls that would now be treated differently: run instead
of asked about or refused, the reverse, or confined to another class (docs/policies.md).

Answers from people and remembered answers are not replayed: a call that was asked about
counts as asked, whatever the answer was. Calls with redacted, truncated or missing
arguments cannot be decided again; replay reports how many there are. The totals count
calls that would run, be asked about, be refused, be confined to another class, or run on a draft.
Paths and programs are looked up as they are today. A session that had tightened its mode
is judged by NEW's mode.

Exit status: 0 if nothing would change, 1 if something would.`,
		Example: "  sandgate audit replay --config new.yaml\n  sandgate audit replay --config new.yaml --since 720h --json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := q.filter(time.Now())
			if err != nil {
				return cli.UsageError(err)
			}
			d, err := x.replayService(file)
			if err != nil {
				return err
			}
			f.Kinds = []audit.Kind{audit.KindDecision}
			sum, err := d.Replay(c.Context(), history.Decisions(d.Entries(f)), x.printReplayed)
			if err != nil {
				return x.Unreadable(err)
			}
			return x.endReplay(sum)
		},
	}
	c.Flags().StringVar(&file, "config", "", "decide by the configuration `FILE`")
	_ = c.MarkFlagRequired("config") // fails for a flag that is not there
	q.flags(c)
	_ = c.Flags().MarkHidden("kind") // only decisions are replayed
	return x.jsonFlag(c)
}

// replayService decides by file, and remembers nothing.
func (x *Command) replayService(file string) (*explain.RuleService, error) {
	path, err := x.Path()
	if err != nil {
		return nil, err
	}
	cfg, err := settings.LoadAndWarn(x.App, file, "")
	if err != nil {
		return nil, err
	}
	sc, err := assemble.Policy(cfg, assemble.Memory{})
	if err != nil {
		return nil, err
	}
	return supervisor.NewRuleService(sc, path, nil), nil
}

func (x *Command) printReplayed(r explain.Replayed) error {
	if x.AsJSON {
		return printLine(x.Out, r)
	}
	was, now := string(r.Was), string(r.Now)
	if r.Was == r.Now {
		was, now = r.WasHeld, r.NowHeld
	}
	line := fmt.Sprintf("%6d  %s  %-10s  %s -> %s  %s  (was %s; now %s)", r.Seq, r.Time.UTC().Format(time.DateTime), r.Tool, was, now, r.Subject,
		cli.Join(": ", r.WasStep, r.WasRule), cli.Join(": ", r.NowStep, cli.Join(" at ", r.NowRule, r.NowOrigin)))
	_, err := fmt.Fprintln(x.Out, approval.EscapeLine(line))
	return err
}

// endReplay says what was counted; as JSON it is the last line.
func (x *Command) endReplay(sum explain.ReplaySummary) error {
	if x.AsJSON {
		if err := printLine(x.Out, map[string]any{"summary": sum}); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(x.Err, "sandgate: %d decisions: %d as before, %d looser, %d stricter, %d confined to another class; a person had made %d of them\n",
			sum.Decisions, sum.Same, sum.Looser, sum.Stricter, sum.Held, sum.Answered)
		for _, became := range slices.Sorted(maps.Keys(sum.Became)) {
			fmt.Fprintf(x.Err, "sandgate: %d %s\n", sum.Became[became], became)
		}
		if sum.Reviewed > 0 {
			fmt.Fprintf(x.Err, "sandgate: %d would run on a draft, for review\n", sum.Reviewed)
		}
		for _, why := range slices.Sorted(maps.Keys(sum.Unknown)) {
			fmt.Fprintf(x.Err, "sandgate: %d not decided again: %s\n", sum.Unknown[why], approval.EscapeLine(why))
		}
	}
	if sum.Looser+sum.Stricter+sum.Held > 0 {
		return cli.WithStatus(cli.ExitFound, nil)
	}
	return nil
}

// printLine prints v as JSON on one line.
func printLine(w io.Writer, v any) error {
	return cli.Encoder(w).Encode(v)
}
