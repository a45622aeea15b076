package sandboxinit

import (
	"bytes"
	"io/fs"
	"math"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// cleanliness is what the places that calls share looked like before the first.
type cleanliness struct {
	dirs   []string
	counts []int
}

// inspect looks at directories that no call may find another's files in.
func inspect(dirs []string) cleanliness {
	c := cleanliness{dirs: append([]string{"/dev/shm"}, dirs...)}
	for _, dir := range c.dirs {
		c.counts = append(c.counts, count(dir))
	}
	return c
}

// spoiled looks for what outlives processes and is no file of a writable path:
// System V objects of the ipc namespace (sysvipc(7)), POSIX shared memory and
// semaphores (shm_overview(7)), files in a directory that is not shared. What
// cannot be looked at counts as spoiled.
func (c cleanliness) spoiled() bool {
	for _, table := range []string{"/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"} {
		if lines(table) > 1 { // the first is a heading
			return true
		}
	}
	for i, dir := range c.dirs {
		if n := count(dir); n != c.counts[i] || n == math.MaxInt {
			return true
		}
	}
	return false
}

// lines counts the lines of a small file. An error is many.
func lines(path string) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return 0 // a kernel without System V IPC
	}
	if err != nil {
		return math.MaxInt
	}
	defer unix.Close(fd)
	var buf [4096]byte
	n, err := readFull(fd, buf[:])
	if err != nil {
		return math.MaxInt
	}
	return bytes.Count(buf[:n], []byte{'\n'})
}

// count counts the files of a directory tree, without those of other file
// systems: what is mounted below is the host's. A tool cannot take away what was
// counted at the start, mount points and the directories above them, so an equal
// number is the same files.
func count(dir string) int {
	var top syscall.Stat_t
	if err := syscall.Lstat(dir, &top); err != nil {
		return math.MaxInt
	}
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Lstat(path, &st); err != nil {
			return err
		}
		n++
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
