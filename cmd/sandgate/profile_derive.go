package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func newProfileDeriveCmd(a *app) *cobra.Command {
	var file, target, tool string
	var asJSON bool
	c := &cobra.Command{
		Use:   "derive",
		Short: "Show the profile that the configuration's tools run under",
		Long: `derive shows what a sandbox is built from: the profile that follows from the
configuration, narrowed by the operator profile that it names. With --target it
shows what that compiles to on this host.`,
		Example: "  sandgate profile derive\n  sandgate profile derive --config sandgate.yaml --tool read_file --target landlock",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			p, err := derivedProfile(file, tool)
			if err != nil {
				return err
			}
			switch {
			case target != "":
				return compileProfile(a.out, p, target, asJSON)
			case asJSON:
				return printJSON(a.out, p)
			default:
				return printProfile(a.out, p)
			}
		},
	}
	fs := c.Flags()
	fs.StringVar(&file, "config", "", "configuration `file`")
	fs.StringVar(&tool, "tool", "shell", "`name` of the tool: the file tools see every configured path, shell and run do not see those with suffixes")
	fs.StringVar(&target, "target", "", "compile for `name`: bwrap, landlock, seccomp or sbpl")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// derivedProfile is what a call of the tool would run under.
func derivedProfile(file, tool string) (sandboxprofile.Profile, error) {
	var none sandboxprofile.Profile
	cfg, err := loadConfig(file, "")
	if err != nil {
		return none, err
	}
	log := cfg.Audit.Path
	if log == "" {
		if log, err = audit.DefaultPath(); err != nil {
			return none, withStatus(exitInternal, err)
		}
	}
	own := map[string]sandboxprofile.Rights{}
	if dir, err := resolved(filepath.Dir(log)); err == nil { // no log yet, nothing to keep from anybody
		if own, err = ownPaths(cfg, filepath.Join(dir, filepath.Base(log))); err != nil {
			return none, err
		}
	}
	d, err := derive(cfg, own)
	if err != nil {
		return none, err
	}
	operator, err := operatorProfile(cfg)
	if err != nil {
		return none, err
	}
	if tool != "shell" && tool != "run" {
		return sandboxprofile.Intersect(d.files, operator), nil
	}
	return sandboxprofile.Intersect(d.programs, operator), nil
}
