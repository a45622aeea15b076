package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the name of a configuration file in every directory.
const FileName = "sandgate.yaml"

// A Tier is where a configuration comes from.
type Tier string

const (
	TierFlag     Tier = "flag"    // named with --config
	TierUser     Tier = "user"    // the user's configuration directory
	TierAdmin    Tier = "admin"   // /etc/sandgate
	TierEmbedded Tier = "default" // none found
)

// Found is the outcome of a search.
type Found struct {
	Path    string // absolute; "" for the embedded default
	Name    string // Path as messages say it: as it was given
	Tier    Tier
	Notices []Notice
}

// Find looks for the configuration that applies, in the order of the tiers. The
// first one found is the whole configuration. A file that is there and cannot be
// trusted is an error and not skipped: skipping it would drop its denials.
//
// A file in the workspace is never found, since whoever can write there could
// decide what is allowed; a notice names it.
func Find(env Env) (Found, error) {
	found, err := search(env)
	if err != nil || found.Tier == TierFlag { // who names a file knows which one applies
		return found, err
	}
	found.Notices = workspaceNotice(found, env)
	return found, nil
}

func search(env Env) (Found, error) {
	if env.File != "" {
		path := absolute(env.File, env.Cwd)
		_, err := os.Stat(path)
		if err != nil {
			err = fmt.Errorf("config: --config: %w", err)
		}
		return Found{Path: path, Name: env.File, Tier: TierFlag}, err
	}
	for _, place := range []Found{
		{Path: inDir(env.ConfigHome, "sandgate", FileName), Tier: TierUser},
		{Path: inDir(env.AdminDir, FileName), Tier: TierAdmin},
	} {
		if place.Path == "" {
			continue
		}
		place.Name = place.Path
		switch _, err := os.Stat(place.Path); {
		case err == nil:
			return place, nil
		case !errors.Is(err, fs.ErrNotExist):
			return place, fmt.Errorf("config: %w", err)
		}
	}
	return Found{Tier: TierEmbedded}, nil
}

func inDir(dir string, names ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, names...)...)
}

func workspaceNotice(found Found, env Env) []Notice {
	dir := env.Cwd
	if env.Workspace != "" {
		dir = absolute(env.Workspace, env.Cwd)
	}
	path := filepath.Join(dir, FileName)
	here, err := os.Stat(path)
	if err != nil {
		return nil
	}
	if used, err := os.Stat(found.Path); err == nil && os.SameFile(here, used) {
		return nil
	}
	return []Notice{{Position: Position{File: path}, Text: "not loaded: a file in the workspace is not trusted; " +
		"read it, and name it with --config to use it"}}
}

// loadTrusted loads what Find has found. The file that is checked is the one
// that is read: the checks look at the open descriptor.
func loadTrusted(found Found, env Env) (*Config, error) {
	f, err := os.Open(found.Path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if err := checkTrust(found, info); err != nil {
		return nil, err
	}
	return read(f, found.Name, env)
}

func checkTrust(found Found, info fs.FileInfo) error {
	if info.IsDir() {
		return fmt.Errorf("config: %s is a directory; name the file in it", quote(found.Name))
	}
	switch found.Tier {
	case TierUser:
		return checkOwner(found.Path, info, []int{0, os.Getuid()}, 0o002)
	case TierAdmin:
		dir := filepath.Dir(found.Path)
		dirInfo, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
		return errors.Join(
			checkOwner(dir, dirInfo, []int{0}, 0o022),
			checkOwner(found.Path, info, []int{0}, 0o022))
	}
	return nil
}

// An UntrustedError says why a configuration file is not taken.
type UntrustedError struct {
	Path   string
	Reason string
	hint   string
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("config: %s is not trusted: %s", quote(e.Path), e.Reason)
}

// Hint is what a person can do about it.
func (e *UntrustedError) Hint() string { return e.hint }

// checkOwner refuses a file of other owners, or that others may write.
func checkOwner(path string, info fs.FileInfo, owners []int, forbidden fs.FileMode) error {
	uid, ok := ownerOf(info)
	if !ok {
		return &UntrustedError{path, "its owner cannot be told on this system", ""}
	}
	for _, owner := range owners {
		if uid != owner {
			continue
		}
		if loose := info.Mode().Perm() & forbidden; loose != 0 {
			return &UntrustedError{path, fmt.Sprintf("others may write to it (mode %#o)", info.Mode().Perm()),
				"run `chmod go-w " + path + "`"}
		}
		return nil
	}
	return &UntrustedError{path, fmt.Sprintf("it belongs to user %d", uid),
		fmt.Sprintf("run `chown %d %s` after reading it", owners[len(owners)-1], path)}
}
