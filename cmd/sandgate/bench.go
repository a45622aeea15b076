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
		Long: `bench starts supervisors of its own and measures, round by round and one of each
kind after the other, so that a busy machine slows all of them alike: a command
started bare, in bubblewrap with the same mounts, by sandgate run and by a call over
the socket, both also with Landlock alone, and the file tools: each in an empty workspace and in one that holds what a
web project does (57,000 files in 5,500 directories), since nothing may cost more
where more lies. One supervisor does nothing else, one has open
sessions and waiting requests by the thousand, one does not sync its audit log; the
others sync every decision to the disk before its tool starts. Ratios come first;
absolute figures are this machine's.

With --work it measures instead what takes long and changes much: unpacking, cloning,
building, removing and searching 20,000 files, bare and with each backend, without the
start of the sandbox. Of rounds it makes a tenth, since each takes most of a minute.`,
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
	c.Flags().BoolVar(&work, "work", false, "measure what takes long instead: unpacking, cloning, building, removing, searching, with each backend")
	c.Flags().IntVar(&o.Rounds, "rounds", o.Rounds, "`number` of rounds")
	c.Flags().IntVar(&o.Files, "files", o.Files, "`number` of files in the workspace that is not empty")
	c.Flags().IntVar(&o.Sessions, "sessions", o.Sessions, "`number` of sessions that the loaded supervisor has open")
	c.Flags().IntVar(&o.Pending, "pending", o.Pending, "`number` of requests that wait there for an answer")
	return c
}
