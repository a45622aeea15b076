package confinetest

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
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

// serveUnix serves a stream and a datagram socket, and an abstract one.
func serveUnix(t *testing.T, stream, datagram string) {
	t.Helper()
	for _, path := range []string{stream, "@sandgate-test"} {
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
