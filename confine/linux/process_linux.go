package linux

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// setupTimeout bounds how long bubblewrap and our init may take to get ready. It
// is generous: a slow start is a slow start, a hang is a failure.
const setupTimeout = 20 * time.Second

// initEnv is the environment of our init, which a program inside may read: Go need not ask
// the cgroups how many processors a process may use that works on one.
var initEnv = []string{"GOMAXPROCS=1"}

// limitsHold says what bounds a call, in cgroups of t or without any.
func limitsHold(t *cgroupTree) string {
	together := "CPU, memory and processes per process by setrlimit, and together counted by init"
	if t != nil {
		together = "memory and processes by a cgroup of its own; CPU per process by setrlimit, and together counted by init"
	}
	return "wall time and output by the supervisor; file size and descriptors by setrlimit; " + together
}

// landlockScopes is abstract Unix sockets and signals, LANDLOCK_SCOPE_*.
const landlockScopes = 1<<0 | 1<<1

// socketPair returns the confiner's end and the file that becomes init's.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("confine: socketpair: %w", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "init")
	defer ours.Close()
	theirs := os.NewFile(uintptr(fds[1]), "init")
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("confine: socketpair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// stderrTail keeps what a sandbox wrote to its standard error, up to a bound: the
// first words of a crash are the ones that tell.
type stderrTail struct {
	max int
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *stderrTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p[:min(len(p), t.max-t.buf.Len())])
	return len(p), nil
}

func (t *stderrTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
