package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/loopback"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// hostPorts knows which port of this machine is exposed for which call, so that who
// does not get one is told whose it is.
type hostPorts struct {
	mu    sync.Mutex
	calls map[uint16]*call
}

func (h *hostPorts) note(port uint16, c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[uint16]*call{}
	}
	h.calls[port] = c
}

// forget drops a port whose listeners are about to be closed.
func (h *hostPorts) forget(port uint16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.calls, port)
}

func (h *hostPorts) holder(port uint16) *call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[port]
}

// openDoors exposes the ports of a plan for as long as its call runs. stop ends every
// connection; its error means that one could not be recorded. A port that cannot be
// had is an error here, before anything runs.
func (s *Supervisor) openDoors(ctx context.Context, c *call, plan tools.Plan, box confine.Sandbox) (stop func() error, err error) {
	ports := plan.Profile.Network.Ports()
	if len(ports) == 0 {
		return func() error { return nil }, nil
	}
	exposed, ok := box.(confine.Exposed)
	if !ok {
		return nil, &confine.Unenforceable{Part: exposePart, Reason: "this backend has no network of the sandbox's own"}
	}
	enter, err := exposed.Entrance()
	if err != nil {
		return nil, err
	}
	log := &doorLog{s: s, c: c}
	entrance, err := egress.NewEntrance(egress.Config{Audit: log.record, Identity: c.identity, Limits: s.cfg.Egress.Limits}, enter)
	if err != nil {
		return nil, err
	}
	doors, err := s.listen(c, ports)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = entrance.Serve(ctx, doors) // a failing listener closes its door, and nothing else
	}()
	return func() error {
		s.forget(doors)
		cancel()
		<-done
		return log.failed()
	}, nil
}

const exposePart = "network.expose"

// listen opens a door for each port, or none.
func (s *Supervisor) listen(c *call, ports []sandboxprofile.ExposedPort) (doors []egress.Door, err error) {
	defer func() {
		if err != nil {
			s.forget(doors)
			closeDoors(doors)
		}
	}()
	var exposed []protocol.ExposedPort
	for _, p := range ports {
		listeners, err := loopback.Listen(p.Host)
		if errors.Is(err, loopback.ErrTaken) && !c.kind.staysBehind() && s.ownPort(c, p.Host) {
			c.warnings = append(c.warnings, fmt.Sprintf("Port %d of this machine is exposed for another call of this session, and not for this one.", p.Host))
			continue
		}
		if err != nil {
			return doors, s.noDoor(c, p, err)
		}
		for _, l := range listeners {
			doors = append(doors, egress.Door{Listener: l, Port: p.Inside})
		}
		at := listeners[0].Addr().(*net.TCPAddr)
		s.ports.note(uint16(at.Port), c)
		exposed = append(exposed, protocol.ExposedPort{Port: int(p.Inside), Address: at.String()})
	}
	c.exposed = exposed
	return doors, nil
}

// ownPort reports whether a port is exposed for another call of c's session.
func (s *Supervisor) ownPort(c *call, port uint16) bool {
	holder := s.ports.holder(port)
	return holder != nil && holder.session == c.session
}

// noDoor says why a port cannot be had, and what would help. Of another session no more
// is told than that there is one.
func (s *Supervisor) noDoor(c *call, p sandboxprofile.ExposedPort, err error) error {
	cannot := &confine.Unenforceable{Part: exposePart, Reason: err.Error(), Hint: fmt.Sprintf("expose \"0:%d\": any free port, which the result tells", p.Inside)}
	if !errors.Is(err, loopback.ErrTaken) {
		return cannot
	}
	switch holder := s.ports.holder(p.Host); {
	case holder == nil:
		cannot.Reason = fmt.Sprintf("port %d of this machine is taken by another program", p.Host)
	case holder.session != c.session:
		cannot.Reason = fmt.Sprintf("port %d of this machine is exposed for another session", p.Host)
	default:
		name, ends := holder.kind.called(holder)
		cannot.Reason = fmt.Sprintf("port %d of this machine is exposed for the %s", p.Host, name)
		cannot.Hint = ends + ", or have the operator " + cannot.Hint
	}
	return cannot
}

// forget drops the ports of doors from the register, before they are closed: whoever
// finds a port there must not take it for another's later.
func (s *Supervisor) forget(doors []egress.Door) {
	for _, d := range doors {
		s.ports.forget(uint16(d.Listener.Addr().(*net.TCPAddr).Port))
	}
}

func closeDoors(doors []egress.Door) {
	for _, d := range doors {
		d.Listener.Close()
	}
}

// doorLog records the connections that come in.
type doorLog struct {
	s *Supervisor
	c *call

	mu  sync.Mutex
	err error
}

func (d *doorLog) record(e egress.Event) {
	err := d.s.append(context.Background(), d.c.entry(audit.KindConnection, e))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
	}
}

func (d *doorLog) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (c *call) identity() egress.Identity {
	return egress.Identity{Session: string(c.session.id), Call: string(c.req.CallID)}
}
