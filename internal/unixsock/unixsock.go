// Package unixsock makes the Unix sockets of a supervisor and tells who is at
// the other end of a connection.
//
// A socket is only as private as the directory that holds it: [DefaultPath]
// names one in a directory that belongs to the user alone, and [Listen] refuses
// to bind where others could put another socket in its place. Names in messages
// prove nothing; [PeerOf] asks the kernel.
package unixsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// File names of the two sockets in the runtime directory.
const (
	AgentSocket    = "agent.sock"
	OperatorSocket = "operator.sock"
)

// A Peer is the process that connected, as the kernel recorded it at that time.
type Peer struct {
	UID int
	GID int
	PID int // 0 if the process is not visible from here (another PID namespace)
}

func (p Peer) String() string {
	return fmt.Sprintf("uid %d, gid %d, pid %d", p.UID, p.GID, p.PID)
}

// Self is this process as a peer, for calls that come over no socket.
func Self() Peer { return Peer{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid()} }

// ErrInUse is wrapped by Listen when another process answers on the socket.
var ErrInUse = errors.New("another process is listening there")

// A PathError says why a socket or its directory cannot be used.
type PathError struct {
	Op, Path string
	Err      error
	HintText string
}

func (e *PathError) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Path, e.Err) }
func (e *PathError) Unwrap() error { return e.Err }

// Hint tells a person how to fix it, or is "".
func (e *PathError) Hint() string { return e.HintText }

// Options say who may connect to a socket.
type Options struct {
	// Group, if not nil, is the group whose members may connect too. The socket
	// gets mode 0660 and the kernel checks them.
	Group *int
	// Refused hears about connections that were not let in; it may be nil.
	Refused func(Peer, error)
}

// RuntimeDir is the directory of the user's sockets: $XDG_RUNTIME_DIR/sandgate,
// else /run/user/UID/sandgate, else sandgate-UID below the directory for
// temporary files. A base directory that belongs to another user is passed
// over, because its owner could replace ours (sudo keeps XDG_RUNTIME_DIR).
// RuntimeDir creates nothing.
func RuntimeDir() string {
	uid := os.Geteuid()
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + strconv.Itoa(uid)} {
		if filepath.IsAbs(base) && ownDir(base) == nil {
			return filepath.Join(base, "sandgate")
		}
	}
	return filepath.Join(os.TempDir(), "sandgate-"+strconv.Itoa(uid))
}

// DefaultPath is the path of a socket in RuntimeDir. It fails if that directory
// exists and is not ours alone: another user may have made it first.
func DefaultPath(name string) (string, error) {
	dir := RuntimeDir()
	if err := privateDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	return filepath.Join(dir, name), nil
}

// PeerOf returns the credentials of the process that connected c.
func PeerOf(c net.Conn) (Peer, error) {
	if own, ok := c.(*Conn); ok {
		return own.Peer, nil
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Peer{}, fmt.Errorf("peer credentials: %T is not a Unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	var p Peer
	var perr error
	if err := raw.Control(func(fd uintptr) { p, perr = peerOf(int(fd)) }); err != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", err)
	}
	if perr != nil {
		return Peer{}, fmt.Errorf("peer credentials: %w", perr)
	}
	return p, nil
}

// A Conn is a connection whose peer is known.
type Conn struct {
	*net.UnixConn
	Peer Peer
}

// A Listener accepts connections of those whom Options let in. Its Accept
// returns a *Conn.
type Listener struct {
	*net.UnixListener
	path    string
	options Options
	release func() // removes the socket file; nil if it is not ours
}

// Accept waits for the next connection that may come in. All others are closed
// and reported to Options.Refused.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		p, err := PeerOf(c)
		if err == nil {
			err = l.options.admit(p)
		}
		if err == nil {
			return &Conn{UnixConn: c, Peer: p}, nil
		}
		c.Close()
		if l.options.Refused != nil {
			l.options.Refused(p, err)
		}
	}
}

// Addr is the path that Listen was given: the socket was bound at another one.
func (l *Listener) Addr() net.Addr {
	if l.path == "" {
		return l.UnixListener.Addr()
	}
	return &net.UnixAddr{Name: l.path, Net: "unix"}
}

// Close stops listening and removes the socket, if the path still leads to it.
func (l *Listener) Close() error {
	if l.release != nil {
		l.release()
	}
	return l.UnixListener.Close()
}

// admit lets in the same user, root, and everybody when there is a group: who
// could then connect was the kernel's decision, by the socket's mode.
func (o Options) admit(p Peer) error {
	if p.UID == os.Geteuid() || p.UID == 0 || o.Group != nil {
		return nil
	}
	return fmt.Errorf("uid %d may not connect to a socket of uid %d", p.UID, os.Geteuid())
}
