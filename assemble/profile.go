package assemble

import (
	"errors"
	"os"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// PathFacts looks at the paths of a profile, without searching for files that
// match its patterns.
func PathFacts(p sandboxprofile.Profile) (sandboxprofile.Facts, error) {
	f := sandboxprofile.Facts{Kinds: map[string]sandboxprofile.FileKind{}, Links: map[string]string{}}
	for _, list := range [][]string{p.Keys(), p.Devices, p.UnixSockets} {
		for _, k := range list {
			info, err := os.Lstat(k)
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				return f, err
			case info.IsDir():
				f.Kinds[k] = sandboxprofile.Dir
			case info.Mode().IsRegular():
				f.Kinds[k] = sandboxprofile.File
			case info.Mode()&os.ModeSymlink != 0:
				f.Kinds[k] = sandboxprofile.Symlink
				if f.Links[k], err = os.Readlink(k); err != nil {
					return f, err
				}
			default:
				f.Kinds[k] = sandboxprofile.Other
			}
		}
	}
	return f, nil
}

// ProfileFor is the profile that follows from the configuration for a tool, and
// beside it the operator's profile that narrows it: the one called name, or the
// configuration's.
func ProfileFor(c config.Config, tool, name string) (own, operator sandboxprofile.Profile, err error) {
	cfg := &c
	if name != "" {
		cfg.Sandbox.Profile, cfg.Sandbox.Profiles = name, nil
	}
	kept, err := PresentOwnPaths(cfg)
	if err != nil {
		return own, operator, err
	}
	d, err := Derive(cfg, kept, "")
	if err != nil {
		return own, operator, err
	}
	if operator, err = OperatorProfile(cfg); err != nil {
		return own, operator, err
	}
	if tool != "shell" && tool != "run" {
		return d.Files, operator, nil
	}
	d, err = d.WithCache(cfg).WithSigning(cfg)
	return d.Programs, operator, err
}
