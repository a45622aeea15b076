package configcmd

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/configdiff"
)

func newConfigDiffCmd(a *cli.App) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show how two configurations differ in what they allow, ask, refuse and show",
		Long: `diff compares two configuration files. Each replaces your own file and is merged with the
administrator's and the workspace's. The word config stands for the configuration in use.
diff prints

  - classes of calls that are decided differently or confined to another class: commands
    that read, write, run the project, reach a host or match a rule of either file, and
    file tools in each path of either, including hidden and protected names;
  - differences in the sandbox of programs, of file tools and of each custom tool: paths,
    patterns, hosts, sockets, variables, limits;
  - every key with a different value.

+ means more, - means less, ~ means both or neither. To compare the decisions on the calls
in the log, use ` + "`sandgate audit replay`" + `.

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
