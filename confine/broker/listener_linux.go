package broker

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The structures and requests of seccomp_unotify(2), linux/seccomp.h.

type notification struct {
	id    uint64
	pid   uint32 // the thread that waits
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	value int64
	errno int32 // negative
	flags uint32
}

type addFD struct {
	id      uint64
	flags   uint32
	fd      uint32
	newFD   uint32
	fdFlags uint32
}

const (
	ioctlReceive  = 0xc0502100
	ioctlSend     = 0xc0182101
	ioctlIDValid  = 0x40082102
	ioctlAddFD    = 0x40182103
	ioctlSetFlags = 0x40082104

	setNumber      = 1 // SECCOMP_ADDFD_FLAG_SETFD
	flagContinue   = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE
	flagSyncWakeUp = 1 // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, Linux 6.6
)

// FilterFlags are the flags that the programs' filter is installed with (seccomp(2)):
// a listener, and a call that was taken is not interrupted by a signal, which would
// have it made again (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19).
const FilterFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | 1<<5

// A listener is the descriptor that a filter's notifications arrive at.
type listener struct{ fd int }

func (l *listener) ioctl(request uintptr, arg unsafe.Pointer) (uintptr, unix.Errno) {
	r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), request, uintptr(arg))
	return r, errno
}

// receive takes a notification, and gives false if its thread has died meanwhile.
func (l *listener) receive(n *notification) bool {
	*n = notification{}
	for {
		_, errno := l.ioctl(ioctlReceive, unsafe.Pointer(n))
		if errno != unix.EINTR {
			return errno == 0
		}
	}
}

// waits reports whether the thread of a notification still waits for its answer: what
// was opened below its /proc directory before is then its own, and not that of another
// that has its number now.
func (l *listener) waits(id uint64) bool {
	_, errno := l.ioctl(ioctlIDValid, unsafe.Pointer(&id))
	return errno == 0
}

func (l *listener) answer(id uint64, value int64, errno unix.Errno) {
	r := response{id: id, value: value, errno: -int32(errno)}
	l.ioctl(ioctlSend, unsafe.Pointer(&r)) // ENOENT: the thread has died, nobody wants it
}

func (l *listener) proceed(id uint64) {
	r := response{id: id, flags: flagContinue}
	l.ioctl(ioctlSend, unsafe.Pointer(&r))
}

// hand gives the waiting thread a copy of fd, with this number if it is not 0. It does not answer yet.
func (l *listener) hand(id uint64, fd int, closeOnExec bool, number int) (int64, unix.Errno) {
	a := addFD{id: id, fd: uint32(fd)}
	if number != 0 {
		a.flags, a.newFD = setNumber, uint32(number)
	}
	if closeOnExec {
		a.fdFlags = unix.O_CLOEXEC
	}
	for {
		n, errno := l.ioctl(ioctlAddFD, unsafe.Pointer(&a))
		if errno != unix.EINTR {
			return int64(n), errno
		}
	}
}

// Why programs cannot have a filter with a listener.
const (
	ListenerTaken   = "another supervisor's system call filter has a listener already (EBUSY)"
	NoNotifications = "the kernel has no notifications that signals leave alone (SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19)"
)

// Try fails if this process's children cannot have a filter with a listener. It finds
// out with a thread that ends.
func Try() error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked: the filter goes with the thread
		allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
		program := unix.SockFprog{Len: 1, Filter: &allow[0]}
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, FilterFlags, uintptr(unsafe.Pointer(&program)))
		switch errno {
		case 0:
			unix.Close(int(fd))
			done <- nil
		case unix.EBUSY:
			done <- errors.New(ListenerTaken)
		case unix.EINVAL:
			done <- errors.New(NoNotifications)
		default:
			done <- errno
		}
	}()
	return <-done
}

// Serve has the broker answer what arrives at fd, which it takes, for an action that
// changes nothing in the private directories fixed, and nothing but private directories if still is set. The thread that calls
// it and Answer is the one that forks the programs: a Landlock domain belongs to a thread
// (before ABI 8), and only the one that a program's domain was made from may look at it.
func (b *Broker) Serve(fd int, still bool, fixed []string) {
	b.listener, b.Rules = &listener{fd}, b.profile.Under(still, fixed)
	flags := uint64(flagSyncWakeUp)
	b.listener.ioctl(ioctlSetFlags, unsafe.Pointer(&flags)) // an older kernel wakes in its own way
}

// Listener is the descriptor that becomes readable when there is something to answer,
// -1 while nobody is served. When it has hung up, no process is left.
func (b *Broker) Listener() int {
	if b == nil || b.listener == nil || b.questions.full() {
		return -1
	}
	return b.listener.fd
}

// Rest ends the service: no process is left. Opens that still wait for another process
// keep the listener, which no longer answers.
func (b *Broker) Rest() {
	if b == nil || b.listener == nil {
		return
	}
	b.guard(func() { b.Settle(true) })
	b.guard(b.detach)
	b.questions = questions{}
	for _, w := range b.watchers {
		unix.Close(w.fd)
	}
	b.watchers, b.watched = nil, 0
	b.askers.dismiss()
	if b.waiting.Load() == 0 {
		unix.Close(b.listener.fd)
	}
	b.listener = nil
}

// Answer takes one notification and answers it.
func (b *Broker) Answer() {
	var n notification
	if b.listener.receive(&n) {
		b.take(&n)
	}
}
