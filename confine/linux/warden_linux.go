package linux

import (
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/confine/wire"
)

// A warden is a process that ends every bubblewrap of a supervisor that was killed.
//
// The parent-death signal reaches the bubblewrap that we started, and not always the one
// that it has cloned: that one asks for the signal only after it has read from its parent
// that its user ids are mapped, and waits for that word for ever if the parent was killed
// before. So all of them are in the warden's process group until they have their sandbox,
// and the warden kills the group when the supervisor's end of a pipe is closed, however
// it ends. A process that joins the group later still has the parent-death signal: it has
// not cloned.
//
// It notes, too, when sandboxes have ended whose supervisor was killed: what somebody makes
// later, before the next start, is not a tool's.
type warden struct {
	cmd  *exec.Cmd
	life *os.File // the supervisor's end of a socket
	once sync.Once
}

// startWarden starts program, our init, as a warden.
func startWarden(program *os.File) (*warden, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	theirs, life := os.NewFile(uintptr(ends[0]), "warden"), os.NewFile(uintptr(ends[1]), "warden")
	defer theirs.Close()
	w := &warden{life: life, cmd: &exec.Cmd{
		Path:       "/proc/self/fd/3",
		Args:       []string{"sandgate-init", initbin.Arg, wire.Warden},
		Env:        initEnv,
		Dir:        "/",
		Stdin:      theirs,
		ExtraFiles: []*os.File{program}, // 3
		// In our session, since a group cannot be joined from another one; and not in our
		// group, whose signals are ours to pass on.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}}
	if err := w.cmd.Start(); err != nil {
		life.Close()
		return nil, err
	}
	return w, nil
}

// end has the warden kill its group, and itself with it.
func (w *warden) end() {
	if w == nil {
		return
	}
	w.once.Do(func() {
		_ = unix.Sendmsg(int(w.life.Fd()), []byte{wire.WardenEnd}, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) // or it notes for nothing
		w.life.Close()
		_ = w.cmd.Wait() // it ends by its own signal
	})
}

// watch has the warden note in a file when a sandbox has ended.
func (w *warden) watch(first, notes *os.File) {
	_ = unix.Sendmsg(int(w.life.Fd()), []byte{wire.WardenWatch}, unix.UnixRights(int(first.Fd()), int(notes.Fd())), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// start starts cmd in the warden's group.
func (w *warden) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pgid = true, w.cmd.Process.Pid
	return cmd.Start()
}

// alive reports whether the warden runs. It is our child and reaped by end alone, so its
// number is still its own.
func (w *warden) alive() bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, w.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo == 0
}
