package loopback

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAnAddressThatComesLater: where ::1 is not up, its port is held all the same: whoever
// waits for it to come up does not get the port, and it is answered there from then on.
func TestAnAddressThatComesLater(t *testing.T) {
	if os.Getenv("LOOPBACK_APART") == "" {
		c := exec.Command("/proc/self/exe", "-test.run=^TestAnAddressThatComesLater$", "-test.v")
		c.Env = append(os.Environ(), "LOOPBACK_APART=1")
		c.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS")) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	// The loopback of a new network namespace is down: neither address is there.
	if _, err := net.Listen("tcp6", "[::1]:0"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Fatalf("::1 is there already: %v", err)
	}
	ls, err := Listen(0)
	if err != nil || len(ls) != 2 {
		t.Fatal(ls, err)
	}
	l := Joined(ls)
	defer l.Close()
	up(t)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	if other, err := Listen(port); !errors.Is(err, ErrTaken) {
		t.Error(other, err)
	}
	for _, l := range ls {
		if other, err := net.Listen("tcp", l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(other, err)
		}
		go func() {
			if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
				c.Close()
			}
		}()
	}
	reached := map[string]bool{}
	for range ls {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		reached[c.LocalAddr().String()] = true
		c.Close()
	}
	for _, l := range ls {
		if !reached[l.Addr().String()] {
			t.Errorf("nobody was let in at %s", l.Addr())
		}
	}
}

// up brings the loopback of this network namespace up.
func up(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err == nil {
		r.SetUint16(unix.IFF_UP)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	if err != nil {
		t.Fatal(err)
	}
}
