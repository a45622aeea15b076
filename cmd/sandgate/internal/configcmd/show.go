package configcmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
)

// A configShown is the configuration in force, as JSON.
type configShown struct {
	File    string                 `json:"file"`
	Tier    config.Tier            `json:"tier"`
	Digest  string                 `json:"digest,omitempty"`
	Sources []config.Source        `json:"sources"`
	Config  map[string]any         `json:"config"`
	Origins map[string]string      `json:"origins"` // by field: a position, or "default"
	Tiers   map[string]config.Tier `json:"tiers"`   // by field: whose file that is in
	Notices []config.Notice        `json:"notices,omitempty"`
	Unused  []config.Notice        `json:"unused,omitempty"` // of a file that is not trusted
}

func newConfigShowCmd(a *cli.App) *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "show",
		Short: "Print the configuration in use, with the origin of each value",
		Long: `show prints the merged configuration, with the origin of each value after it. Permissions
that an untrusted file would widen are warnings.`,
		Example: "  sandgate config show\n  sandgate config show --config sandgate.yaml --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, found, err := assemble.Load(file, "")
			if err != nil {
				return err
			}
			if asJSON {
				return showJSON(a, c, found)
			}
			settings.PrintNotices(a, c)
			settings.WarnUnused(a, c, len(c.Unused))
			text, err := c.Explain()
			if err != nil {
				return cli.WithStatus(cli.ExitInternal, err)
			}
			_, err = fmt.Fprintf(a.Out, "%s%s", sourcesText(c), text)
			return err
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// sourcesText lists the files that were merged, as comments.
func sourcesText(c *config.Config) string {
	var b strings.Builder
	for _, s := range c.Sources {
		fmt.Fprintf(&b, "# %s\n", approval.EscapeLine(cli.Join(", ", string(s.Tier)+": "+s.File, untrustedText(s))))
	}
	for _, p := range c.OperatorProfiles() {
		fmt.Fprintf(&b, "# operator profile: %s\n", approval.EscapeLine(cli.Join(" at ", p.Name, p.Position.String())))
	}
	return b.String()
}

func showJSON(a *cli.App, c *config.Config, found config.Found) error {
	plain, err := c.Plain()
	if err != nil {
		return cli.WithStatus(cli.ExitInternal, err)
	}
	s := configShown{
		File: found.Path, Tier: found.Tier, Digest: c.Digest, Sources: append([]config.Source{}, c.Sources...), Config: plain,
		Origins: map[string]string{}, Tiers: map[string]config.Tier{}, Notices: c.Notices, Unused: c.Unused,
	}
	c.Fields(func(field, origin string) {
		s.Origins[field], s.Tiers[field] = origin, c.TierOf(field)
	})
	return cli.PrintJSON(a.Out, s)
}
