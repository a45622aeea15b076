package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// FileName is the name of a configuration file in every directory.
const FileName = "sandgate.yaml"

// A Tier is where a configuration comes from.
type Tier string

const (
	TierAdmin     Tier = "admin"     // /etc/sandgate
	TierUser      Tier = "user"      // the user's configuration directory
	TierFlag      Tier = "flag"      // named with --config, in place of the user's
	TierWorkspace Tier = "workspace" // the directory that tools work in
	TierEmbedded  Tier = "default"   // none found
)

// Above reports whether what a file of t denies holds for one of another tier.
func (t Tier) Above(other Tier) bool {
	rank := map[Tier]int{TierAdmin: 1, TierUser: 2, TierFlag: 2, TierWorkspace: 3}
	return rank[t] > 0 && rank[t] < rank[other]
}

// Found is the most specific file that is trusted because of its location, or because a person
// named it. The others are in Config.Sources.
type Found struct {
	Path string // absolute; "" for the embedded default
	Name string // Path as messages say it: as it was given
	Tier Tier
}

// Resolve finds every file that applies, loads them, and merges them: see Merge. A
// file that is there and cannot be loaded, or lies where others could have written
// it, is an error and not skipped: skipping it would drop its denials.
func Resolve(env Env) (*Config, Found, error) {
	found := Found{Tier: TierEmbedded}
	base, err := embedded(env)
	if err != nil {
		return nil, found, err
	}
	var layers []Layer
	var errs []error
	for _, place := range env.places() {
		l, err := place.load(env, layers)
		if place.Tier == TierFlag || l.Config != nil && place.Tier != TierWorkspace {
			found = place
		}
		if err != nil {
			errs = append(errs, err)
		} else if l.Config != nil {
			layers = append(layers, l)
		}
	}
	if len(errs) > 0 {
		return nil, found, allProblems(errs)
	}
	c, err := Merge(base, layers...)
	if err != nil {
		return nil, found, err
	}
	return c, found, nil
}

// places are where files can lie, the administrator's first.
func (env Env) places() []Found {
	user := Found{Path: inDir(env.ConfigHome, "sandgate", FileName), Tier: TierUser}
	if env.File != "" {
		user = Found{Path: absolute(env.File, env.Cwd), Name: env.File, Tier: TierFlag}
	}
	list := []Found{{Path: inDir(env.AdminDir, FileName), Tier: TierAdmin}, user, {Path: env.WorkspaceFile(), Tier: TierWorkspace}}
	list = slices.DeleteFunc(list, func(f Found) bool { return f.Path == "" })
	for i := range list {
		list[i].Name = cmp.Or(list[i].Name, list[i].Path)
	}
	return list
}

// WorkspaceFile is where the workspace has its file, if it has one: in the directory
// that was named as the workspace, or in the current one.
func (env Env) WorkspaceFile() string {
	dir := env.Cwd
	if env.Workspace != "" {
		dir = absolute(env.Workspace, env.Cwd)
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	return filepath.Join(dir, FileName)
}

// load reads the file at a place, once, so that the bytes checked are the bytes used.
// It returns no Config if there is no file, or if another place has given the same file
// already.
func (place Found) load(env Env, others []Layer) (Layer, error) {
	l := Layer{Tier: place.Tier, Name: place.Name, Trusted: place.Tier != TierWorkspace}
	if isOneOf(place.Path, others) {
		return l, nil
	}
	f, err := openFile(place)
	switch {
	case errors.Is(err, fs.ErrNotExist) && place.Tier != TierFlag:
		return l, nil
	case err != nil:
		return l, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return l, fmt.Errorf("config: %w", err)
	}
	if err := checkTrust(place, info); err != nil {
		return l, err
	}
	if l.Config, err = read(f, place.Name, env); err != nil || l.Trusted {
		return l, err
	}
	l.Trusted, err = env.trusts(l.Config)
	return l, err
}

// isOneOf reports whether path leads to a file that has been read.
func isOneOf(path string, others []Layer) bool {
	info, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(others, func(o Layer) bool {
		have, err := os.Stat(o.Config.File)
		return err == nil && os.SameFile(info, have)
	})
}

// trusts reports whether a person has trusted the file of a workspace.
func (env Env) trusts(c *Config) (bool, error) {
	if env.Trusted == nil {
		return false, nil
	}
	return env.Trusted(c.File, c.TrustDigest())
}

// openFile opens the file at a place. In a workspace it does not follow a link, because the
// target could change without the workspace, and it does not wait for the other end of a pipe.
func openFile(place Found) (*os.File, error) {
	switch place.Tier {
	case TierFlag:
		f, err := os.Open(place.Path)
		if err != nil {
			err = fmt.Errorf("config: --config: %w", err)
		}
		return f, err
	case TierWorkspace:
		f, err := os.OpenFile(place.Path, os.O_RDONLY|nonblock|nofollow, 0)
		if info, lerr := os.Lstat(place.Path); err != nil && lerr == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, &UntrustedError{place.Path, "it is a symbolic link", "put the file itself there, or name it with --config"}
		}
		return f, prefixed(err)
	}
	f, err := os.OpenFile(place.Path, os.O_RDONLY|nonblock, 0)
	return f, prefixed(err)
}

func prefixed(err error) error {
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

// allProblems is one error of several files.
func allProblems(errs []error) error {
	if len(errs) == 1 {
		return errs[0]
	}
	all := &Error{File: "the configuration"}
	for _, err := range errs {
		var e *Error
		if !errors.As(err, &e) {
			return errors.Join(errs...)
		}
		all.Problems = append(all.Problems, e.Problems...)
	}
	return all
}

func inDir(dir string, names ...string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, names...)...)
}

// checkTrust refuses a file that others could have written, of what is open.
func checkTrust(place Found, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return fmt.Errorf("config: %s is a directory; name the file in it", quote(place.Name))
	case place.Tier != TierFlag && !info.Mode().IsRegular(): // a flag may name a pipe
		return &UntrustedError{place.Path, "it is not a regular file", ""}
	}
	switch place.Tier {
	case TierUser:
		return checkOwner(place.Path, info, []int{0, os.Getuid()}, 0o002)
	case TierAdmin:
		return errors.Join(checkParents(place.Path), checkOwner(place.Path, info, []int{0}, 0o022))
	}
	return nil
}

// checkParents refuses a path of whose directories another user than root could
// exchange one. A sticky directory keeps what is root's in it (inode(7)).
func checkParents(path string) error {
	resolved, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	for dir := resolved; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("config: %w", err)
		}
		forbidden := fs.FileMode(0o022)
		if dir != resolved && info.Mode()&fs.ModeSticky != 0 {
			forbidden = 0
		}
		if err := checkOwner(dir, info, []int{0}, forbidden); err != nil || dir == filepath.Dir(dir) {
			return err
		}
	}
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

// Hint says what a person can do about the error.
func (e *UntrustedError) Hint() string { return e.hint }

// checkOwner refuses a file of other owners, or that others may write.
func checkOwner(path string, info fs.FileInfo, owners []int, forbidden fs.FileMode) error {
	uid, ok := ownerOf(info)
	if !ok {
		return &UntrustedError{path, "its owner cannot be determined on this system", ""}
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
