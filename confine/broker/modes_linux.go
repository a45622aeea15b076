package broker

import "golang.org/x/sys/unix"

// Modes serves programs that change files by themselves, and whose mounts say which. It
// makes what a filter cannot judge: chmod(2) with a set-group-id bit, which it does to
// directories only, and what would let other users of the machine write (see keepsOthersOut).
// And it judges ptrace(2) that would stop a process at its exit.
//
// It has the programs' mounts and user, so that a mistake here gives no one a right.
type Modes struct{ broker *Broker }

// NewModes makes one that does not serve anything yet. Each of the directories scratch is a file
// system of the sandbox's own.
func NewModes(scratch []string) (*Modes, error) {
	b, err := New(Options{})
	if err != nil {
		return nil, err
	}
	b.mounts, b.scratch = true, map[uint64]bool{}
	for _, dir := range scratch {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			b.scratch[st.Dev] = true
		}
	}
	return &Modes{b}, nil
}

// modeCalls are those of handlers that give a mode to a file that is there or an attribute,
// umask(2), and ptrace(2).
func modeCalls(nr int) bool {
	switch nr {
	case unix.SYS_PTRACE, unix.SYS_UMASK, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR:
		return true
	}
	switch callName(nr) {
	case "chmod", "fchmod", "fchmodat", "fchmodat2":
		return true
	}
	return false
}

// Serve is Broker.Serve.
func (m *Modes) Serve(fd int) { m.broker.listener = &listener{fd} }

// Listener is Broker.Listener.
func (m *Modes) Listener() int {
	if m == nil || m.broker.listener == nil {
		return -1
	}
	return m.broker.listener.fd
}

// Answer takes one notification and answers it.
func (m *Modes) Answer() { m.broker.Answer() }

// Fault is Broker.Fault.
func (m *Modes) Fault() string { return m.broker.Fault() }

// Rest ends the service: no process is left.
func (m *Modes) Rest() {
	if fd := m.Listener(); fd >= 0 {
		unix.Close(fd)
		m.broker.listener = nil
	}
}
