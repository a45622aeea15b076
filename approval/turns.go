package approval

// Turns give requests their places in the lists of approvers, so that no agent's requests stand before all
// of another's: one runtime can have 12,000 waiting. A request has a turn when it comes, and keeps it. One session's
// have a turn each. A session that has none waiting comes in with the first that waits, but after the other sessions
// of its client: a client that opens many sessions for its requests has no more turns than one that has them in one.
// Controller.mu guards it.
type turns struct {
	first   uint64         // of those that wait
	waiting map[uint64]int // how many have each turn
	clients map[string]map[*session]*ownTurns
	all     int
}

// ownTurns are those of one session.
type ownTurns struct {
	waiting int
	last    uint64
}

// take gives p its turn.
func (t *turns) take(p *pending) {
	if t.clients == nil {
		t.waiting, t.clients = map[uint64]int{}, map[string]map[*session]*ownTurns{}
	}
	peer := p.q.call.Peer
	sessions := t.clients[peer]
	if sessions == nil {
		sessions = map[*session]*ownTurns{}
		t.clients[peer] = sessions
	}
	own := sessions[p.q.session]
	if own == nil {
		own = &ownTurns{last: t.first + uint64(len(sessions))}
		sessions[p.q.session] = own
	} else {
		own.last = max(own.last+1, t.first)
	}
	own.waiting++
	p.turn = own.last
	t.waiting[p.turn]++
	t.all++
}

// leave takes back the turn of a request that has ended.
func (t *turns) leave(p *pending) {
	peer := p.q.call.Peer
	if own := t.clients[peer][p.q.session]; own != nil {
		if own.waiting--; own.waiting == 0 {
			delete(t.clients[peer], p.q.session)
		}
	}
	if len(t.clients[peer]) == 0 {
		delete(t.clients, peer)
	}
	if t.waiting[p.turn]--; t.waiting[p.turn] == 0 {
		delete(t.waiting, p.turn)
	}
	t.all--
	for t.all > 0 && t.waiting[t.first] == 0 {
		t.first++
	}
}
