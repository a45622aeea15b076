package main

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/configdiff"
)

func newConfigDiffCmd(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Say what another configuration would ask, refuse, allow and show otherwise",
		Long: `diff compares two configuration files, each as it would apply here: in the place of the
user's file, with the administrator's and the workspace's. The word config stands for
what is in use. It says

  - which classes of calls are decided otherwise, or held to another class by the kernel:
    commands that read, write, run the project, reach a host or match a rule of either
    file, and the file tools in each path of either, hidden and protected names included;
  - in what the sandbox of programs, of file tools and of each custom tool differs: paths,
    patterns, hosts, sockets, variables, limits;
  - every key that has another value.

+ is more, - is less, ~ is both or neither. ` + "`sandgate audit replay`" + ` does it for the calls
of the log.

Exit status: 0 if nothing differs, 1 if something does.`,
		Example: "  sandgate config diff config new.yaml\n  sandgate config diff old.yaml new.yaml --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := configdiff.Between(args[0], args[1])
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.PrintJSON(a.Out, d)
			} else {
				err = d.Print(a.Out)
			}
			if err == nil && d.Any() {
				return cli.WithStatus(cli.ExitFound, nil)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
