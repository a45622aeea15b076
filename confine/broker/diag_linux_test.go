package broker

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestListenersAreFound: who listens is known by asking the kernel about one socket, and where
// it answers no such question, as one without CONFIG_INET_DIAG does, by its table.
func TestListenersAreFound(t *testing.T) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if mute := (Diag{fd: fd}); mute.finds() {
		t.Error("a kernel that knows no such question has answered it")
	}
	asking := NewDiag()
	for name, d := range map[string]*Diag{"asking": &asking, "reading the table": {}} {
		l, err := net.Listen("tcp4", "127.9.8.7:0")
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddrPort(l.Addr().String())
		if !d.listening(at) {
			t.Errorf("%s: the server at %s is not found", name, at)
		}
		l.Close()
		if d.listening(at) {
			t.Errorf("%s: the server at %s is found after its end", name, at)
		}
	}
}
