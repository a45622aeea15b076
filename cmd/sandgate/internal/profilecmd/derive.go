package profilecmd

import (
	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func newProfileDeriveCmd(a *cli.App) *cobra.Command {
	var file, target, tool string
	var asJSON bool
	c := &cobra.Command{
		Use:   "derive",
		Short: "Show the profile that tools run under with a configuration",
		Long: `derive shows what a sandbox is built from: the profile that follows from the
configuration, limited by the configured operator profile. With --target it shows
what that compiles to on this host.`,
		Example: "  sandgate profile derive\n  sandgate profile derive --config sandgate.yaml --tool read_file --target landlock",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := derivedProfile(a, file, tool)
			if err != nil {
				return err
			}
			switch {
			case target != "":
				return compileProfile(a.Out, p, target, asJSON)
			case asJSON:
				return cli.PrintJSON(a.Out, p)
			default:
				return printProfile(a.Out, p)
			}
		},
	}
	fs := c.Flags()
	fs.StringVar(&file, "config", "", "configuration `file`")
	fs.StringVar(&tool, "tool", "shell", "tool `name`: file tools see every configured path; shell and run do not see paths with suffixes")
	fs.StringVar(&target, "target", "", "also compile for `name`: bwrap, landlock, seccomp or sbpl")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// derivedProfile is the profile that a call of the tool
// would run under.
func derivedProfile(a *cli.App, file, tool string) (sandboxprofile.Profile, error) {
	cfg, err := settings.LoadAndWarn(a, file, "")
	if err != nil {
		return sandboxprofile.Profile{}, err
	}
	own, operator, err := assemble.ProfileFor(*cfg, tool, "")
	return sandboxprofile.Intersect(own, operator), err
}
