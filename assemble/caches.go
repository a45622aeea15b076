package assemble

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// This file keeps the caches of compilers and package managers between the calls of a
// workspace: a directory of its own in the state directory, which no program outside uses.
// See docs/decisions/0098-caches-of-a-workspace.md for who may have it.
//
//	cache/ID/workspace   the path of the workspace
//	cache/ID/lock        held shared by each sandgate that works there; its time is the last use
//	cache/ID/files/NAME  one cache: all that a sandbox sees of it

const (
	// MaxCaches bounds the caches of all workspaces together, in bytes. What was used
	// longest ago goes first.
	MaxCaches = 10 << 30
	// cachesLookedAt is how often their size is looked at.
	cachesLookedAt = time.Hour
)

// CachesDir is where the caches of all workspaces lie, by its real path.
func CachesDir() (string, error) {
	dir, err := statedir.Path("cache")
	if err != nil {
		return "", internalError(err)
	}
	// Profiles have real paths. What is not there yet has no links in it.
	for at, rest := filepath.Dir(dir), filepath.Base(dir); at != "/"; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(real, rest), nil
		}
	}
	return dir, nil
}

// CacheOf is the directory of the caches of the workspace of cfg. It is "" if the workspace has
// none: programs write nothing, the state directory lies in the workspace, or programs run as
// another user.
func CacheOf(cfg *config.Config) string {
	dir, err := CachesDir()
	workspace := cacheWorkspace(cfg.Vouched()) // a file that nobody trusts chooses no other
	if _, other := foreignOwner(WritableRoots(cfg)); other {
		return "" // the state directory is root's, and programs are not
	}
	if err != nil || workspace == "" || cacheWorkspace(cfg) == "" ||
		slices.ContainsFunc(cfg.Sandbox.Paths, func(p config.Path) bool {
			return sandboxprofile.Contains(p.Root, dir) || sandboxprofile.Contains(dir, p.Root)
		}) {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{workspace}, elsewhere(cfg)...), "\x00")))
	return filepath.Join(dir, hex.EncodeToString(sum[:8]), "files")
}

// elsewhere are the other directories that programs may write: what a call leaves in a cache
// must not run where it could change more.
func elsewhere(cfg *config.Config) (roots []string) {
	vouched := cfg.Vouched()
	known := []string{cacheWorkspace(vouched)}
	for _, root := range append(WritableRoots(vouched), WritableRoots(cfg)...) {
		if !slices.ContainsFunc(known, func(r string) bool { return sandboxprofile.Contains(r, root) }) {
			known = append(known, root)
		}
	}
	return known[1:]
}

// cacheWorkspace is the writable directory that programs start in.
func cacheWorkspace(cfg *config.Config) (workspace string) {
	start := cfg.StartDir()
	for _, p := range cfg.Sandbox.Paths {
		if sandboxprofile.Contains(p.Root, start) && len(p.Root) > len(workspace) && p.SeenByPrograms() {
			workspace = p.Root
			if p.Mode != config.ReadWrite {
				workspace = ""
			}
		}
	}
	return workspace
}

// openCache makes the cache of the workspace, and holds it until the supervisor ends. A
// missing cache costs time, and is reported.
func openCache(cfg *config.Config, r *Running) error {
	dir := CacheOf(cfg)
	if dir == "" || !slices.Contains(cfg.Sandbox.Presets, config.DetectPreset) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the cache of this workspace: %w", err)
	}
	dir = filepath.Dir(dir)
	if err := PruneCaches(filepath.Dir(dir), MaxCaches, cachesLookedAt); err != nil {
		return err
	}
	lock, err := LockCache(dir, syscall.LOCK_SH)
	if err != nil {
		return err
	}
	r.close = append(r.close, lock.Close)
	now := time.Now()
	err = os.Chtimes(lock.Name(), now, now)
	if _, missing := os.Lstat(filepath.Join(dir, "workspace")); err == nil && missing != nil {
		err = atomicfile.WriteFile(filepath.Join(dir, "workspace"), []byte(cacheWorkspace(cfg)), 0o600)
	}
	return err
}

// LockCache locks the cache in dir against being emptied (LOCK_SH) or used (LOCK_EX). It
// does not wait: who empties it may take minutes.
func LockCache(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the cache %s: %w", dir, err)
	}
	return f, nil
}

// WithCache is d with the cache of the workspace: for the programs of shell, run and
// background tasks, which have one profile. Programs whose profile is another one, such as
// those of custom tools and MCP servers, have none of it, and neither have those that reach
// beyond the workspace: what a call leaves there would run with what they have.
func (d Derived) WithCache(cfg *config.Config) Derived {
	dir := CacheOf(cfg)
	program := sandboxprofile.Action{Kind: sandboxprofile.Exec}
	if dir == "" || len(d.Found.Caches) == 0 || sandboxprofile.ClassOf(d.Programs, program) != sandboxprofile.ClassWorkspace {
		return d
	}
	if v := cfg.Vouched(); v != cfg { // a file that nobody trusts takes no reach away to have a cache
		above, err := Derive(v, d.unseen, "")
		if err != nil || sandboxprofile.ClassOf(above.Programs, program) != sandboxprofile.ClassWorkspace {
			return d
		}
	}
	operator, err := OperatorProfile(cfg)
	if err != nil || operator.Rights(dir)&sandboxprofile.Write == 0 {
		return d
	}
	d.cache, d.cached = dir, map[string]string{}
	p := d.Programs
	p.Paths = maps.Clone(p.Paths)
	p.Paths[dir] = sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute
	p.Env.Names = slices.Clone(p.Env.Names)
	for _, c := range d.Found.Caches {
		own := filepath.Join(dir, c.Name)
		reads := d.Needs.Network.Mode == sandboxprofile.NetworkNone && !Filled(own) && Filled(c.Outside)
		if c.Beside {
			reads = !Filled(c.Outside)
		}
		if c.Outside != "" && reads || d.named(cfg, c.Variable) {
			continue
		}
		had := ""
		if slices.Contains(d.Passed, c.Variable) {
			had = os.Getenv(c.Variable)
		}
		if slices.Contains(javaOptions, c.Variable) && d.Needs.Network.Mode == sandboxprofile.NetworkProxied {
			had += " " + javaProxy()
		}
		d.cached[c.Variable] = c.Value(own, had)
		p.Env.Names = append(p.Env.Names, c.Variable)
	}
	d.Programs = p.Normalize()
	return d
}

// named reports whether a person has said what a variable is to be in a sandbox.
func (d Derived) named(cfg *config.Config, name string) bool {
	if _, ok := cfg.Sandbox.Env.Set[name]; ok {
		return true
	}
	shipped := slices.ContainsFunc(config.Variables(), func(v config.Variable) bool { return v.Name == name })
	return !shipped && slices.Contains(d.Passed, name) && os.Getenv(name) != ""
}

// Filled reports whether something lies in a directory. A call may have put anything else
// there: a FIFO, which open(2) would wait for, or a link.
func Filled(dir string) bool {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	list, _ := f.Readdirnames(1)
	return len(list) > 0
}

// cachePaths are the paths of those tools whose programs have the cache. It is as easily
// changed as the workspace: where each change there is asked about, a program that ran
// without a prompt has it read-only.
func (d Derived) cachePaths(p tools.Paths) tools.Paths {
	if d.cache == "" {
		return p
	}
	rule := tools.PathRule{Name: "cache", Root: d.cache, Write: true, Cache: true}
	rule.WriteApproval = slices.ContainsFunc(p.Rules, func(r tools.PathRule) bool { return r.WriteApproval })
	p.Rules = append(slices.Clone(p.Rules), rule)
	if p.Above != nil {
		above := d.cachePaths(*p.Above)
		p.Above = &above
	}
	return p
}

// cacheEnv is the environment of the programs that have the cache.
func (d Derived) cacheEnv(env []string) []string {
	return tools.WithEnv(env, d.cached)
}

// A KeptCache is the cache of one workspace.
type KeptCache struct {
	Workspace string    `json:"workspace"`
	Dir       string    `json:"dir"`
	Used      time.Time `json:"used"`
	Size      int64     `json:"size"`
	// Unread says that a part cannot be looked at. It counts for more than there may be of all.
	Unread bool `json:"unread,omitempty"`
	parts  []cachePart
}

type cachePart struct {
	dir  string
	size int64
}

// KeptCaches are those of all workspaces below dir, used longest ago first.
func KeptCaches(dir string) ([]KeptCache, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []KeptCache
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		c := KeptCache{Dir: filepath.Join(dir, e.Name())}
		if b, err := os.ReadFile(filepath.Join(c.Dir, "workspace")); err == nil {
			c.Workspace = string(b)
		}
		if st, err := os.Lstat(filepath.Join(c.Dir, "lock")); err == nil {
			c.Used = st.ModTime()
		}
		parts, _ := os.ReadDir(filepath.Join(c.Dir, "files")) // none is nothing to count
		for _, p := range parts {
			part := cachePart{dir: filepath.Join(c.Dir, "files", p.Name())}
			if part.size, err = treeSize(part.dir); err != nil {
				c.Unread, part.size = true, MaxCaches+1
			}
			c.Size += part.size
			c.parts = append(c.parts, part)
		}
		slices.SortFunc(c.parts, func(a, b cachePart) int { return int(min(max(b.size-a.size, -1), 1)) })
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b KeptCache) int { return a.Used.Compare(b.Used) })
	return list, nil
}

// treeSize is how much of the disk the files of a tree take. An error is a part that cannot
// be looked at: a call has hidden it.
func treeSize(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += onDisk(info)
		}
		return nil
	})
	if n < 0 {
		return 0, errors.New("sizes without bound")
	}
	return n, err
}

// Amount is its size for people.
func (c KeptCache) Amount() string {
	if c.Unread {
		return "unknown size"
	}
	return fmt.Sprintf("%d MiB", c.Size>>20)
}

// onDisk is the space that a file takes on the disk: a sparse file takes less than its
// size.
func onDisk(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// PruneCaches empties the least recently used caches until all together are at most as large
// as most. A part of one goes as a whole: half a cache of modules would be built from. What a
// sandgate works with stays. A cache that is too large by itself goes, and costs no other
// workspace anything. It looks once in a while.
func PruneCaches(dir string, most int64, often time.Duration) error {
	stamp := filepath.Join(dir, "looked")
	if st, err := os.Stat(stamp); err == nil && time.Since(st.ModTime()) < often && time.Since(st.ModTime()) >= 0 {
		return nil
	}
	list, err := KeptCaches(dir)
	if err != nil {
		return err
	}
	var size int64
	for _, c := range list {
		if c.Size <= most {
			size += c.Size
		}
	}
	for _, c := range list {
		if c.Size > most {
			_ = c.Use(func() error { return RemoveTree(c.Dir, "files") }) // one that is used stays, until later
			continue
		}
		if size <= most {
			continue
		}
		_ = c.Use(func() error { // one that is used stays
			for _, p := range c.parts { // the largest first
				if size > most && RemoveTree(filepath.Join(c.Dir, "files"), filepath.Base(p.dir)) == nil {
					size -= p.size
				}
			}
			return nil
		})
	}
	return atomicfile.WriteFile(stamp, nil, 0o600)
}

// Use does something to a cache that no sandgate works with.
func (c KeptCache) Use(do func() error) error {
	lock, err := LockCache(c.Dir, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	return do()
}

// RemoveTree removes a tree that calls have filled. Go's modules are read-only directories.
// It follows no link.
func RemoveTree(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = fs.WalkDir(root.FS(), name, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = root.Chmod(path, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}
