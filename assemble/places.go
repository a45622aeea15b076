package assemble

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// WholeTrees are directories that contain the whole machine or every user's files. People work
// in directories below them, not in them; scanning one would take minutes.
var WholeTrees = []string{"/", "/boot", "/home", "/media", "/mnt", "/nix", "/opt", "/run", "/snap", "/srv", "/var", "/var/lib", "/Users", "/System", "/Library", "/Applications"}

// CheckPlaces refuses directories that no tool should write to, before anything is looked
// at. meant is one that the person has named twice.
func CheckPlaces(cfg *config.Config, meant string) error {
	for _, p := range cfg.Sandbox.Paths {
		var why string
		switch {
		case p.Mode != config.ReadWrite || p.Root == meant:
			continue
		case sandboxprofile.Contains("/proc", p.Root), sandboxprofile.Contains("/dev", p.Root), sandboxprofile.Contains("/sys", p.Root):
			return hinted(configError(fmt.Errorf("%s cannot be a workspace: every sandbox has its own /proc, /dev and /sys", p.Root)),
				"work in a directory elsewhere, such as below /tmp or your home directory")
		case slices.Contains(WholeTrees, p.Root):
			why = "contains the whole machine, or the files of all users"
		case sandboxprofile.IsSystemTree(p.Root):
			why = "belongs to the system, where names are neither hidden nor protected"
		default:
			continue
		}
		return hinted(configError(fmt.Errorf("%s is not used as a workspace: it %s", p.Root, why)),
			"change to the directory of your project, or name it with --workspace DIR. To use this one anyway: --workspace "+tools.QuoteWord(p.Root)+" --workspace "+tools.QuoteWord(p.Root))
	}
	return nil
}

// SaidTwice is the directory that --workspace has named at least twice, links resolved.
func SaidTwice(workspaces []string) (string, error) {
	if len(workspaces) < 2 {
		return "", nil
	}
	for _, w := range workspaces[1:] {
		if w != workspaces[0] {
			return "", configError(errors.New("--workspace names two directories; add others with --rw"))
		}
	}
	return Resolved(workspaces[0])
}

// FindHome gives this process the HOME of the user database if it has none, as when
// cron, containers or units start it.
func FindHome() {
	if os.Getenv("HOME") != "" {
		return
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		_ = os.Setenv("HOME", u.HomeDir) // a name and a value that are valid
	}
}
