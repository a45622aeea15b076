package tripwire

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// bubblewrap makes the mount point that it does not find: an empty file with mode
// 0444, or an empty directory, and the directories above it (bubblewrap 0.8,
// setup_newroot). We mount over what exists, so that happens only when a name
// vanishes between the survey and the mount; but then the stub lies in the user's
// workspace, under a name that means something.
//
// Others make files there at the same time, and none of theirs may be removed. So a
// stub was born while bubblewrap ran, has the owner, the name and the mode that
// bubblewrap gives it, and is empty. bubblewrap gives directories a mode that nothing
// else uses (bwrap.StubPerms); a file of another process would still be open. What may
// be a stub and may be not is left, and named.

const (
	// maxSweeps bounds how often a tree that another process keeps renaming is walked.
	maxSweeps = 20
	// maxSweepDepth bounds the descriptors that are open at once.
	maxSweepDepth = 128
	// stubFileMode is the mode of an empty file that bubblewrap mounts over.
	stubFileMode = 0o444
	// A directory that vanished between bubblewrap's making sure of it and its mount has
	// one of two modes, as the mount point or as one above it. Others use them too.
	plainDirMode    = 0o755
	plainParentMode = 0o700
)

// A StubWatch can tell later whether, and where, bubblewrap may have made stubs.
type StubWatch struct {
	// No file from before has a later time than since. One from after may have an
	// earlier one, since files are stamped by a clock that moves in steps, but none
	// before ticked.
	ticked, since time.Time
	uid           uint32 // of bubblewrap
	// above are the directories between a granted tree and a mount. One that was
	// renamed, if only for a moment, has another change time.
	above map[string]changed
	names map[string]bool // last components of what is mounted over, and of above
}

type changed struct {
	inode uint64
	ctime unix.Timespec
}

// WatchStubs watches bubblewrap, which is about to run as uid and to make mounts.
func WatchStubs(p sandboxprofile.Profile, mounts []wire.Mount, uid uint32) StubWatch {
	w := StubWatch{ticked: fileClock(), since: time.Now(), uid: uid, above: map[string]changed{}, names: map[string]bool{}}
	for _, m := range mounts {
		if m.Around != "" {
			continue // in a directory of the sandbox's own
		}
		w.names[path.Base(m.Path)] = true
		root := hostfs.WritableAround(p, m.Path)
		for dir := path.Dir(m.Path); dir != root; dir = path.Dir(dir) {
			if _, ok := w.above[dir]; ok {
				break
			}
			w.above[dir], w.names[path.Base(dir)] = lookAt(dir), true
		}
	}
	return w
}

func lookAt(dir string) changed {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return changed{}
	}
	return changed{st.Ino, st.Ctim}
}

// Quiet reports whether each name above a cover has led to the same directory all
// the while, so that nothing was made anywhere else.
func (w StubWatch) Quiet() bool {
	for dir, was := range w.above {
		if lookAt(dir) != was {
			return false
		}
	}
	return true
}

// Remove removes what bubblewrap has made since it was watched, and gives the
// paths of what it may have made. A stub can only lie in a tree that the profile lets
// be written, since bubblewrap resolves names in the root that it builds.
func (w StubWatch) Remove(p sandboxprofile.Profile) (doubtful []string, err error) {
	var errs []error
	for _, root := range slices.Sorted(maps.Keys(p.Paths)) {
		if p.Paths[root]&sandboxprofile.Write == 0 {
			continue
		}
		s := sweeper{StubWatch: w, doubtful: map[string]bool{}}
		if err := s.tree(root); err != nil {
			errs = append(errs, fmt.Errorf("confine: remove empty mount points in %q: %w", root, err))
		}
		doubtful = slices.AppendSeq(doubtful, maps.Keys(s.doubtful))
	}
	slices.Sort(doubtful)
	return slices.Compact(doubtful), errors.Join(errs...)
}

// Orphans says that paths may be stubs, "" for none.
func Orphans(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return hostfs.SomeOf(paths) + " may be an empty mount point that bubblewrap made when a directory was moved: remove it if it is not yours"
}

// A sweeper removes stubs by descriptor: it works on what a name led to when it was
// opened, wherever that has been moved since.
type sweeper struct {
	StubWatch
	doubtful map[string]bool
	seen     map[uint64]bool // directories, by inode
	again    bool            // another pass is needed
}

// tree goes through a tree until a pass has met no stub, and no directory twice: one
// that is renamed meanwhile shows up under both names, and what it was exchanged with
// under none.
func (s *sweeper) tree(root string) error {
	for range maxSweeps {
		fd, err := unix.Open(root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil // no directory, or one that nothing can be made in
		}
		s.seen, s.again = map[uint64]bool{}, false
		if err := s.dir(fd, root, 0); err != nil || !s.again {
			return err
		}
	}
	return errors.New("it keeps changing; look for empty files with mode 0444, and for empty directories")
}

// dir goes through the directory fd, which it closes.
func (s *sweeper) dir(fd int, name string, depth int) error {
	d := os.NewFile(uintptr(fd), name)
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil // nothing could be made in it either
	}
	for _, e := range entries {
		full := name + "/" + e.Name()
		if e.IsDir() && depth < maxSweepDepth {
			if err := s.enter(fd, e.Name(), full, depth+1); err != nil {
				return err
			}
		}
		if !s.names[e.Name()] {
			continue
		}
		if err := s.sweep(fd, e.Name(), full); err != nil {
			return fmt.Errorf("%q: %w", full, err)
		}
	}
	return nil
}

func (s *sweeper) enter(at int, base, name string, depth int) error {
	fd, err := unix.Openat(at, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // gone, or a link now, or closed to us as it was to bubblewrap
	}
	id, err := hostfs.Identify(fd, "")
	if err != nil || s.seen[id.Ino] {
		s.again = true
		unix.Close(fd)
		return nil
	}
	s.seen[id.Ino] = true
	return s.dir(fd, name, depth)
}

// sweep removes name from a directory if it is a stub, and notes it if it may be one.
func (s *sweeper) sweep(dir int, name, full string) error {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Uid != s.uid || !stubMode(uint16(st.Mode)) {
		return nil // gone, or nothing that one opens just to have a look, as a device
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // gone
	}
	f := os.NewFile(uintptr(fd), full)
	defer f.Close()
	verdict, err := s.judge(f)
	if err != nil || verdict == notStub {
		return err
	}
	if verdict == maybeStub {
		s.doubtful[full] = true
		return nil
	}
	removed, err := removeExactly(dir, name, f)
	s.again = s.again || removed
	return err
}

type verdict uint8

const (
	notStub verdict = iota
	maybeStub
	isStub
)

// judge reports whether an open file is one that bubblewrap makes.
func (w StubWatch) judge(f *os.File) (verdict, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil {
		return notStub, err
	}
	if st.Uid != w.uid || !stubMode(st.Mode) || !empty(st, f) {
		return notStub, nil
	}
	born, known := st.Btime, st.Mask&unix.STATX_BTIME != 0
	if !known {
		born = st.Ctime // it was born then, or before
	}
	at := time.Unix(born.Sec, int64(born.Nsec))
	plain := st.Mode&^unix.S_ISGID == unix.S_IFDIR|plainDirMode || st.Mode&^unix.S_ISGID == unix.S_IFDIR|plainParentMode
	switch {
	case at.Before(w.ticked):
		return notStub, nil
	case plain, !known || !at.After(w.since):
		return maybeStub, nil
	case st.Mode&unix.S_IFMT == unix.S_IFREG && !onlyOurs(f):
		return maybeStub, nil
	}
	return isStub, nil
}

// stubMode reports whether a stub can have mode.
func stubMode(mode uint16) bool {
	switch mode &^ unix.S_ISGID { // which a directory may inherit
	case unix.S_IFREG | stubFileMode, unix.S_IFDIR | uint16(bwrap.StubPerms), unix.S_IFDIR | plainDirMode, unix.S_IFDIR | plainParentMode:
		return true
	}
	return false
}

// empty reports whether nothing is in f, and it has no name but one.
func empty(st unix.Statx_t, f *os.File) bool {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return st.Size == 0 && st.Nlink == 1
	}
	names, err := f.Readdirnames(1)
	return len(names) == 0 && errors.Is(err, io.EOF)
}

// onlyOurs reports whether no other process has the file open: a program that made it
// would be about to write. The kernel grants a write lease only then (fcntl(2),
// F_SETLEASE).
func onlyOurs(f *os.File) bool {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}

// removeExactly removes name from a directory if it is f and still empty. Under its
// name it could be exchanged between the check and the removal, so it first gets
// another name that no one knows.
func removeExactly(dir int, name string, f *os.File) (removed bool, err error) {
	aside := ".sandgate-" + rand.Text()
	if err := unix.Renameat2(dir, name, dir, aside, unix.RENAME_NOREPLACE); err != nil {
		return false, ignoring(err, unix.ENOENT)
	}
	want, err := hostfs.Identify(int(f.Fd()), "")
	got, gotErr := hostfs.Identify(dir, aside)
	if err = cmp.Or(err, gotErr); err == nil && got == want {
		flags := 0
		if info, statErr := f.Stat(); statErr == nil && info.Mode().Type() == fs.ModeDir {
			flags = unix.AT_REMOVEDIR
		}
		if err = unix.Unlinkat(dir, aside, flags); err == nil {
			return true, nil
		}
		err = ignoring(err, unix.ENOTEMPTY)
	}
	return false, errors.Join(err, unix.Renameat2(dir, aside, dir, name, unix.RENAME_NOREPLACE))
}

func ignoring(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

// fileClock is the time that the kernel gives to files, which runs a little behind
// (CLOCK_REALTIME_COARSE).
func fileClock() time.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return time.Now()
	}
	return time.Unix(ts.Unix())
}
