package supervisor

import (
	"time"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// A session with a name outlives its connection, for runtimes that start a program for each
// call. Any process of the same user that opens a session with the same agent and name joins
// it.

const (
	// namedIdle is how long a named session is kept that no connection is in.
	namedIdle = 30 * time.Minute
	// maxNamed bounds them; beyond it the one that has been idle longest is closed.
	maxNamed = 1024
)

// begin reports false for a call whose id another connection in the session uses now.
func (n *nameHolder) begin(id protocol.CallID) bool {
	if n == nil {
		return true
	}
	if n.active[id] {
		return false
	}
	n.active[id] = true
	return true
}

// openNamed joins the session of a name, or makes it.
func (s *Supervisor) openNamed(peer unixsock.Peer, p protocol.SessionOpen) (protocol.SessionOpened, error) {
	s.naming.Lock() // two that make the same at once would each have one
	defer s.naming.Unlock()
	key := sessionName{peer.UID, p.Agent, p.Name, p.Mode}
	if x := s.join(key); x != nil {
		return protocol.SessionOpened{SessionID: x.id, Mode: x.mode, Resumed: true}, nil
	}
	s.makeRoom(maxNamed)
	opened, err := s.openSession(peer, p, nil)
	if err != nil {
		return opened, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[opened.SessionID]; x != nil {
		x.named = &nameHolder{key: key, in: 1, active: map[protocol.CallID]bool{}}
		s.named[key] = x
	}
	return opened, nil
}

// join is nil if there is no such session.
func (s *Supervisor) join(key sessionName) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.named[key]
	if x == nil || s.closed {
		return nil
	}
	x.named.in++
	if x.named.idle != nil {
		x.named.idle.Stop()
		x.named.idle = nil
	}
	return x
}

// LeaveSession implements server.Supervisor: the connection that was in the session is gone. One
// without a name is over then.
func (s *Supervisor) LeaveSession(id protocol.SessionID) error {
	s.mu.Lock()
	x := s.sessions[id]
	if x == nil {
		s.mu.Unlock()
		return nil // somebody else who was in it closed it
	}
	if x.named == nil {
		s.mu.Unlock()
		_, err := s.CloseSession(id)
		return err
	}
	defer s.mu.Unlock()
	if x.named.in--; x.named.in == 0 {
		x.named.idleSince = time.Now()
		x.named.idle = time.AfterFunc(namedIdle, func() { s.closeIdle(x) })
	}
	return nil
}

// unname takes a session out of the names. Supervisor.mu is held.
func (s *Supervisor) unname(x *session) {
	if x.named == nil {
		return
	}
	if x.named.idle != nil {
		x.named.idle.Stop()
	}
	delete(s.named, x.named.key)
}

// closeIdle closes a session unless a connection has come back to it.
func (s *Supervisor) closeIdle(x *session) {
	s.mu.Lock()
	abandoned := s.sessions[x.id] == x && x.named.in == 0
	if abandoned {
		s.unname(x) // nobody joins it from here on
	}
	s.mu.Unlock()
	if abandoned {
		_, _ = s.CloseSession(x.id) // a log that does not take the entry is in status
	}
}

// makeRoom closes a named session if there are as many as most. If all are in use none is
// closed, and the connections bound their number.
func (s *Supervisor) makeRoom(most int) {
	s.mu.Lock()
	var longest *session
	if len(s.named) >= most {
		for _, x := range s.named {
			if x.named.in == 0 && (longest == nil || x.named.idleSince.Before(longest.named.idleSince)) {
				longest = x
			}
		}
	}
	s.mu.Unlock()
	if longest != nil {
		s.closeIdle(longest)
	}
}
