package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/loopback"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Ports know which port of this machine is exposed for which call, so that a call that
// does not get one learns which call has it.
type Ports struct {
	mu    sync.Mutex
	calls map[uint16]Holder
}

// A Holder is a call that has a port.
type Holder struct {
	Session string
	// Name is the call's name for people, and Ends says how to end it.
	Name, Ends string
	// Alone is set if the call wants each of its ports for itself: it goes on after its answer.
	Alone bool
}

func (h *Ports) note(port uint16, c Holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[uint16]Holder{}
	}
	h.calls[port] = c
}

// drop forgets a port whose listeners are about to be closed.
func (h *Ports) drop(port uint16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.calls, port)
}

func (h *Ports) holder(port uint16) (Holder, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c, ok := h.calls[port]
	return c, ok
}

// Doors are the ports of one call that are exposed.
type Doors struct {
	Exposed  []protocol.ExposedPort
	Warnings []string
	// Stop ends every connection; its error means that one could not be recorded.
	Stop func() error
}

// In exposes the ports of a plan for as long as its call runs. A port that cannot be had is
// an error here, before anything runs.
func In(ctx context.Context, limits egress.Limits, ports *Ports, who Holder, c Caller, plan tools.Plan, box confine.Sandbox) (Doors, error) {
	d := Doors{Stop: func() error { return nil }}
	wanted := plan.Profile.Network.Ports()
	if len(wanted) == 0 {
		return d, nil
	}
	exposed, ok := box.(confine.Exposed)
	if !ok {
		return d, &confine.Unenforceable{Part: exposePart, Reason: "sandboxes of this backend do not have their own network"}
	}
	enter, err := exposed.Entrance()
	if err != nil {
		return d, err
	}
	log := &doorLog{c: c}
	entrance, err := egress.NewEntrance(egress.Config{Audit: log.record, Identity: c.Identity, Limits: limits}, enter)
	if err != nil {
		return d, err
	}
	doors, err := d.listen(ports, who, wanted)
	if err != nil {
		return d, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = entrance.Serve(ctx, doors) // a failing listener closes its door, and nothing else
	}()
	d.Stop = func() error {
		ports.forget(doors)
		entrance.Finish()
		cancel()
		<-done
		return log.failed()
	}
	return d, nil
}

const exposePart = "network.expose"

// listen opens a door for each port, or none.
func (d *Doors) listen(ports *Ports, who Holder, wanted []sandboxprofile.ExposedPort) (doors []egress.Door, err error) {
	defer func() {
		if err != nil {
			ports.forget(doors)
			closeDoors(doors)
		}
	}()
	var exposed []protocol.ExposedPort
	for _, p := range wanted {
		listeners, err := loopback.Listen(p.Host)
		if errors.Is(err, loopback.ErrTaken) && !who.Alone && ports.own(who, p.Host) {
			d.Warnings = append(d.Warnings, fmt.Sprintf("Port %d of this machine is exposed for another call of this session, and not for this one.", p.Host))
			continue
		}
		if err != nil {
			return doors, ports.noDoor(who, p, err)
		}
		for _, l := range listeners {
			doors = append(doors, egress.Door{Listener: l, Port: p.Inside})
		}
		at := listeners[0].Addr().(*net.TCPAddr)
		ports.note(uint16(at.Port), who)
		exposed = append(exposed, protocol.ExposedPort{Port: int(p.Inside), Address: at.String()})
	}
	d.Exposed = exposed
	return doors, nil
}

// own reports whether a port is exposed for another call of the same session.
func (h *Ports) own(who Holder, port uint16) bool {
	holder, ok := h.holder(port)
	return ok && holder.Session == who.Session
}

// noDoor says why a port cannot be had, and what would help. About another session the
// answer says only that there is one.
func (h *Ports) noDoor(who Holder, p sandboxprofile.ExposedPort, err error) error {
	cannot := &confine.Unenforceable{Part: exposePart, Reason: err.Error(), Hint: fmt.Sprintf("expose \"0:%d\": any free port, reported in the result", p.Inside)}
	if !errors.Is(err, loopback.ErrTaken) {
		return cannot
	}
	switch holder, ok := h.holder(p.Host); {
	case !ok:
		cannot.Reason = fmt.Sprintf("port %d of this machine is taken by another program", p.Host)
	case holder.Session != who.Session:
		cannot.Reason = fmt.Sprintf("port %d of this machine is exposed for another session", p.Host)
	default:
		cannot.Reason = fmt.Sprintf("port %d of this machine is exposed for the %s", p.Host, holder.Name)
		cannot.Hint = holder.Ends + ", or have the operator " + cannot.Hint
	}
	return cannot
}

// forget drops the ports of doors from the register, before they are closed: another
// server that finds a port there must not take it for its own later.
func (h *Ports) forget(doors []egress.Door) {
	for _, d := range doors {
		h.drop(uint16(d.Listener.Addr().(*net.TCPAddr).Port))
	}
}

func closeDoors(doors []egress.Door) {
	for _, d := range doors {
		d.Listener.Close()
	}
}

// doorLog records the connections that come in.
type doorLog struct {
	c Caller

	mu  sync.Mutex
	err error
}

func (d *doorLog) record(e egress.Event) {
	err := d.c.Record(e)
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
