package sandboxinit

import (
	"bytes"
	"io/fs"
	"math"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cleanliness is what the places that calls share looked like before the first.
type cleanliness struct {
	dirs   []scratch
	tables []int // descriptors of the lists of System V objects
}

// A scratch is a directory that no call may find another's files in.
type scratch struct {
	path string
	// whole is set for a tmpfs of its own, which counts its files itself.
	whole bool
	files int
	links map[string]uint64 // inodes of symbolic links, which a tool could exchange
}

// inspect looks at directories that no call may find another's files in.
func inspect(dirs []string) cleanliness {
	var c cleanliness
	for _, dir := range append([]string{"/dev/shm"}, dirs...) {
		c.dirs = append(c.dirs, newScratch(dir))
	}
	for _, table := range []string{"/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"} {
		fd, err := unix.Open(table, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			continue // a kernel without System V IPC
		}
		if err != nil {
			fd = -1
		}
		c.tables = append(c.tables, fd)
	}
	return c
}

// spoiled looks for what outlives processes and is no file of a writable path:
// System V objects of the ipc namespace (sysvipc(7)), POSIX shared memory and
// semaphores (shm_overview(7)), files in a directory that is not shared. What
// cannot be looked at counts as spoiled.
func (c cleanliness) spoiled() bool {
	for _, table := range c.tables {
		if lines(table) > 1 { // the first is a heading
			return true
		}
	}
	for _, s := range c.dirs {
		if s.changed() {
			return true
		}
	}
	return false
}

// lines counts the lines of a small file, from its start. An error is many.
func lines(fd int) int {
	var buf [1024]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return math.MaxInt
	}
	return bytes.Count(buf[:n], []byte{'\n'})
}

func newScratch(dir string) scratch {
	s := scratch{path: dir, links: map[string]uint64{}}
	var here, above unix.Stat_t
	var on unix.Statfs_t
	s.whole = unix.Lstat(dir, &here) == nil && unix.Lstat(path.Dir(dir), &above) == nil && here.Dev != above.Dev &&
		unix.Statfs(dir, &on) == nil && on.Type == unix.TMPFS_MAGIC && on.Files > 0
	files := s.walk(func(path string, st unix.Stat_t) {
		if st.Mode&unix.S_IFMT == unix.S_IFLNK {
			s.links[path] = st.Ino
		}
	})
	if s.files = files; s.whole && files != math.MaxInt {
		s.files = int(on.Files - on.Ffree)
	}
	return s
}

// changed compares the number of files. A tool cannot take away what was there at the
// start, mount points and the directories above them, so an equal number is the same
// files, once the links are.
func (s scratch) changed() bool {
	for path, ino := range s.links {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil || st.Ino != ino || st.Mode&unix.S_IFMT != unix.S_IFLNK {
			return true
		}
	}
	return s.files == math.MaxInt || s.count() != s.files
}

// count is the number of files now. A tmpfs counts every name of one.
func (s scratch) count() int {
	if !s.whole {
		return s.walk(func(string, unix.Stat_t) {})
	}
	var on unix.Statfs_t
	if err := unix.Statfs(s.path, &on); err != nil {
		return math.MaxInt
	}
	return int(on.Files - on.Ffree)
}

// walk counts the files of the directory tree, without those of other file systems:
// what is mounted below is the host's.
func (s scratch) walk(see func(path string, st unix.Stat_t)) int {
	var top unix.Stat_t
	if err := unix.Lstat(s.path, &top); err != nil {
		return math.MaxInt
	}
	n := 0
	err := filepath.WalkDir(s.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		n++
		see(path, st)
		if d.IsDir() && st.Dev != top.Dev {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return math.MaxInt
	}
	return n
}
