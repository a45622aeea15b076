package dirwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Events are the changes that are reported.
type Events uint32

const (
	// Names are reported when one comes or goes in a directory, or gets other rights.
	Names Events = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
	// Contents are reported as well: a write to a file of the directory, with the name that
	// it was opened by there. A mapping reports nothing before it is gone and the file closed. A
	// descriptor that lies in a socket which nobody can read any more keeps the file open after
	// its process: so files are also reported when they are opened, by readers too.
	Contents = Names&^unix.IN_EXCL_UNLINK | unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_OPEN
	// Inodes are Contents, with the files where the kernel reports them.
	Inodes = Contents | byInode

	byInode Events = 1 << 20 // no event of inotify(7)
)

// source is inotify(7), and the table of mounts (proc_pid_mountinfo(5)): what is mounted over
// a directory changes nothing in the one above it.
type source struct {
	fd, mounts int
	events     Events
	named      *named // nil: there is none
}

func newSource(events Events) (source, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return source{}, err
	}
	mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return source{}, err
	}
	s := source{fd: fd, mounts: mounts, events: events &^ byInode}
	if events&byInode != 0 {
		s.named = newNamed()
	}
	return s, nil
}

func (s source) add(fd int) (int32, error) {
	if wd := s.named.add(fd); wd != 0 {
		return wd, nil
	}
	wd, err := unix.InotifyAddWatch(s.fd, fmt.Sprintf("/proc/self/fd/%d", fd), uint32(s.events))
	return int32(wd), err
}

func (s source) remove(wd int32) {
	if wd < 0 {
		s.named.remove(wd)
		return
	}
	_, _ = unix.InotifyRmWatch(s.fd, uint32(wd)) // it may be gone
}

// changed reads what has happened. It gives false if that is not all.
func (s source) changed(do func(event)) (complete bool) {
	fds := []unix.PollFd{{Fd: int32(s.mounts), Events: unix.POLLPRI}}
	n, err := unix.Poll(fds, 0)
	complete = err == nil && n == 0
	complete = s.named.changed(do) && complete
	var buf [64 << 10]byte
	for {
		n, err := unix.Read(s.fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return complete
		case err != nil || n < unix.SizeofInotifyEvent:
			return false
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			mask := binary.NativeEndian.Uint32(b[4:])
			end := min(unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])), len(b))
			switch {
			case mask&unix.IN_Q_OVERFLOW != 0:
				complete = false
			case mask&unix.IN_OPEN != 0 && mask&unix.IN_ISDIR != 0: // to list it changes nothing
			default:
				do(event{
					wd: int32(binary.NativeEndian.Uint32(b)), cookie: binary.NativeEndian.Uint32(b[8:]), name: string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00")),
					came: mask&unix.IN_CREATE != 0, went: mask&unix.IN_DELETE != 0, left: mask&unix.IN_MOVED_FROM != 0, taken: mask&unix.IN_MOVED_TO != 0,
					dir: mask&unix.IN_ISDIR != 0, gone: mask&unix.IN_IGNORED != 0,
				})
			}
			b = b[end:]
		}
	}
}

func (s source) close() {
	unix.Close(s.fd)
	unix.Close(s.mounts)
	if s.named != nil {
		unix.Close(s.named.fd)
	}
}

// closeWith closes the source when the watcher is unreachable.
func closeWith[K comparable](w *Watcher[K]) {
	runtime.AddCleanup(w, func(s source) { s.close() }, w.source)
}
