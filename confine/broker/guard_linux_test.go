package broker

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestAMistakeOfOursEndsNoInit: a handler that panics refuses its call and all later ones,
// tells what happened, and holds nobody up: not the next call, nor a file tool.
func TestAMistakeOfOursEndsNoInit(t *testing.T) {
	const broken, good = 1000, 1001 // numbers that no kernel has
	locks := func(act func()) handler {
		return func(c *call) reply { return c.b.locked(func() reply { act(); return reply{} }) }
	}
	var none *Rules
	handlers[broken] = locks(func() { none.Reach("/x") })
	handlers[good] = locks(func() {})
	t.Cleanup(func() { delete(handlers, broken); delete(handlers, good) })
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var calls [3]unix.Errno
	done := make(chan error, 1)
	fd := make(chan int, 1)
	go func() {
		runtime.LockOSThread() // and not unlocked: the filter goes with the thread
		notifies := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
			{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: broken, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		program := unix.SockFprog{Len: uint16(len(notifies)), Filter: &notifies[0]}
		_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		n, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, FilterFlags, uintptr(unsafe.Pointer(&program)))
		if errno != 0 {
			fd <- -1
			return
		}
		fd <- int(n)
		for i, nr := range []uintptr{good, broken, good} {
			_, _, calls[i] = unix.Syscall(nr, 0, 0, 0)
		}
		close(done)
	}()
	b.Serve(<-fd, false, nil)
	if b.Listener() < 0 {
		t.Fatal("no listener")
	}
	defer b.Rest()
	for range calls {
		b.Answer()
	}
	<-done
	if calls != [3]unix.Errno{0, unix.EIO, unix.EIO} {
		t.Errorf("the calls gave %v", calls)
	}
	if err := b.Mkdir(unix.AT_FDCWD, t.TempDir()+"/d", 0o755); err != unix.EIO {
		t.Errorf("a file tool: %v", err)
	}
	if f := b.Fault(); !strings.Contains(f, "nil pointer") || !strings.Contains(f, "broker.(*Rules)") {
		t.Errorf("told: %q", f)
	}
}

// TestLooksOfACallEnd: all that one call looks at while others wait has one time, whatever it
// is, and the next call has its own.
func TestLooksOfACallEnd(t *testing.T) {
	dir := t.TempDir()
	b, err := New(Options{Rules: NewRules(sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{dir: sandboxprofile.Write}}, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, used := range []bool{false, true, false} {
		b.locked(func() reply {
			one, other := b.newBudget(2), b.newBudget(2)
			if !one.spend() || !b.changeable(dir+"/file") {
				t.Error("nothing may be looked at")
			}
			if used {
				b.until = threadTime()
			}
			if one.spend() == used || other.spend() == used || b.changeable(dir+"/file") == used || one.spend() {
				t.Errorf("with the time used up (%t) a look goes on, or without it ends, or there are more names than may be", used)
			}
			return reply{}
		})
	}
}
