package privatedirs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

const privatePrefix = "sandgate-private-"

// Dirs are directories of one sandbox on the host's disk, in place of the
// tmpfs mounts of a mount namespace.
type Dirs struct {
	Base    string
	lock    *os.File          // held while they are in use: see removeStale
	ByPlace map[string]string // by the scratch directory of the profile
	// Sockets is where a broker binds what has an abstract name. No program reaches it.
	Sockets string
	// Pools are where entries of /tmp and the like come from, for a broker.
	Pools []*Pool
}

// Places are where they may lie, the first that no tool can reach.
func Places() []string {
	places := []string{os.TempDir(), "/var/tmp", "/dev/shm"}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		places = append(places, dir)
	}
	return places
}

// New makes a directory for each scratch directory of p, for user or,
// if that is nil, for this process's own.
func New(p sandboxprofile.Profile, user *syscall.Credential) (*Dirs, error) {
	place, err := privatePlace(p)
	if err != nil {
		return nil, err
	}
	base, lock, err := makeLocked(place)
	if err != nil {
		return nil, fmt.Errorf("confine: private directories: %w", err)
	}
	x := &Dirs{Base: base, lock: lock, ByPlace: map[string]string{}, Sockets: filepath.Join(base, "sockets")}
	make := func(name, target string) {
		switch {
		case err != nil:
			return
		case target != "":
			err = os.Symlink(target, name)
		default:
			err = os.Mkdir(name, 0o700)
		}
		if err == nil && user != nil {
			err = os.Lchown(name, int(user.Uid), int(user.Gid))
		}
	}
	make(x.Sockets, "")
	for i, scratch := range p.Scratch {
		x.ByPlace[scratch] = filepath.Join(base, fmt.Sprintf("%d-%s", i, filepath.Base(scratch)))
		make(x.ByPlace[scratch], "")
	}
	x.listed(p, make)
	if err == nil && user != nil {
		err = os.Chown(base, int(user.Uid), int(user.Gid))
	}
	if err != nil {
		x.Remove()
		return nil, fmt.Errorf("confine: private directories: %w", err)
	}
	return x, nil
}

// listed makes links to what p grants below a scratch directory, where a mount namespace has
// mounts: programs find their settings and packages by HOME. A link gives no right. What
// it leads to is judged by its own name.
func (x *Dirs) listed(p sandboxprofile.Profile, make func(name, target string)) {
	made := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		name := x.nameOf(p, path)
		if _, err := os.Lstat(path); err != nil || name == "" || p.Paths[path] == 0 {
			continue // through a link to nothing no file would be made
		}
		var above []string
		for dir := filepath.Dir(name); filepath.Dir(dir) != x.Base && !made[dir]; dir = filepath.Dir(dir) {
			made[dir] = true
			above = append(above, dir)
		}
		for _, dir := range slices.Backward(above) {
			make(dir, "")
		}
		make(name, path)
	}
}

// nameOf is the name below a private directory for a path of the host's, or "": what lies below
// another grant is reached by that, and what lies in /tmp has its name.
func (x *Dirs) nameOf(p sandboxprofile.Profile, path string) string {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if own, ok := x.ByPlace[dir]; ok && dir != "/tmp" && dir != "/var/tmp" {
			return own + strings.TrimPrefix(path, dir)
		}
		if p.Paths[dir] != 0 {
			return ""
		}
	}
	return ""
}

// makeLocked makes a directory in a place, and holds its lock. Until it has that, the
// removeStale of a supervisor that is just starting takes it for what a dead one has left,
// and removes it: then another is made.
func makeLocked(place string) (dir string, lock *os.File, err error) {
	for range 100 {
		if dir, err = os.MkdirTemp(place, privatePrefix); err != nil {
			return "", nil, err
		}
		if lock, err = os.Open(dir); err == nil {
			if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
				_, err = os.Lstat(dir) // names are not made twice
			}
			if err == nil {
				return dir, lock, nil
			}
			lock.Close()
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			os.Remove(dir)
			return "", nil, err
		}
	}
	return "", nil, fmt.Errorf("it was removed each time before it was locked: %w", err)
}

// privatePlace is a directory in which p grants nothing: what another sandbox of
// the same profile could reach would not be private.
func privatePlace(p sandboxprofile.Profile) (string, error) {
	bare := p
	bare.Scratch = nil // as host paths these carry no rights
	for _, dir := range Places() {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && bare.Rights(real) == 0 && unix.Access(real, unix.W_OK) == nil {
			return real, nil
		}
	}
	return "", &confine.Unenforceable{
		Part:   "private directories",
		Reason: fmt.Sprintf("the profile grants something in each of %s", hostfs.SomeOf(Places())),
		Hint:   "set TMPDIR to a directory outside of sandbox.paths",
	}
}

// Used is how many bytes of disk the directories take.
func (x *Dirs) Used() int64 {
	n := diskUse(x.Base)
	for _, p := range x.Pools {
		n += p.used()
	}
	return n
}

// Remove takes them away, also directories that a tool has closed to itself.
func (x *Dirs) Remove() {
	for _, p := range x.Pools {
		p.remove()
	}
	removeTree(x.Base)
	if x.lock != nil {
		x.lock.Close()
	}
}

// RemoveStale removes the directories that killed supervisors have left in places: those of
// this user whose lock is not held. A record is believed only where pools are: TMPDIR may lie in
// a workspace, and a tool could write one there that names a person's files.
func RemoveStale(places []string) {
	for _, place := range places {
		pooled := slices.ContainsFunc(poolSizes, func(p poolSize) bool { return p.place == place })
		found, _ := filepath.Glob(filepath.Join(place, privatePrefix+"*"))
		for _, base := range found {
			f, err := os.OpenFile(base, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
			if err != nil {
				continue // another user's, or gone
			}
			var st unix.Stat_t
			mine := unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid()
			switch {
			case !mine || unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil:
			case pooled:
				removePool(broker.Pool{Place: place, Dir: base})
			default:
				removeTree(base)
			}
			f.Close()
		}
	}
}
