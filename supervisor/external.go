package supervisor

import (
	"context"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// A call that is decided here and carried out elsewhere, by the agent's runtime. It
// takes the path of any other as far as the release, and is recorded as what it is: no
// sandbox of ours holds it. What of the plan only a sandbox could keep is refused.

// Decide implements server.Supervisor: it decides and records a call that the agent makes itself.
func (s *Supervisor) Decide(ctx context.Context, peer unixsock.Peer, p protocol.ToolsDecide, notify func(protocol.Method, any)) (protocol.ToolsDecided, error) {
	c, err := s.receive(byAgent{asks: p.Ask == protocol.AgentAsks}, peer, p.ToolsCall(), notify)
	if err != nil {
		return protocol.ToolsDecided{}, err
	}
	defer s.release(c)
	if c.session.draft != nil {
		return protocol.ToolsDecided{}, s.end(c, s.record(c, c.kind.onDraft()))
	}
	ctx, cancel := c.join(ctx)
	defer cancel()
	if err := s.end(c, s.record(c, failure.WithCause(ctx, s.perform(ctx, c)))); err != nil {
		return protocol.ToolsDecided{}, err
	}
	return protocol.ToolsDecided{Decision: c.wireDecision(), PlanDigest: c.digest, Warnings: s.warnings(c)}, nil
}
