package loopback

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestTheKernelSaysWhose a connection is, at both addresses.
func TestTheKernelSaysWhose(t *testing.T) {
	for _, c := range [][3]string{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}} {
		l, err := net.Listen(c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if uid, known := userOf(conn); !known || uid != os.Geteuid() {
			t.Errorf("%s: %d, %v", c[1], uid, known)
		}
	}
}

// TestOthersKeepNobodyOut: however many connections other users hold, this user's are answered
// at once, and those beyond the places of others are closed. Only root can start a program of
// another user's; for everybody, some of our own are taken for such a one's instead.
func TestOthersKeepNobodyOut(t *testing.T) {
	const flood = 2 * maxConnections
	answered := func(t *testing.T, address string) {
		t.Helper()
		c := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := c.Get("http://" + address + "/")
		if err != nil {
			t.Fatalf("this user is kept out: %v", err)
		}
		res.Body.Close()
	}
	serve := func(t *testing.T, change func(*places)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p := newPlaces(l)
		change(p)
		hs := &http.Server{Handler: http.NotFoundHandler()}
		ended := make(chan error, 1)
		go func() { ended <- hs.Serve(p) }()
		t.Cleanup(func() { hs.Close(); <-ended })
		return l.Addr().String()
	}
	t.Run("narrowed", func(t *testing.T) {
		var others atomic.Bool
		address := serve(t, func(p *places) {
			p.userOf = func(net.Conn) (int, bool) {
				if others.Load() {
					return os.Geteuid() + 1, true
				}
				return os.Geteuid(), true
			}
		})
		others.Store(true)
		for i := range flood {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "GET / HTTP/1.1\r\nX: ")
			if i < maxOthers { // it has a place
				continue
			}
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("connection %d of others is not closed: %v", i, err)
			}
		}
		others.Store(false)
		answered(t, address)
	})
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program of another user's; the narrowed twin ran")
	}
	t.Run("really", func(t *testing.T) {
		address := serve(t, func(*places) {})
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		const nobody = 65534
		cmd := exec.Command("/usr/bin/python3", "-c", fmt.Sprintf(`
import socket, sys
held = []
for _ in range(%d):
    s = socket.create_connection(("127.0.0.1", %s))
    try: s.send(b"GET / HTTP/1.1\r\nX: ")
    except OSError: pass
    held.append(s)
print("held", flush=True)
sys.stdin.read()`, flood, port))
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer in.Close()
		if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		answered(t, address)
	})
}
