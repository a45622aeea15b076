package serve

import (
	"errors"
	"fmt"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/internal/unixsock"
)

// sockets are the two listeners of a supervisor.
type sockets struct {
	agent, operator *unixsock.Listener
}

func (s *sockets) close() {
	for _, l := range []*unixsock.Listener{s.agent, s.operator} {
		if l != nil {
			_ = l.Close() // it is removed; there is nothing to do about a failure
		}
	}
}

// listenBoth makes both sockets, or takes those that systemd passed.
func listenBoth(a *cli.App, f serveFlags) (*sockets, error) {
	o := unixsock.Options{Refused: func(p unixsock.Peer, err error) {
		fmt.Fprintf(a.Err, "sandgate: refused a connection of %v: %s\n", p, approval.EscapeLine(err.Error()))
	}}
	passed, err := unixsock.Activated(o, "agent", "operator")
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	s := &sockets{agent: passed["agent"], operator: passed["operator"]}
	if s.operator == nil { // the first: whoever finds the agents' finds this one too
		s.operator, err = listenAt(f.operator, unixsock.OperatorSocket, o)
	}
	if err == nil && s.agent == nil {
		s.agent, err = listenAt(f.socket, unixsock.AgentSocket, o)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func listenAt(path, name string, o unixsock.Options) (*unixsock.Listener, error) {
	if path == "" {
		var err error
		if path, err = unixsock.DefaultPath(name); err != nil {
			return nil, cli.WithStatus(cli.ExitInternal, err)
		}
	}
	l, err := unixsock.Listen(path, o)
	if errors.Is(err, unixsock.ErrInUse) {
		err = cli.WithHint(err, "another supervisor uses this socket; stop it, or choose other paths with --socket and --operator-socket")
	}
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	return l, nil
}
