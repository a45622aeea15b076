package client

import (
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandgate/sandgate/protocol"
)

// A FakeRequest is one request that a FakeSupervisor got.
type FakeRequest struct {
	protocol.Message
	conn *fake
}

// Reply answers it.
func (r FakeRequest) Reply(v any) { r.conn.result(r.ID, v) }

// Refuse answers it with an error.
func (r FakeRequest) Refuse(e *protocol.Error) { r.conn.fail(r.ID, e) }

// Notify sends a notification on its connection.
func (r FakeRequest) Notify(m protocol.Method, v any) { r.conn.notify(m, v) }

// Hangup ends its connection.
func (r FakeRequest) Hangup() { r.conn.conn.Close() }

// FakeSupervisor serves every connection of a socket with answer, for examples,
// which have no *testing.T. stop ends the connections and removes the socket.
func FakeSupervisor(answer func(FakeRequest)) (path string, stop func()) {
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		panic(err)
	}
	path = filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	group.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[nc] = true
			mu.Unlock()
			group.Go(func() { serveFake(&fake{conn: nc}, answer) })
		}
	})
	return path, func() {
		l.Close()
		mu.Lock()
		for nc := range conns {
			nc.Close()
		}
		mu.Unlock()
		group.Wait()
		os.RemoveAll(dir)
	}
}

// serveFake answers the requests of one connection until it ends.
func serveFake(f *fake, answer func(FakeRequest)) {
	defer f.conn.Close()
	r := protocol.NewReader(f.conn)
	for {
		line, err := r.ReadMessage()
		if err != nil {
			return
		}
		m, perr := protocol.ParseRequest(line)
		if perr != nil {
			return
		}
		if m.Method == protocol.MethodInitialize {
			f.result(m.ID, protocol.Initialized{ProtocolVersion: protocol.Version, Server: protocol.Program{Name: "fake"}})
			continue
		}
		answer(FakeRequest{m, f})
	}
}
