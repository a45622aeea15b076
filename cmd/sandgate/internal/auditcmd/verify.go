package auditcmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

func (x *Command) verify() *cobra.Command {
	var export string
	c := &cobra.Command{
		Use:   "verify [FILE] | verify --export DIR",
		Short: "Check that no entry of the log was changed, removed or added",
		Long: `verify follows the chain of hashes from the first entry and names the first bad line.
With the checkpoint file beside the log it also detects a truncated end. With --export it
checks an export by ` + "`sandgate audit export`" + ` against its manifest.

Exit status: 0 if the log is intact, 1 if it was altered.`,
		Example: "  sandgate audit verify\n  sandgate audit verify --export ./evidence\n  sandgate audit verify --json copy-of-audit.jsonl",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if export != "" {
				return x.verifyExport(export, args)
			}
			path, err := x.Path()
			if len(args) == 1 {
				path, err = args[0], nil
			}
			if err != nil {
				return err
			}
			return x.report(audit.VerifyFile(path))
		},
	}
	c.Flags().StringVar(&export, "export", "", "verify the export in `DIR` instead of the log")
	return x.jsonFlag(c)
}

func (x *Command) verifyExport(dir string, args []string) error {
	if len(args) > 0 {
		return cli.UsageError(errors.New("audit verify: give either FILE or --export, not both"))
	}
	m, err := audit.VerifyExport(dir)
	if err != nil {
		return exportStatus(err)
	}
	return x.tellExport(m, "export ok,")
}

// report prints what verify found; err is the *audit.ChainError of a broken log.
func (x *Command) report(r audit.Report, err error) error {
	var bad *audit.ChainError
	switch {
	case err != nil && !errors.As(err, &bad):
		return x.Unreadable(err)
	case x.AsJSON:
		return x.reportJSON(r, bad)
	case bad != nil:
		return cli.WithStatus(cli.ExitFound, fmt.Errorf("chain broken: %w", err))
	}
	if r.Checkpoint == 0 && r.Entries > 0 {
		fmt.Fprintln(x.Err, "sandgate: no checkpoint beside the log: a truncated end would not be detected")
	}
	open := ""
	if len(r.Open) > 0 {
		open = cli.Plural(len(r.Open), "call", "calls") + " not ended yet\n"
	}
	_, err = fmt.Fprintf(x.Out, "chain ok, %s\n%s", cli.Plural(int(r.Entries), "entry", "entries"), open)
	return err
}

func (x *Command) reportJSON(r audit.Report, bad *audit.ChainError) error {
	v := struct {
		OK bool `json:"ok"`
		audit.Report
		Bad *audit.ChainError `json:"bad,omitempty"`
	}{bad == nil, r, bad}
	if err := cli.Encoder(x.Out).Encode(v); err != nil {
		return err
	}
	if bad != nil {
		return &cli.StatusError{Code: cli.ExitFound}
	}
	return nil
}
