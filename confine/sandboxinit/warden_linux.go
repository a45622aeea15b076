package sandboxinit

import (
	"os/signal"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
)

// runWarden waits for the end of a confiner, and kills what is left in the process group that
// it leads: bubblewraps that no parent-death signal reaches (confine's warden). No other
// signal ends it, so that pkill(1) by a name does not take it away before the others.
func runWarden() int {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0) // for ps(1) alone
	var known watched
	for known.hear() {
	}
	known.note(noteGrace)
	_ = unix.Kill(0, unix.SIGKILL) // and this process with it
	return 1
}

// noteGrace is how long a sandbox may take to end after its confiner: its processes are killed
// with it.
const noteGrace = 10 * time.Second

// watched are the sandboxes that the confiner has: process 1 of each, and where to note its end.
type watched struct {
	fds   []unix.PollFd
	notes []int
}

// hear waits for a message or the end of a sandbox, and reports whether there may be another.
func (w *watched) hear() bool {
	life := unix.PollFd{Fd: 0, Events: unix.POLLIN}
	fds := append([]unix.PollFd{life}, w.fds...)
	if _, err := unix.Poll(fds, -1); err != nil {
		return err == unix.EINTR
	}
	if fds[0].Revents == 0 {
		// The confiner may live, and takes care of them then. It may as well be about to end: a sandbox dies
		// with the thread that started it, and the socket is closed with the last one.
		copy(w.fds, fds[1:])
		w.noteEnded()
		return true
	}
	var kind [1]byte
	oob := make([]byte, unix.CmsgSpace(2*4))
	n, oobn, _, _, err := unix.Recvmsg(0, kind[:], oob, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err == unix.EINTR:
		return true
	case n == 0 || err != nil:
		return false
	case kind[0] == wire.WardenEnd:
		*w = watched{}
		return true
	}
	var got []int
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) == 1 {
		got, _ = unix.ParseUnixRights(&msgs[0])
	}
	if len(got) != 2 { // there was no room for both
		closeAll(got)
		return true
	}
	w.fds, w.notes = append(w.fds, unix.PollFd{Fd: int32(got[0]), Events: unix.POLLIN}), append(w.notes, got[1])
	return true
}

// noteEnded notes those that have ended, and forgets them: the kernel says so of a process 1 when all
// others of its namespace are gone (pidfd_open(2), pid_namespaces(7)).
func (w *watched) noteEnded() {
	now := wire.Ended{Ended: time.Now().UnixNano()}.JSON()
	for i := len(w.fds) - 1; i >= 0; i-- {
		if w.fds[i].Revents == 0 {
			continue
		}
		_, _ = unix.Write(w.notes[i], now) // without it the next start takes more for a tool's
		unix.Close(int(w.fds[i].Fd))
		unix.Close(w.notes[i])
		w.fds, w.notes = slices.Delete(w.fds, i, i+1), slices.Delete(w.notes, i, i+1)
	}
}

// note waits for the end of each and notes when it was.
func (w *watched) note(patience time.Duration) {
	for until := time.Now().Add(patience); len(w.fds) > 0 && time.Now().Before(until); {
		if _, err := unix.Poll(w.fds, int(time.Until(until).Milliseconds())+1); err != nil && err != unix.EINTR {
			return
		}
		w.noteEnded()
	}
}

// name is shown by ps(1).
var name = []byte("sandgate-warden\x00")
