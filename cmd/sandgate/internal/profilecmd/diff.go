package profilecmd

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/configdiff"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func newProfileDiffCmd(a *cli.App) *cobra.Command {
	var file, tool string
	var asJSON bool
	var roots []string
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Show how two profiles differ, or what a profile takes away",
		Long: `diff compares two operator profiles, shipped ones or files. The word config stands for the
profile that follows from the configuration alone: "diff config NAME" shows what the
operator profile NAME takes away from it.

Each line is a path, pattern, host or limit: - means less in B, + more, ~ both. A path's
line applies to everything below it, up to the next path line; = marks a path where the
two agree again.

Exit status: 0 if nothing differs, 1 if something does.`,
		Example: "  sandgate profile diff config hardened\n  sandgate profile diff workspace-write build\n  sandgate profile diff config ./mine.yaml --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			changes, err := profileDiff(a, args[0], args[1], file, tool, roots)
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.PrintJSON(a.Out, append([]sandboxprofile.Change{}, changes...))
			} else {
				err = configdiff.PrintProfileChanges(a.Out, changes)
			}
			if err == nil && len(changes) > 0 {
				return cli.WithStatus(cli.ExitFound, nil)
			}
			return err
		},
	}
	fs := c.Flags()
	fs.StringVar(&file, "config", "", "configuration `file` that config stands for")
	fs.StringVar(&tool, "tool", "shell", "the tool `name` whose profile config stands for")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	addRootFlag(c, &roots)
	return c
}

// profileDiff compares two operands. Beside the configuration, a profile counts
// as what it leaves of it.
func profileDiff(a *cli.App, from, to, file, tool string, roots []string) ([]sandboxprofile.Change, error) {
	if from != configdiff.InUse && to != configdiff.InUse {
		first, err := operatorByName(from, roots)
		if err != nil {
			return nil, err
		}
		second, err := operatorByName(to, roots)
		return sandboxprofile.Diff(first, second), err
	}
	cfg, err := settings.LoadAndWarn(a, file, "")
	if err != nil {
		return nil, err
	}
	under := func(name string) (sandboxprofile.Profile, error) {
		if name == configdiff.InUse {
			own, _, err := assemble.ProfileFor(*cfg, tool, "")
			return own, err
		}
		own, operator, err := assemble.ProfileFor(*cfg, tool, name)
		return sandboxprofile.Intersect(own, operator), err
	}
	first, err := under(from)
	if err != nil {
		return nil, err
	}
	second, err := under(to)
	return sandboxprofile.Diff(first, second), err
}
