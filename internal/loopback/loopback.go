// Package loopback listens on a port of this machine under every address that
// "localhost", and each name below it, leads to: 127.0.0.1 and ::1. A program that holds
// one of them alone leaves the other to whichever user of the machine comes first, and a
// browser tries ::1 before it.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// ErrTaken is a port of this machine on which another server listens.
var ErrTaken = errors.New("the port is taken")

// tries bounds the search for a port that is free on both addresses.
const tries = 32

// Listen listens on a port of both. Port 0 is any that is free on both. Where the kernel
// has no IPv6, it listens on 127.0.0.1 alone.
func Listen(port uint16) ([]net.Listener, error) {
	for range tries {
		v4, err := listenOn("tcp4", "127.0.0.1", int(port))
		if err != nil {
			return nil, err
		}
		v6, err := listenOn("tcp6", "::1", v4.Addr().(*net.TCPAddr).Port)
		if err == nil {
			return []net.Listener{v4, v6}, nil
		}
		if lacksIPv6(err) {
			return []net.Listener{v4}, nil
		}
		v4.Close()
		if port != 0 || !errors.Is(err, ErrTaken) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no port is free on both 127.0.0.1 and ::1, %d were tried", tries)
}

func listenOn(network, host string, port int) (net.Listener, error) {
	// ::1 may come up later and goes to the first who asks, so its port is held even now.
	lc := net.ListenConfig{Control: evenAbsent}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), network, net.JoinHostPort(host, fmt.Sprint(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %w", ErrTaken, err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("this user may not listen on port %d: %w", port, err)
	}
	return l, err
}

func lacksIPv6(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}

// Joined makes one listener of several; its address is that of the first.
func Joined(listeners []net.Listener) net.Listener {
	j := &joined{listeners: listeners, accepted: make(chan accepted), closed: make(chan struct{})}
	for _, l := range listeners {
		j.running.Go(func() { j.accept(l) })
	}
	return j
}

type joined struct {
	listeners []net.Listener
	accepted  chan accepted
	closed    chan struct{}
	once      sync.Once
	running   sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

func (j *joined) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		select {
		case j.accepted <- accepted{c, err}: // an error too: whoever accepts knows which ones pass
		case <-j.closed:
			if c != nil {
				c.Close()
			}
			return
		}
	}
}

func (j *joined) Accept() (net.Conn, error) {
	select {
	case a := <-j.accepted:
		return a.conn, a.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

func (j *joined) Close() (err error) {
	j.once.Do(func() {
		close(j.closed)
		for _, l := range j.listeners {
			err = errors.Join(err, l.Close())
		}
		j.running.Wait()
	})
	return err
}

func (j *joined) Addr() net.Addr { return j.listeners[0].Addr() }
