package broker

import (
	"bytes"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A call is one notification under way: what a thread of the tool's asks for. Its
// methods that open something of the thread's do it below one descriptor of the
// thread's directory in /proc, which is checked to be of the thread that waits.
type call struct {
	b    *Broker
	from *listener
	id   uint64
	tid  int
	nr   int
	args [6]uint64

	proc   int // O_PATH of /proc/TID, -1 until it is needed
	opened []int
	flags  int // of an open, as the thread gave them
	mode   uint32
	opens  bool
	asks   *subject // what it waits to hear of

	socketFile birth // the file of a socket that it has bound
}

// own notes a descriptor that goes when the call does.
func (c *call) own(fd int) int {
	c.opened = append(c.opened, fd)
	return fd
}

func (c *call) close() {
	for _, fd := range c.opened {
		unix.Close(fd)
	}
	c.opened = c.opened[:0]
}

// waits reports whether the thread still waits for its answer. What is done for none always
// goes on.
func (c *call) waits() bool {
	if c.from == nil {
		return c.tid == 0
	}
	return c.from.waits(c.id)
}

// directory opens the thread's directory in /proc.
func (c *call) directory() (int, unix.Errno) {
	if c.proc >= 0 {
		return c.proc, 0
	}
	fd, err := unix.Openat(c.b.procFD, strconv.Itoa(c.tid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unix.ESRCH
	}
	c.own(fd)
	if !c.waits() {
		return -1, unix.ESRCH
	}
	c.proc = fd
	return fd, 0
}

// pathMax is PATH_MAX of limits.h, with the NUL.
const pathMax = 4096

// text reads a path from the thread's memory.
func (c *call) text(addr uint64) (string, unix.Errno) {
	if addr == 0 {
		return "", unix.EFAULT
	}
	var buf [pathMax]byte
	have := 0
	for step := 256; have < len(buf); step = pathMax {
		// To the end of a page at most: the next one may not be there.
		n := min(step, len(buf)-have, int(4096-(addr+uint64(have))%4096))
		got := c.read(addr+uint64(have), buf[have:have+n])
		if i := bytes.IndexByte(buf[have:have+got], 0); i >= 0 {
			return string(buf[:have+i]), 0
		}
		if got < n {
			return "", unix.EFAULT
		}
		have += n
	}
	return "", unix.ENAMETOOLONG
}

// read copies from the thread's memory, and gives how much of it could be.
func (c *call) read(addr uint64, p []byte) int {
	if len(p) == 0 {
		return 0
	}
	if !c.b.slowMemory {
		local := []unix.Iovec{{Base: &p[0], Len: uint64(len(p))}}
		remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
		n, err := unix.ProcessVMReadv(c.tid, local, remote, 0)
		switch err {
		case nil:
			return n
		case unix.EFAULT:
			return 0
		}
	}
	// Older container runtimes bar that call and let the file through.
	dir, errno := c.directory()
	if errno != 0 {
		return 0
	}
	fd, err := unix.Openat(dir, "mem", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, err := unix.Pread(fd, p, int64(addr))
	if err != nil {
		return 0
	}
	return n
}

// write copies to the thread's memory. Landlock lets the broker reach programs of its own
// domain only, so that a number which means another process by now leads nowhere else.
func (c *call) write(addr uint64, p []byte) unix.Errno {
	if len(p) == 0 {
		return 0
	}
	if !c.from.waits(c.id) {
		return unix.ESRCH
	}
	if c.b.slowMemory {
		return c.writeByFile(addr, p)
	}
	local := []unix.Iovec{{Base: &p[0], Len: uint64(len(p))}}
	remote := []unix.RemoteIovec{{Base: uintptr(addr), Len: len(p)}}
	if n, err := unix.ProcessVMWritev(c.tid, local, remote, 0); err != nil || n != len(p) {
		return unix.EFAULT
	}
	return 0
}

// writeByFile is write where process_vm_writev(2) is barred. The kernel asks Landlock in the same way. It also
// writes to a page that the program may only read: that is the program's own copy, which it could make writable.
func (c *call) writeByFile(addr uint64, p []byte) unix.Errno {
	dir, errno := c.directory()
	if errno != 0 {
		return errno
	}
	fd, err := unix.Openat(dir, "mem", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.EFAULT
	}
	defer unix.Close(fd)
	if !c.from.waits(c.id) { // before that, the file may be of a program that was executed meanwhile
		return unix.ESRCH
	}
	if n, err := unix.Pwrite(fd, p, int64(addr)); err != nil || n != len(p) {
		return unix.EFAULT
	}
	return 0
}

// words reads n machine words from the thread's memory.
func (c *call) words(addr uint64, n int) ([]int64, unix.Errno) {
	list := make([]int64, n)
	p := unsafe.Slice((*byte)(unsafe.Pointer(&list[0])), 8*n)
	if c.read(addr, p) != len(p) {
		return nil, unix.EFAULT
	}
	return list, 0
}

// descriptor gives an O_PATH descriptor of what the thread's descriptor n is of.
func (c *call) descriptor(n int32) (int, unix.Errno) {
	dir, errno := c.directory()
	if errno != 0 {
		return -1, errno
	}
	if n < 0 {
		return -1, unix.EBADF
	}
	fd, err := unix.Openat(dir, "fd/"+strconv.Itoa(int(n)), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, unix.EBADF
	}
	return c.own(fd), 0
}

// isOpen reports whether the thread's descriptor n has opened what fd is of. A descriptor of
// O_PATH has not, and no permission was checked for it (open(2)). Another thread may put
// another descriptor in its place at any time: what procfs says of it at once has to name the
// same file.
func (c *call) isOpen(n int32, fd int) bool {
	var st unix.Statx_t
	const need = unix.STATX_INO | unix.STATX_MNT_ID
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, need, &st); err != nil || st.Mask&need != need {
		return false
	}
	said, ok := c.fields("fdinfo/"+strconv.Itoa(int(n)), "flags:", "mnt_id:", "ino:")
	if !ok || said[1] != strconv.FormatUint(st.Mnt_id, 10) || said[2] != strconv.FormatUint(st.Ino, 10) {
		return false
	}
	flags, err := strconv.ParseUint(said[0], 8, 64)
	return err == nil && flags&unix.O_PATH == 0
}

// base is where a path of the thread's begins.
func (c *call) base(dirfd int32, name string) (int, unix.Errno) {
	if strings.HasPrefix(name, "/") {
		return c.b.rootFD, 0
	}
	if dirfd != unix.AT_FDCWD {
		return c.descriptor(dirfd)
	}
	dir, errno := c.directory()
	if errno != 0 {
		return -1, errno
	}
	fd, err := unix.Openat(dir, "cwd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, errnoOf(err)
	}
	return c.own(fd), 0
}

// status gives a field of the thread's /proc/TID/status.
func (c *call) status(name string) (string, bool) { return c.field("status", name+":") }

// field gives what follows start on a line of one of the thread's files in /proc.
func (c *call) field(file, start string) (string, bool) {
	values, ok := c.fields(file, start)
	if !ok {
		return "", false
	}
	return values[0], true
}

// fields is field for several lines, which are read at once.
func (c *call) fields(file string, starts ...string) ([]string, bool) {
	dir, errno := c.directory()
	if errno != 0 {
		return nil, false
	}
	fd, err := unix.Openat(dir, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	return fieldsOf(fd, starts...)
}

// fieldsOf gives what stands behind each of some beginnings of lines in a file of procfs,
// all of which have to be there, and closes it.
func fieldsOf(fd int, starts ...string) ([]string, bool) {
	defer unix.Close(fd)
	var buf [4096]byte
	n, _ := unix.Read(fd, buf[:])
	values, found := make([]string, len(starts)), 0
	for line := range strings.Lines(string(buf[:max(n, 0)])) {
		for i, start := range starts {
			if value, ok := strings.CutPrefix(line, start); ok && values[i] == "" {
				values[i] = strings.TrimSpace(value)
				found++
			}
		}
	}
	return values, found == len(starts)
}

// umask is the thread's. It is the one that the program started with, until one of the
// programs has asked for another.
func (c *call) umask() (int, bool) {
	if c.from == nil || !c.b.masked.Load() {
		return c.b.umask, true
	}
	text, ok := c.status("Umask")
	mask, err := strconv.ParseUint(text, 8, 12)
	return int(mask), ok && err == nil
}

// fileSizeLimit is the thread's RLIMIT_FSIZE, in bytes. prlimit(2) would tell it too, and
// change it as well: no filter of ours lets it through.
func (c *call) fileSizeLimit() (uint64, bool) {
	text, ok := c.field("limits", "Max file size ")
	soft, _, _ := strings.Cut(text, " ")
	if soft == "unlimited" {
		return unix.RLIM_INFINITY, ok
	}
	most, err := strconv.ParseUint(soft, 10, 64)
	return most, ok && err == nil
}

// group is the process that the thread belongs to.
func (c *call) group() (string, bool) { return c.status("Tgid") }

func errnoOf(err error) unix.Errno {
	if errno, ok := err.(unix.Errno); ok {
		return errno
	}
	return unix.EIO
}

// real is the path of what one of the broker's descriptors is of, as the kernel has it
// now. Nothing that has no name any more, or lies outside of the root, has one.
func (b *Broker) real(fd int) (string, unix.Errno) {
	var buf [pathMax + 16]byte
	n, err := unix.Readlinkat(b.selfFD, strconv.Itoa(fd), buf[:])
	if err != nil {
		return "", errnoOf(err)
	}
	name := string(buf[:n])
	switch {
	case n >= pathMax:
		return "", unix.ENAMETOOLONG
	case !strings.HasPrefix(name, "/"):
		return "", unix.EACCES // a pipe, a socket, or "(unreachable)"
	}
	if strings.HasSuffix(name, " (deleted)") {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Nlink == 0 {
			return "", unix.ENOENT
		}
		var byName unix.Stat_t
		if unix.Lstat(name, &byName) != nil || byName.Ino != st.Ino || byName.Dev != st.Dev {
			return "", unix.ENOENT
		}
	}
	return name, 0
}

// lastName is the name that a file whose descriptor we have was removed under.
func (b *Broker) lastName(fd int) (string, bool) {
	var buf [pathMax + 16]byte
	n, err := unix.Readlinkat(b.selfFD, strconv.Itoa(fd), buf[:])
	if err != nil || n >= pathMax || buf[0] != '/' {
		return "", false
	}
	return strings.CutSuffix(string(buf[:n]), " (deleted)")
}

// memory reports whether a file that was removed under name never lay anywhere but in
// this sandbox: memfd_create(2) says so in the name, and the inodes of pools are known.
func (b *Broker) memory(name string, st *unix.Stat_t) bool {
	if strings.HasPrefix(name, "/memfd:") && strings.LastIndexByte(name, '/') == 0 {
		return true
	}
	for _, p := range b.pools {
		if _, known := p.known[idOf(st)]; known {
			return true
		}
	}
	return false
}

// again opens what an O_PATH descriptor is of.
func (b *Broker) again(fd, flags int) (int, unix.Errno) {
	for {
		got, err := unix.Openat(b.selfFD, strconv.Itoa(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
		switch err {
		case nil:
			return got, 0
		case unix.EINTR:
			continue
		}
		return -1, errnoOf(err)
	}
}

// linkOf is the path of a descriptor of ours through /proc, for calls that take nothing
// but a path.
func linkOf(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func isProc(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) != nil || fs.Type == unix.PROC_SUPER_MAGIC
}
