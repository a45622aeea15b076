package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// errPortTaken is a port of this machine on which somebody listens.
var errPortTaken = errors.New("the port is taken")

// freePortTries bounds the search for a port that is free on both addresses.
const freePortTries = 32

// listenLoopback listens on a port of 127.0.0.1 and of ::1, so that "localhost" is the
// same to every program; where the machine has no IPv6, on the first alone. Port 0 is
// any that is free on both.
func listenLoopback(port uint16) ([]net.Listener, error) {
	for range freePortTries {
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
		if port != 0 || !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no port is free on both 127.0.0.1 and ::1, %d were tried", freePortTries)
}

func listenOn(network, host string, port int) (net.Listener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), network, net.JoinHostPort(host, fmt.Sprint(port)))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%w: %w", errPortTaken, err)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("this user may not listen on port %d: %w", port, err)
	}
	return l, err
}

func lacksIPv6(err error) bool {
	return errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT)
}
