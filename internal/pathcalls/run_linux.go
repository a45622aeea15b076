package pathcalls

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Sequence is a list of calls to make. The same one gives the same calls in every tree
// of the same kind, as far as the kernel gives the same answers.
type Sequence struct {
	Root    string // an empty directory; the calls stay below the directory that is twelve above it
	Seed    uint64
	Calls   int
	Threads int  // more than one work side by side, each in a directory of its own
	FIFOs   bool // there are FIFOs too, and nothing is opened that would wait
}

// Args are the words that Parse reads.
func (s Sequence) Args() []string {
	return []string{s.Root, strconv.FormatUint(s.Seed, 10), strconv.Itoa(s.Calls), strconv.Itoa(s.Threads), strconv.FormatBool(s.FIFOs)}
}

// Parse reads what Args gives.
func Parse(args []string) (s Sequence, err error) {
	if len(args) != 5 {
		return s, errors.New("pathcalls: want five words")
	}
	errs := make([]error, 4)
	s.Root = args[0]
	s.Seed, errs[0] = strconv.ParseUint(args[1], 10, 64)
	s.Calls, errs[1] = strconv.Atoi(args[2])
	s.Threads, errs[2] = strconv.Atoi(args[3])
	s.FIFOs, errs[3] = strconv.ParseBool(args[4])
	return s, errors.Join(errs...)
}

// Run does it, and writes a line for each call to w.
func (s Sequence) Run(w io.Writer) error {
	if err := unix.Chdir(s.Root); err != nil {
		return err
	}
	unix.Umask(0o022)
	logs := make([]strings.Builder, s.Threads)
	errs := make([]error, s.Threads)
	var all sync.WaitGroup
	for i := range s.Threads {
		all.Go(func() {
			runtime.LockOSThread()
			root := s.Root
			if s.Threads > 1 {
				root += "/thread" + strconv.Itoa(i) + "/1/2/3/4/root" // nobody leaves as many directories by ".."
				if errs[i] = os.MkdirAll(root, 0o755); errs[i] != nil {
					return
				}
			}
			r := &runner{rng: rand.New(rand.NewPCG(s.Seed, uint64(i))), root: root, fifos: s.FIFOs, alone: s.Threads == 1, out: bufio.NewWriter(&logs[i])}
			errs[i] = r.run(s.Calls / s.Threads)
		})
	}
	all.Wait()
	for i := range logs {
		if _, err := io.WriteString(w, logs[i].String()); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

type runner struct {
	rng   *rand.Rand
	root  string
	fifos bool
	alone bool // the working directory and the umask are nobody else's
	out   *bufio.Writer

	fds  [6]int // descriptors that calls have given, -1 for none
	edge []byte // a page with nothing behind it
	said string // the call, for the log
}

func (r *runner) run(calls int) error {
	page := os.Getpagesize()
	both, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	if err := unix.Mprotect(both[page:], unix.PROT_NONE); err != nil {
		return err
	}
	r.edge = both[:page]
	for i := range r.fds {
		r.fds[i] = -1
	}
	for i := range calls {
		r.said = ""
		answer := r.one()
		fmt.Fprintf(r.out, "%d %s = %s\n", i, r.said, answer)
		if i%512 == 511 {
			r.sweep()
		}
	}
	return r.out.Flush()
}

// sweep keeps the tree small, so that calls meet each other.
func (r *runner) sweep() {
	for i, fd := range r.fds {
		if fd >= 0 {
			unix.Close(fd)
			r.fds[i] = -1
		}
	}
	if r.alone {
		unix.Umask(0o022)
		_ = unix.Chdir(r.root)
	}
	entries, _ := os.ReadDir(r.root)
	for _, e := range entries {
		name := r.root + "/" + e.Name()
		if e.Name()[0] == '.' { // what the test has put there
			continue
		}
		if r.rng.IntN(2) == 0 {
			_ = os.Chmod(name, 0o755)
			_ = os.RemoveAll(name)
		}
	}
}

func (r *runner) say(format string, args ...any) { r.said += fmt.Sprintf(format, args...) }

func pick[T any](r *runner, list ...T) T { return list[r.rng.IntN(len(list))] }

func (r *runner) chance(of int) bool { return r.rng.IntN(of) == 0 }

func (r *runner) name() string {
	switch r.rng.IntN(40) {
	case 0:
		return "."
	case 1, 2:
		return ".."
	case 3:
		return strings.Repeat("l", 255)
	case 4:
		return strings.Repeat("m", 256)
	case 5:
		return ""
	}
	return pick(r, "a", "b", "c", "d", "e", "f")
}

// path gives a path. what it begins with is chosen by dirfd.
func (r *runner) path() string {
	switch r.rng.IntN(60) {
	case 0:
		return ""
	case 1, 2: // the root is the machine's own, and no two machines' are alike
		return "./"
	case 3, 4:
		return r.throughProc()
	case 5: // as long as may be, and a byte more or less
		p := pick(r, "a", "b", "a/b")
		for len(p)+2 < 4095 {
			p = "./" + p
		}
		return p + strings.Repeat("/", pick(r, 4094, 4095, 4096)-len(p))
	case 6:
		return "."
	}
	parts := make([]string, 1+r.rng.IntN(3))
	for i := range parts {
		parts[i] = r.name()
	}
	p := strings.TrimLeft(strings.Join(parts, "/"), "/")
	if p == "" {
		p = "a"
	}
	if r.chance(12) {
		p += pick(r, "/", "//", "/.", "/..", "/./")
	}
	if !r.alone || r.chance(3) {
		p = "ROOT/" + p
	}
	return p
}

func (r *runner) throughProc() string {
	i := r.rng.IntN(len(r.fds))
	return fmt.Sprintf("%s/fd/FD%d", pick(r, "/proc/self", "/proc/thread-self", "/dev"), i) + pick(r, "", "", "/a", "/")
}

// at says where a path is, puts it into memory, and gives its address.
func (r *runner) at(p string) unsafe.Pointer {
	if len(p) > 80 {
		r.say(" %q...%d", p[:20], len(p))
	} else {
		r.say(" %q", p)
	}
	p = strings.Replace(p, "ROOT", r.root, 1)
	if dir, rest, found := strings.Cut(p, "/FD"); found {
		p = dir + "/" + strconv.Itoa(r.fds[rest[0]-'0']) + rest[1:]
	}
	switch r.rng.IntN(50) {
	case 0:
		r.say(" (null)")
		return nil
	case 1: // its NUL lies behind the last byte that can be read
		r.say(" (cut off)")
		p = p[max(0, len(p)-len(r.edge)):]
		copy(r.edge[len(r.edge)-len(p):], p)
		if len(p) == 0 {
			return unsafe.Pointer(uintptr(unsafe.Pointer(&r.edge[0])) + uintptr(len(r.edge)))
		}
		return unsafe.Pointer(&r.edge[len(r.edge)-len(p)])
	case 2: // it ends with the page
		r.say(" (at the edge)")
		if len(p) < len(r.edge) {
			at := len(r.edge) - len(p) - 1
			copy(r.edge[at:], p)
			r.edge[len(r.edge)-1] = 0
			return unsafe.Pointer(&r.edge[at])
		}
	}
	b := append([]byte(p), 0)
	return unsafe.Pointer(&b[0])
}

// dirfd gives a directory for a path to start at.
func (r *runner) dirfd() uintptr {
	if r.alone && !r.chance(3) {
		return r.cwd()
	}
	switch r.rng.IntN(12) {
	case 0:
		r.say(" fd -1")
		return ^uintptr(0)
	case 1:
		r.say(" fd 9999")
		return 9999
	}
	return r.fd()
}

func (r *runner) cwd() uintptr {
	at := unix.AT_FDCWD
	return uintptr(at)
}

func (r *runner) fd() uintptr {
	i := r.rng.IntN(len(r.fds))
	r.say(" fd %d", i)
	return uintptr(r.fds[i]) // -1 is one too
}

// mode is without the right of others to write, which no program of a sandbox gives.
func (r *runner) mode() uintptr {
	m := pick[uintptr](r, 0, 0o644, 0o755, 0o600, 0o700, 0o775, 0o1775, 0o444, 0o555, 0o664, 0o070, 0o1000)
	r.say(" mode %o", m)
	return m
}

func (r *runner) id(own int) uintptr {
	id := pick(r, -1, own, own, 0, own+1)
	r.say(" id %d", id-own)
	return uintptr(uint32(id))
}

func (r *runner) flag(all ...int) uintptr {
	f := 0
	for _, x := range all {
		if r.chance(3) {
			f |= x
		}
	}
	r.say(" flags %#x", f)
	return uintptr(f)
}

func (r *runner) openFlags() uintptr {
	f := pick(r, unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR, unix.O_ACCMODE)
	if r.chance(2) {
		f |= unix.O_CREAT
	}
	for _, x := range []struct{ flag, of int }{
		{unix.O_EXCL, 5}, {unix.O_TRUNC, 4}, {unix.O_APPEND, 5}, {unix.O_NONBLOCK, 6}, {unix.O_DIRECTORY, 10}, {unix.O_NOFOLLOW, 5},
		{unix.O_CLOEXEC, 2}, {unix.O_NOATIME, 12}, {unix.O_SYNC, 12}, {unix.O_DSYNC, 12}, {unix.O_PATH, 12}, {unix.O_TMPFILE, 10},
		{unix.O_DIRECT, 20}, {unix.O_ASYNC, 20}, {unix.O_NOCTTY, 10}, {unix.O_LARGEFILE, 10}, {1 << 26, 30},
	} {
		if r.chance(x.of) {
			f |= x.flag
		}
	}
	if r.fifos {
		f |= unix.O_NONBLOCK
	}
	r.say(" flags %#x", f)
	return uintptr(f)
}

// keep takes a descriptor, and says what it is of.
func (r *runner) keep(fd uintptr, errno unix.Errno) string {
	if errno != 0 {
		return name(errno)
	}
	i := r.rng.IntN(len(r.fds))
	if old := r.fds[i]; old >= 0 {
		unix.Close(old)
	}
	r.fds[i] = int(fd)
	flags, _, _ := unix.Syscall(unix.SYS_FCNTL, fd, unix.F_GETFL, 0)
	cloexec, _, _ := unix.Syscall(unix.SYS_FCNTL, fd, unix.F_GETFD, 0)
	return fmt.Sprintf("slot %d %#x %d %s", i, flags&^unix.O_NOFOLLOW, cloexec, statOf(int(fd), "", unix.AT_EMPTY_PATH))
}

func name(errno unix.Errno) string {
	if errno == 0 {
		return "ok"
	}
	if n := unix.ErrnoName(errno); n != "" {
		return n
	}
	return strconv.Itoa(int(errno))
}

// statOf says what can be compared of a file: not its inode, nor the size of a directory.
func statOf(dir int, path string, flags int) string {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, path, &st, flags); err != nil {
		return err.Error()
	}
	return Describe(&st)
}

// Describe gives the comparable properties of a file: not its inode, the size of a
// directory, or a time that was not set on purpose.
func Describe(st *unix.Stat_t) string {
	size, links := st.Size, uint64(st.Nlink)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		size = 0
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR {
		links = 0
	}
	times := ""
	for i, t := range []unix.Timespec{st.Mtim, st.Atim} {
		if t.Sec < 1e9 && (i == 0 || st.Mode&unix.S_IFMT == unix.S_IFREG) { // whoever looks at the others touches them
			times += fmt.Sprintf(" %d.%d", t.Sec, t.Nsec)
		}
	}
	return fmt.Sprintf("%o %d %d%s", st.Mode, size, links, times)
}

func call(nr uintptr, args ...any) unix.Errno {
	_, errno := value(nr, args...)
	return errno
}

// value makes a call. Pointers are kept until it has returned.
func value(nr uintptr, args ...any) (uintptr, unix.Errno) {
	var a [6]uintptr
	for i, x := range args {
		switch x := x.(type) {
		case unsafe.Pointer:
			a[i] = uintptr(x)
		case uintptr:
			a[i] = x
		case int:
			a[i] = uintptr(x)
		}
	}
	v, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	runtime.KeepAlive(args)
	return v, errno
}

func (r *runner) one() string {
	e := func(nr uintptr, args ...any) string { return name(call(nr, args...)) }
	steps := []func() string{
		func() string {
			r.say("openat")
			return r.keep(value(unix.SYS_OPENAT, r.dirfd(), r.at(r.path()), r.openFlags(), r.mode()))
		},
		func() string {
			r.say("openat")
			return r.keep(value(unix.SYS_OPENAT, r.dirfd(), r.at(r.path()), r.openFlags(), r.mode()))
		},
		func() string {
			r.say("openat")
			return r.keep(value(unix.SYS_OPENAT, r.dirfd(), r.at(r.path()), r.openFlags(), r.mode()))
		},
		func() string { r.say("mkdirat"); return e(unix.SYS_MKDIRAT, r.dirfd(), r.at(r.path()), r.mode()) },
		func() string { r.say("mkdirat"); return e(unix.SYS_MKDIRAT, r.dirfd(), r.at(r.path()), uintptr(0o755)) },
		func() string {
			r.say("mknodat")
			return e(unix.SYS_MKNODAT, r.dirfd(), r.at(r.path()), r.kind(), uintptr(0x103))
		},
		func() string {
			r.say("unlinkat")
			return e(unix.SYS_UNLINKAT, r.dirfd(), r.at(r.path()), r.flag(unix.AT_REMOVEDIR))
		},
		func() string {
			r.say("unlinkat")
			return e(unix.SYS_UNLINKAT, r.dirfd(), r.at(r.path()), r.flag(unix.AT_REMOVEDIR, 0x4000))
		},
		func() string {
			r.say("symlinkat")
			return e(unix.SYS_SYMLINKAT, r.at(r.target()), r.dirfd(), r.at(r.path()))
		},
		func() string {
			r.say("symlinkat")
			return e(unix.SYS_SYMLINKAT, r.at(r.target()), r.dirfd(), r.at(r.path()))
		},
		func() string {
			r.say("linkat")
			return e(unix.SYS_LINKAT, r.dirfd(), r.at(r.path()), r.dirfd(), r.at(r.path()), r.flag(unix.AT_SYMLINK_FOLLOW, unix.AT_EMPTY_PATH))
		},
		func() string {
			r.say("linkat of a descriptor")
			return e(unix.SYS_LINKAT, uintptr(0), r.at(fmt.Sprintf("/proc/self/fd/FD%d", r.rng.IntN(len(r.fds)))), r.dirfd(), r.at(r.path()), uintptr(unix.AT_SYMLINK_FOLLOW))
		},
		func() string {
			r.say("renameat")
			return e(unix.SYS_RENAMEAT, r.dirfd(), r.at(r.path()), r.dirfd(), r.at(r.path()))
		},
		func() string {
			r.say("renameat2")
			return e(unix.SYS_RENAMEAT2, r.dirfd(), r.at(r.path()), r.dirfd(), r.at(r.path()), r.flag(unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE))
		},
		func() string { r.say("truncate"); return e(unix.SYS_TRUNCATE, r.at(r.where()), r.length()) },
		func() string { r.say("ftruncate"); return e(unix.SYS_FTRUNCATE, r.fd(), r.length()) },
		func() string { r.say("fchmodat"); return e(unix.SYS_FCHMODAT, r.dirfd(), r.at(r.path()), r.mode()) },
		func() string {
			r.say("fchmodat2")
			return e(452, r.dirfd(), r.at(r.path()), r.mode(), r.flag(unix.AT_SYMLINK_NOFOLLOW, unix.AT_EMPTY_PATH))
		},
		func() string { r.say("fchmod"); return e(unix.SYS_FCHMOD, r.fd(), r.mode()) },
		func() string {
			r.say("fchownat")
			return e(unix.SYS_FCHOWNAT, r.dirfd(), r.at(r.path()), r.id(os.Getuid()), r.id(os.Getgid()), r.flag(unix.AT_SYMLINK_NOFOLLOW, unix.AT_EMPTY_PATH))
		},
		func() string {
			r.say("fchown")
			return e(unix.SYS_FCHOWN, r.fd(), r.id(os.Getuid()), r.id(os.Getgid()))
		},
		func() string {
			r.say("utimensat")
			return e(unix.SYS_UTIMENSAT, r.dirfd(), r.at(r.path()), r.times(), r.flag(unix.AT_SYMLINK_NOFOLLOW, unix.AT_EMPTY_PATH))
		},
		func() string {
			r.say("futimens")
			return e(unix.SYS_UTIMENSAT, r.fd(), unsafe.Pointer(nil), r.times(), uintptr(0))
		},
		func() string {
			r.say("write")
			return e(unix.SYS_WRITE, r.writable(), unsafe.Pointer(&r.edge[0]), uintptr(r.rng.IntN(100)))
		},
		func() string { r.say("stat"); return r.stat() },
		func() string { r.say("stat"); return r.stat() },
	}
	if r.alone {
		steps = append(steps,
			func() string {
				r.say("chdir")
				return e(unix.SYS_CHDIR, r.at(pick(r, "a", "b", "c", "d", "a/b", "ROOT", "ROOT", "ROOT")))
			},
			func() string {
				if !r.chance(4) {
					return ""
				}
				old, _ := value(unix.SYS_UMASK, pick[uintptr](r, 0, 0o022, 0o077, 0o777, 0o027))
				return fmt.Sprintf("umask %o", old)
			})
		steps = append(steps, r.older()...)
	}
	return steps[r.rng.IntN(len(steps))]()
}

// where is for calls that have no descriptor of a directory.
func (r *runner) where() string {
	p := r.path()
	if !r.alone && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "ROOT") {
		return "ROOT/" + p
	}
	return p
}

func (r *runner) kind() uintptr {
	kinds := []uintptr{0, unix.S_IFREG, unix.S_IFSOCK, unix.S_IFDIR, unix.S_IFLNK, 0o030000}
	if r.fifos {
		kinds = append(kinds, unix.S_IFIFO, unix.S_IFIFO, unix.S_IFIFO)
	}
	k := pick(r, kinds...) | 0o644
	r.say(" kind %o", k)
	return k
}

func (r *runner) target() string {
	switch r.rng.IntN(12) {
	case 0:
		return "ROOT/" + r.name()
	case 1:
		return "../" + pick(r, "a", "b")
	case 2:
		return strings.Repeat("x", pick(r, 255, 4094, 4095, 4096))
	case 3:
		return pick(r, "a/", "b/.", "./c", "")
	case 5:
		return "ROOT/a/" + r.name()
	}
	return pick(r, "a", "b", "c", "d", "e", "f", "a/b", "c/d")
}

func (r *runner) length() uintptr {
	n := pick(r, 0, 1, 10, 4096, 1<<20, 1<<40, -1, 1<<62)
	r.say(" to %d", n)
	return uintptr(n)
}

// writable gives a descriptor that a write to does not wait.
func (r *runner) writable() uintptr {
	fd := r.fd()
	var st unix.Stat_t
	if unix.Fstat(int(fd), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return ^uintptr(0)
	}
	return fd
}

func (r *runner) times() unsafe.Pointer {
	if r.chance(5) {
		r.say(" now")
		return nil
	}
	one := func() unix.Timespec {
		switch r.rng.IntN(8) {
		case 0:
			return unix.Timespec{Nsec: unix.UTIME_NOW}
		case 1:
			return unix.Timespec{Nsec: unix.UTIME_OMIT}
		case 2:
			return unix.Timespec{Sec: 1, Nsec: 1e9}
		}
		return unix.Timespec{Sec: int64(r.rng.IntN(1e6)), Nsec: int64(r.rng.IntN(1e9))}
	}
	t := []unix.Timespec{one(), one()}
	r.say(" times %v", t)
	return unsafe.Pointer(&t[0])
}

// stat looks at a file as a program does that is not the broker's business.
func (r *runner) stat() string {
	dir, p := r.dirfd(), r.at(r.path())
	var st unix.Stat_t
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, dir, uintptr(p), uintptr(unsafe.Pointer(&st)), uintptr(pick(r, 0, unix.AT_SYMLINK_NOFOLLOW)), 0, 0)
	if errno != 0 {
		return name(errno)
	}
	answer := Describe(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		var to [4200]byte
		n, _, _ := unix.Syscall6(unix.SYS_READLINKAT, dir, uintptr(p), uintptr(unsafe.Pointer(&to[0])), uintptr(len(to)), 0, 0)
		answer += " -> " + strings.ReplaceAll(string(to[:min(int(n), len(to))]), r.root, "ROOT")
	}
	return answer
}
