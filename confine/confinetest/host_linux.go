package confinetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
)

// leak opens a descriptor that children inherit.
func leak(t *testing.T) {
	t.Helper()
	fd, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 200)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd); unix.Close(high) })
}

func listen(t *testing.T) (port int, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().(*net.TCPAddr).Port, func() { l.Close() }
}

// keys: the user's keyrings are not part of any namespace. A container may bar its
// processes from all of them; then there is no key outside to see either.
func keys(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	name := filepath.Base(ws)
	if addKey(t, name) {
		if b, err := os.ReadFile("/proc/keys"); err != nil || !strings.Contains(string(b), name) {
			t.Fatalf("outside, the key is not seen: %v", err)
		}
	}
	for _, file := range []string{"/proc/keys", "/proc/key-users"} {
		// Containers lay /dev/null over it.
		act := fmt.Sprintf("if not open(%q).read(): raise FileNotFoundError(2, 'empty')", file)
		if got := Python(t, c, Profile(t, ws), ws, act); got != "EACCES" && got != "ENOENT" {
			t.Errorf("read of %s: %s", file, got)
		}
	}
	hostKeys(t, c)
}

// hostKeys: what names a key may be shown, what uses one is refused.
func hostKeys(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	name := filepath.Base(ws)
	addKey(t, name)
	// By number, since the C library has no wrapper; -3 and -4 are the session's and the
	// user's keyring.
	for _, call := range []string{
		fmt.Sprintf("%d, %d, -4, b'user', b'%s', 0", unix.SYS_KEYCTL, unix.KEYCTL_SEARCH, name),
		fmt.Sprintf("%d, %d, -4, 1", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID),
		fmt.Sprintf("%d, %d, -3, 1", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID),
		fmt.Sprintf("%d, b'user', b'%s', b'x', 1, -4", unix.SYS_ADD_KEY, name),
		fmt.Sprintf("%d, b'user', b'%s', 0, -4", unix.SYS_REQUEST_KEY, name),
	} {
		act := "import ctypes\nif ctypes.CDLL(None, use_errno=True).syscall(" + call + ") < 0: raise OSError(ctypes.get_errno(), '')"
		if got := Python(t, c, Profile(t, ws), ws, act); got != "EPERM" && got != "ENOSYS" {
			t.Errorf("syscall(%s): %s", call, got)
		}
	}
	if got := Python(t, c, Profile(t, ws), ws, "open('/proc/version').read()"); got != "ok" {
		t.Errorf("read of another file of /proc: %s", got)
	}
}

// addKey adds a key to the user's keyring (add_key(2)), and gives false where a filter
// bars that.
func addKey(t *testing.T, name string) bool {
	t.Helper()
	id, err := unix.AddKey("user", name, []byte("hunter2"), unix.KEY_SPEC_USER_KEYRING)
	if err == unix.EPERM || err == unix.ENOSYS { // as Docker's filter answers, and podman's
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0) })
	return true
}

// serveUnix serves a stream and a datagram socket, and an abstract one.
func serveUnix(t *testing.T, stream, datagram string) {
	t.Helper()
	for _, path := range []string{stream, abstractName()} {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
	}
	p, err := net.ListenPacket("unixgram", datagram)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
}

// WorkingIn are the processes whose directory is dir.
func WorkingIn(t *testing.T, dir string) []int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == dir {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// errnoOf is the name of an error of the kernel's, or what the error says.
func errnoOf(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}
