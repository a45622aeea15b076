package main

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// A tunnel stands between a browser and the page, as `ssh -L` does: it listens under
// another address of loopback with the same port, and a test can cut its connections.
type tunnel struct {
	t           *testing.T
	network, to string
	mu          sync.Mutex
	open        []net.Conn
}

// throughTunnel has a browser look for the page at the tunnel's end.
const throughTunnel = "--host-resolver-rules=MAP *.localhost 127.0.0.2"

func newTunnel(t *testing.T, address string) *tunnel {
	t.Helper()
	_, port, _ := strings.Cut(address, ":")
	return newTunnelOf(t, "tcp", "127.0.0.2:"+port, address)
}

// newTunnelOf leads from one address of a network to another.
func newTunnelOf(t *testing.T, network, at, to string) *tunnel {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	x := &tunnel{t: t, network: network, to: to}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			x.carry(c)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		x.cut()
	})
	return x
}

func (x *tunnel) carry(near net.Conn) {
	far, err := net.Dial(x.network, x.to)
	if err != nil {
		near.Close()
		return
	}
	x.mu.Lock()
	x.open = append(x.open, near, far)
	x.mu.Unlock()
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			io.Copy(pair[0], pair[1])
			pair[0].Close()
			pair[1].Close()
		}()
	}
}

// cut ends every connection; new ones are carried.
func (x *tunnel) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.open {
		c.Close()
	}
	x.open = nil
}
