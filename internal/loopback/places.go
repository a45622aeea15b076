package loopback

import (
	"net"
	"os"
	"sync"
)

// Any user of the machine can connect to loopback, and hold a connection for as long as a head
// may take. So others have places of their own: when those are taken their connections are
// closed at once, and a person's page, and links to it, and their agents, have all of the rest.
const (
	maxConnections = 128 // of this user's, of root's, and where the kernel does not say
	maxOthers      = 64
)

// places bounds the connections of a listener. The semaphores hold what is open.
type places struct {
	net.Listener
	ours, others chan struct{}
	userOf       func(net.Conn) (uid int, known bool)
	done         chan struct{}
	end          func()
}

// InPlaces bounds the connections of a listener: 128 of this user and of root, and 64 of all other
// users together.
func InPlaces(l net.Listener) net.Listener { return newPlaces(l) }

func newPlaces(l net.Listener) *places {
	done := make(chan struct{})
	return &places{l, make(chan struct{}, maxConnections), make(chan struct{}, maxOthers), userOf, done, sync.OnceFunc(func() { close(done) })}
}

// Close implements net.Listener: nothing waits for a place any more.
func (p *places) Close() error {
	p.end()
	return p.Listener.Close()
}

// Accept waits for a place of ours, and for none of others.
func (p *places) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if uid, known := p.userOf(c); !known || uid == 0 || uid == os.Geteuid() {
			select {
			case p.ours <- struct{}{}:
			case <-p.done:
				c.Close()
				return nil, net.ErrClosed
			}
			return &placed{Conn: c, of: ours, leave: sync.OnceFunc(func() { <-p.ours })}, nil
		}
		select {
		case p.others <- struct{}{}:
			return &placed{Conn: c, of: others, leave: sync.OnceFunc(func() { <-p.others })}, nil
		default:
			c.Close()
		}
	}
}

// placed is a connection that leaves its place when it is closed.
type placed struct {
	net.Conn
	of    side
	leave func()
}

// A side is whose a connection is. The zero value is of another user.
type side int

const (
	others side = iota
	ours        // this user's or root's, or the kernel does not say
)

// Ours reports whether a connection of a listener InPlaces is this user's or root's, as far as the
// kernel says whose it is. Any other connection is not.
func Ours(c net.Conn) bool {
	p, ok := c.(*placed)
	return ok && p.of == ours
}

func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
