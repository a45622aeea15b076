package egress

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// lastWords are more than the kernel keeps for a reader that waits.
const lastWordsSize = 12 << 20

// TestLastWordsArrive: what a program inside has sent arrives, though it ended at once: the answer of a server, and what a
// client reports. An outer end that does not close keeps nothing open. A connection whose inner end is open is not
// waited for without end. Without Finish the rest is lost.
func TestLastWordsArrive(t *testing.T) {
	want := blob(lastWordsSize, 7)
	// inward is a server inside that answers and ends; the host's client begins to read after that.
	inward := func(t *testing.T) (outer net.Conn, finish, stop func()) {
		written := make(chan bool)
		e := startEntrance(t, Limits{}, 1, leadsTo(serveTCP(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 1))
			close(written)
			conn.Write(want)
		})))
		e.ending.atMost = time.Minute // 12 MiB are a lot for a busy machine
		conn := dialTCP(t, e.addrs[0])
		conn.Write([]byte("?"))
		<-written
		return conn, e.finish, e.stop
	}
	// outward is a client inside that reports and ends; the server outside begins to read after that.
	outward := func(t *testing.T) (outer net.Conn, finish, stop func()) {
		w := newWorld()
		conns, read := make(chan net.Conn, 1), make(chan bool)
		w.site("a.example.org", "93.184.216.34", 2000, serveTCP(t, func(conn net.Conn) {
			conns <- conn
			<-read
		}))
		t.Cleanup(func() { close(read) })
		p := startProxy(t, w, allow("a.example.org:2000"))
		p.server.ending.atMost = time.Minute
		conn, _, _ := connectTo(t, p, "a.example.org:2000")
		go func() {
			conn.Write(want)
			conn.Close()
		}()
		return <-conns, p.server.Finish, p.stop
	}
	for name, start := range map[string]func(*testing.T) (net.Conn, func(), func()){"inward": inward, "outward": outward} {
		leavesNothing(t, name, func(t *testing.T) {
			outer, finish, stop := start(t)
			done := make(chan bool)
			go func() { finish(); stop(); close(done) }()
			got, err := io.ReadAll(outer)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
			}
			<-done // the outer end is open
			outer.Close()
		})
		leavesNothing(t, name+", without Finish", func(t *testing.T) {
			outer, _, stop := start(t)
			stop()
			if got, _ := io.ReadAll(outer); len(got) >= len(want) {
				t.Errorf("all %d bytes arrived", len(got))
			}
			outer.Close()
		})
	}
	leavesNothing(t, "an inner end that is open", func(t *testing.T) {
		e := startEntrance(t, Limits{}, 1, leadsTo(serveTCP(t, func(conn net.Conn) { io.Copy(conn, conn) })))
		conn := dialTCP(t, e.addrs[0])
		conn.Write([]byte("x"))
		io.ReadFull(conn, make([]byte, 1))
		e.finish()
		e.stop()
		conn.SetDeadline(time.Now().Add(30 * time.Second))
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("it goes on: %d, %v", n, err)
		}
		conn.Close()
	})
}
