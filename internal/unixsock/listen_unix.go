//go:build unix

package unixsock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// maxPath is the greatest length of a socket's path in bytes: sun_path without
// its final NUL, unix(7).
const maxPath = len(unix.RawSockaddrUnix{}.Path) - 1

// Listen makes a socket at path. Its directory is made with mode 0700 if it is
// missing. A socket without a listener is replaced; anything else at path stays,
// and is an error.
//
// The socket is bound in a private directory beside path, given its mode there,
// and renamed: at no moment does it exist with a looser mode, and at no moment
// does it exist and not answer.
func Listen(path string, o Options) (*Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if len(path) > maxPath {
		return nil, &PathError{Op: "listen on", Path: path, Err: fmt.Errorf("the path is longer than %d bytes", maxPath)}
	}
	unlock, err := lockDir(filepath.Dir(path), o)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := vacant(path); err != nil {
		return nil, err
	}
	l, err := bindPrivately(path, o)
	if err != nil {
		return nil, &PathError{Op: "listen on", Path: path, Err: err}
	}
	return l, nil
}

func bindPrivately(path string, o Options) (l *Listener, err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	private := filepath.Join(dir, "s")
	u, err := bind(private)
	if err != nil {
		return nil, err
	}
	u.SetUnlinkOnClose(false) // it would remove whatever is at the private path
	defer func() {
		if err != nil {
			u.Close()
		}
	}()
	if err := setMode(private, o); err != nil {
		return nil, err
	}
	id, err := os.Lstat(private)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(private, path); err != nil {
		return nil, err
	}
	return &Listener{UnixListener: u, path: path, options: o, release: func() { removeIf(path, id) }}, nil
}

// bind listens on path. A path that is too long for the system call, as the
// private one may be where the final one is not, is reached through its
// directory's descriptor.
func bind(path string) (*net.UnixListener, error) {
	if len(path) > maxPath {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

func setMode(path string, o Options) error {
	if o.Group == nil {
		return os.Chmod(path, 0o600)
	}
	if err := os.Lchown(path, -1, *o.Group); err != nil {
		return err
	}
	return os.Chmod(path, 0o660)
}

// removeIf removes path if it still is the file id: a successor may have
// replaced a socket that it found silent.
func removeIf(path string, id fs.FileInfo) {
	unlock, err := atomicfile.Lock(filepath.Dir(path))
	if err != nil {
		return
	}
	defer unlock()
	if now, err := os.Lstat(path); err == nil && os.SameFile(now, id) {
		os.Remove(path)
	}
}

// vacant reports whether a socket may be put at path: there is nothing, or a
// socket of ours without a listener.
func vacant(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return &PathError{Op: "listen on", Path: path, Err: errors.New("it exists and is not a socket"),
			HintText: "choose another path, or move what is there away"}
	}
	if err := checkOwner(fi); err != nil {
		return &PathError{Op: "listen on", Path: path, Err: err}
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		defer c.Close()
		return inUse(path, c)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return &PathError{Op: "listen on", Path: path, Err: fmt.Errorf("cannot tell whether it is in use: %w", err)}
}

func inUse(path string, c net.Conn) error {
	hint := "stop it, or choose another path"
	if p, err := PeerOf(c); err == nil && p.PID != 0 {
		hint = fmt.Sprintf("process %d is listening there: stop it, or choose another path", p.PID)
	}
	return &PathError{Op: "listen on", Path: path, Err: ErrInUse, HintText: hint}
}

// lockDir makes the directory if need be, checks it, and locks it against
// another supervisor that starts at the same moment.
func lockDir(dir string, o Options) (unlock func(), err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	check := safeDir
	if dir == RuntimeDir() && o.Group == nil {
		check = privateDir
	}
	if err := check(dir); err != nil {
		return nil, err
	}
	return atomicfile.Lock(dir)
}

// privateDir fails unless dir is a directory, no link, ours, and closed to others.
func privateDir(dir string) error {
	if err := ownDir(dir); err != nil {
		return err
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return &PathError{Op: "use directory", Path: dir, Err: fmt.Errorf("its mode is %04o, not 0700", fi.Mode().Perm()),
			HintText: "chmod 0700 " + dir}
	}
	return nil
}

// ownDir fails unless dir is a directory, no link, and ours.
func ownDir(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return &PathError{Op: "use directory", Path: dir, Err: errors.New("it is not a directory")}
	}
	if err := checkOwner(fi); err != nil {
		return &PathError{Op: "use directory", Path: dir, Err: err}
	}
	return nil
}

// safeDir fails if other users could replace what we put into dir: it belongs
// to one of them, or they may write to it and it is not sticky.
func safeDir(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return &PathError{Op: "use directory", Path: dir, Err: errors.New("it is not a directory")}
	}
	if uid := ownerOf(fi); uid != os.Geteuid() && uid != 0 {
		return &PathError{Op: "use directory", Path: dir, Err: fmt.Errorf("it belongs to uid %d, who could replace the socket", uid),
			HintText: "choose a directory of your own"}
	}
	if fi.Mode().Perm()&0o022 != 0 && fi.Mode()&fs.ModeSticky == 0 {
		return &PathError{Op: "use directory", Path: dir, Err: fmt.Errorf("its mode is %04o: others could replace the socket", fi.Mode().Perm()),
			HintText: "chmod go-w " + dir}
	}
	return nil
}

func checkOwner(fi fs.FileInfo) error {
	if uid := ownerOf(fi); uid != os.Geteuid() {
		return fmt.Errorf("it belongs to uid %d, not to uid %d", uid, os.Geteuid())
	}
	return nil
}

func ownerOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
