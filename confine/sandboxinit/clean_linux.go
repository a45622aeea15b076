package sandboxinit

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
)

// cleanliness is the state of the places that calls share, before the first call.
type cleanliness struct {
	dirs    []scratch
	tables  []int            // descriptors of the lists of System V objects
	sockets int              // of the figures of sockets, if the network is the sandbox's own; otherwise 0
	kept    map[string]entry // directories that calls share, and where terminals are made
	process posture          // ours
}

// A posture is the state that process 1 runs with, which decides what every program after it
// gets and whether limits are kept. No program can change it; if one could, its warm sandbox
// would serve no other.
type posture struct {
	limits   [unix.RLIMIT_RTTIME + 1]unix.Rlimit
	nice     int
	schedule unix.SchedAttr
	on       unix.CPUSet
	dir      string
	err      error
}

func ownPosture() (p posture) {
	var errs [5]error
	for resource := range p.limits {
		errs[0] = errors.Join(errs[0], unix.Getrlimit(resource, &p.limits[resource]))
	}
	p.nice, errs[1] = unix.Getpriority(unix.PRIO_PROCESS, 0)
	schedule, err := unix.SchedGetAttr(0, 0)
	if errs[2] = err; err == nil {
		p.schedule = *schedule
	}
	errs[3] = unix.SchedGetaffinity(0, &p.on)
	p.dir, errs[4] = os.Getwd()
	p.err = errors.Join(errs[:]...)
	return p
}

// is reports whether two postures are the same, and known.
func (p posture) is(q posture) bool { return p.err == nil && q.err == nil && p == q }

// A scratch is a directory that no call may find another's files in.
type scratch struct {
	path string
	// whole is set for a tmpfs of its own, which counts its files itself.
	whole bool
	files int
	made  map[string]entry // links, which a tool could exchange, and directories, which it could close
}

// An entry says what a name stands for, and who may do what with it. A directory's
// default access control list, which is among the attributes, gives new files their
// modes.
type entry struct {
	ino        uint64
	mode       uint32
	uid, gid   uint32
	attributes string // their names
}

func entryOf(path string, st unix.Stat_t) entry {
	var names [256]byte
	n, err := unix.Llistxattr(path, names[:])
	if err != nil {
		n = copy(names[:], err.Error()) // also for more names than that, which none has at first
	}
	return entry{st.Ino, st.Mode, st.Uid, st.Gid, string(names[:n])}
}

func (e entry) at(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && entryOf(path, st) == e
}

// inspect looks at directories that no call may find another's files in, and at those
// in memory that calls share. ownNetwork says that the network is the sandbox's own.
func inspect(fleeting []wire.Pool, tmpfs []string, ownNetwork bool) cleanliness {
	c := cleanliness{process: ownPosture(), kept: map[string]entry{}}
	for _, name := range append([]string{"/dev/pts", "/dev/pts/ptmx"}, tmpfs...) { // without these no call gets a terminal
		var st unix.Stat_t
		if unix.Lstat(name, &st) == nil { // what is not there cannot be made
			c.kept[name] = entryOf(name, st)
		}
	}
	c.dirs = []scratch{newScratch("/dev/shm")}
	for _, home := range fleeting {
		c.dirs = append(c.dirs, newScratch(home.Dir))
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
	if ownNetwork {
		fd, err := unix.Open("/proc/self/net/sockstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			c.sockets = fd
		case err != unix.ENOENT: // a kernel without IP
			c.sockets = -1
		}
	}
	return c
}

// spoiled looks for things that outlive processes and are not files of a writable path:
// System V objects of the ipc namespace (sysvipc(7)), POSIX shared memory and
// semaphores (shm_overview(7)), files in a directory that is not shared, modes of those
// that are, connections that have ended and keep their ports (TIME-WAIT, tcp(7)). And for what
// process 1 has become. What cannot be looked at counts as
// spoiled.
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
	for path, e := range c.kept {
		if !e.at(path) {
			return true
		}
	}
	if c.sockets != 0 && !noneWait(c.sockets) {
		return true
	}
	return !c.process.is(ownPosture())
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

// noneWait reports whether the figures of sockets have no TCP connection in TIME-WAIT. These are
// one line for TCP, which has "tw N".
func noneWait(fd int) bool {
	var buf [1024]byte
	n, err := unix.Pread(fd, buf[:], 0)
	return err == nil && bytes.Contains(buf[:n], []byte(" tw 0 "))
}

func newScratch(dir string) scratch {
	s := scratch{path: dir, made: map[string]entry{}}
	var here, above unix.Stat_t
	var on unix.Statfs_t
	s.whole = unix.Lstat(dir, &here) == nil && unix.Lstat(path.Dir(dir), &above) == nil && here.Dev != above.Dev &&
		unix.Statfs(dir, &on) == nil && on.Type == unix.TMPFS_MAGIC && on.Files > 0
	files := s.walk(func(path string, st unix.Stat_t) {
		if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFLNK || kind == unix.S_IFDIR {
			s.made[path] = entryOf(path, st)
		}
	})
	if s.files = files; s.whole && files != math.MaxInt {
		s.files = int(on.Files - on.Ffree)
	}
	return s
}

// changed compares the number of files. A tool cannot take away what was there at the
// start, mount points and the directories above them, so an equal number is the same
// files, once the links and directories are.
func (s scratch) changed() bool {
	for path, e := range s.made {
		if !e.at(path) {
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
// whatever is mounted below belongs to the host.
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
		if st.Dev == top.Dev {
			see(path, st)
		}
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
