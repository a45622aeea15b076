package approval

import "fmt"

// What may wait for people at one time. A request is copied to every approver and to the
// journal, and kept until it is answered: without a bound, an agent that asks for much
// would take the memory of everybody's supervisor, and the approvers' lists with it.
const (
	maxAsked      = 8 << 20 // bytes of one request: its payload, arguments and texts
	maxPeerBytes  = 32 << 20
	maxBytes      = 64 << 20
	maxPeerAsked  = 12_000 // requests: a runtime asks for many agents
	maxTotalAsked = 24_000
	askedOverhead = 2 << 10 // of a request beside its texts: details, times, names
)

// A room counts what waits, and approvals that wait to be taken. Controller.mu guards it.
type room struct {
	total use
	peers map[string]use
}

// A use is of a part of the room.
type use struct{ requests, bytes int }

func (u use) and(bytes int) use { return use{u.requests + 1, u.bytes + bytes} }

func (u use) without(bytes int) use { return use{u.requests - 1, u.bytes - bytes} }

func (u use) within(requests, bytes int) bool { return u.requests <= requests && u.bytes <= bytes }

// size is the room that q takes.
func (q *question) size() int {
	n := askedOverhead + len(q.payload) + len(q.call.Args) + len(q.call.SessionMetadata) + len(q.call.Metadata)
	if r := q.call.Request; r != nil {
		n += len(r.Description)
	}
	for _, s := range q.call.BatchRemaining {
		n += len(s)
	}
	return n
}

// take makes room for p, or says what there is too much of.
func (r *room) take(p *pending) *verdict {
	size, peer := p.q.size(), p.q.call.Peer
	total, own := r.total.and(size), r.peers[peer].and(size)
	switch {
	case size > maxAsked:
		return verdictRoom(fmt.Sprintf("the call is too long for an approval request: %d bytes, at most %d are allowed", size, maxAsked),
			"Make the call shorter, or split it into several.")
	case !own.within(maxPeerAsked, maxPeerBytes):
		return verdictRoom(fmt.Sprintf("too many pending requests: a client may have %d of them, with %d bytes together", maxPeerAsked, maxPeerBytes),
			"Wait until some of the requests are answered.")
	case !total.within(maxTotalAsked, maxBytes):
		return verdictRoom(fmt.Sprintf("too many pending requests: at most %d, with %d bytes together, can wait at one time", maxTotalAsked, maxBytes),
			"Wait until some requests are answered, including those of other agents.")
	}
	if r.peers == nil {
		r.peers = map[string]use{}
	}
	r.total, r.peers[peer], p.held = total, own, size
	return nil
}

// leave gives back what p took, once.
func (r *room) leave(p *pending) {
	if p.held == 0 {
		return
	}
	peer := p.q.call.Peer
	r.total, r.peers[peer] = r.total.without(p.held), r.peers[peer].without(p.held)
	if r.peers[peer].requests == 0 {
		delete(r.peers, peer)
	}
	p.held = 0
}

func verdictRoom(reason, hint string) *verdict {
	return &verdict{action: Denied, source: SourceAsk, code: CodeLimit, reason: reason, hint: hint}
}
