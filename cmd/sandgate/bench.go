package main

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/bench"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

func newBenchCmd(a *cli.App) *cobra.Command {
	var asJSON, work bool
	o := bench.Options{Rounds: 100, Pending: 1000, Sessions: 10_000, Files: 57_000, Streamed: 64 << 20}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure sandgate against bare exec and bare bubblewrap on this host",
		Long: "bench measures a command started bare, in bubblewrap with the same mounts, by " + "`sandgate run`" + `
and by a call over the socket (the last two also with Landlock alone), and the
file tools. Each runs in an empty workspace and in one the size of a web project (57,000
files in 5,500 directories), to show that a call costs no more in a large workspace.
Kinds alternate within each round, so that a busy machine slows all of them alike.

bench starts its own supervisors: one idle, one loaded with thousands of sessions and
pending requests, and one that does not sync its audit log. The others sync every decision to
disk before its tool starts. Ratios come first; absolute figures apply to this machine only.

With --work, bench measures long work instead: unpacking, cloning, building, removing and
searching 20,000 files, bare and with each backend, without the sandbox's start. The last two
columns compare processor time, which depends less on what else runs. It runs a tenth of the
rounds, because each takes most of a minute.`,
		Example: "  sandgate bench\n  sandgate bench --rounds 300 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if work {
				r, err := bench.MeasureWork(cmd.Context(), max(1, o.Rounds/bench.WorkRounds), min(o.Files, bench.WorkFiles))
				if err != nil {
					return err
				}
				if asJSON {
					return cli.PrintJSON(a.Out, r)
				}
				return r.Print(a.Out)
			}
			o.Version = a.Version
			r, err := bench.Measure(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(a.Out, r)
			}
			return r.Print(a.Out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&work, "work", false, "measure long work (unpacking, building, ...) with each backend instead")
	c.Flags().IntVar(&o.Rounds, "rounds", o.Rounds, "`number` of rounds")
	c.Flags().IntVar(&o.Files, "files", o.Files, "`number` of files in the large workspace")
	c.Flags().IntVar(&o.Sessions, "sessions", o.Sessions, "`number` of open sessions of the loaded supervisor")
	c.Flags().IntVar(&o.Pending, "pending", o.Pending, "`number` of pending requests of the loaded supervisor")
	return c
}
