package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/unixsock"
)

// errOurs means that a service's socket is one of our own. Through the supervisor's
// own sockets a tool would answer its own questions, as the supervisor itself; and a
// socket that a tool made in the place of the service would receive what is meant for
// the service.
var errOurs = errors.New("sandgate or one of its tools listens there")

// dialSocket connects to the Unix socket at path. No component of the path is
// followed as a link: where a tool may write, it could exchange the socket for a link
// to one that only the supervisor reaches. The connection goes to the file that was
// opened.
func dialSocket(ctx context.Context, d Dialer, path string) (net.Conn, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
	if err != nil {
		return nil, fmt.Errorf("open the socket: %w", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat the socket: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, errors.New("it is not a socket")
	}
	conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return nil, err
	}
	if err := notOurs(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// notOurs looks at who listens at the other end (unix(7), SO_PEERCRED).
func notOurs(conn net.Conn) error {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return errors.New("not a Unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("find the process that listens there: %w", credErr)
	}
	ours, err := unixsock.IsDescendant(int(cred.Pid), os.Getpid())
	switch {
	case err != nil:
		return fmt.Errorf("the process that listens there, %d, cannot be inspected: %w", cred.Pid, err)
	case ours:
		return errOurs
	}
	return nil
}
