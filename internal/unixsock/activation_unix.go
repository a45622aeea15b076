//go:build unix

package unixsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstFD is the first descriptor that systemd passes: sd_listen_fds(3).
const firstFD = 3

// Activated returns the listening sockets that systemd passed to this process,
// by the name that their unit gives them in FileDescriptorName=. It is empty if
// there are none, and fails on a descriptor that is not a listening Unix socket
// or has a name that is not among those wanted. The variables that announce the
// sockets are removed, so that no child takes them for its own.
func Activated(o Options, wanted ...string) (map[string]*Listener, error) {
	env := activationEnv{os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")}
	names, err := env.parse(os.Getpid(), wanted)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	for _, v := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(v)
	}
	found := map[string]*Listener{}
	for i, name := range names {
		l, err := inherit(firstFD+i, name, o)
		if err != nil {
			return nil, errors.Join(err, closeAll(found))
		}
		found[name] = l
	}
	return found, nil
}

type activationEnv struct{ pid, fds, names string }

// parse returns the names of the descriptors that are meant for process pid.
func (e activationEnv) parse(pid int, wanted []string) ([]string, error) {
	if e.fds == "" || e.pid != strconv.Itoa(pid) {
		return nil, nil // none, or meant for the process that started us
	}
	n, err := strconv.Atoi(e.fds)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("socket activation: LISTEN_FDS=%q is not a count", e.fds)
	}
	if n == 0 {
		return nil, nil
	}
	names := strings.Split(e.names, ":")
	if len(names) != n {
		return nil, fmt.Errorf("socket activation: %d sockets and %d names; set FileDescriptorName= in each socket unit", n, len(names))
	}
	seen := map[string]bool{}
	for _, name := range names {
		if !slices.Contains(wanted, name) || seen[name] {
			return nil, fmt.Errorf("socket activation: unexpected socket %q; FileDescriptorName= must be one of %s, once each",
				name, strings.Join(wanted, ", "))
		}
		seen[name] = true
	}
	return names, nil
}

func inherit(fd int, name string, o Options) (*Listener, error) {
	f := os.NewFile(uintptr(fd), name)
	if f == nil {
		return nil, fmt.Errorf("socket activation: %s: descriptor %d is not open", name, fd)
	}
	defer f.Close() // FileListener makes its own copy, with close-on-exec
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || on == 0 {
		return nil, fmt.Errorf("socket activation: %s: descriptor %d is not a listening socket", name, fd)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("socket activation: %s: descriptor %d: %w", name, fd, err)
	}
	u, ok := l.(*net.UnixListener)
	if !ok || u.Addr().Network() != "unix" {
		l.Close()
		return nil, fmt.Errorf("socket activation: %s: descriptor %d is not a Unix stream socket", name, fd)
	}
	u.SetUnlinkOnClose(false) // the socket file is systemd's
	return &Listener{UnixListener: u, options: o}, nil
}

func closeAll(ls map[string]*Listener) error {
	var errs []error
	for _, l := range ls {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}
