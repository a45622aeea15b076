package review

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/draft"
)

// connected gives the two ends of a socket: ours, and one for a process that we start.
func connected() (net.Conn, *os.File, error) {
	syscall.ForkLock.RLock() // no other process that is started now has them
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	own, its := os.NewFile(uintptr(fds[0]), "decisions"), os.NewFile(uintptr(fds[1]), "questions")
	defer own.Close()
	conn, err := net.FileConn(own)
	if err != nil {
		its.Close()
		return nil, nil, err
	}
	return conn, its, nil
}

// takeStdin takes the socket that is our standard input, and leaves nothing there: a process
// that has it asks as a supervisor.
func takeStdin(in io.Reader) (net.Conn, error) {
	f, ok := in.(*os.File)
	if !ok {
		return nil, errors.New("standard input is not the reviewer's socket")
	}
	fd := int(f.Fd())
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	return conn, os.NewSyscallError("dup", draft.DupOnto(int(null.Fd()), fd))
}
