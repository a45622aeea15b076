package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/external"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/tools"
)

// A call that is decided here and carried out elsewhere, by the agent's runtime. It
// takes the path of any other as far as the release, and is recorded as what it is: no
// sandbox of ours holds it. What of the plan only a sandbox could keep is refused.

// fromElsewhere is where a runtime's own tools come from, as far as approval is concerned:
// no allow that was given for a call in a sandbox covers one without. What was denied there
// is denied here.
const fromElsewhere = "elsewhere"

const warnExternal = "the agent carries this out itself: no sandbox holds it"

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

// proposeExternal is propose for what the agent carries out itself. A tool that is not
// among ours is known by its name and arguments alone.
func (s *Supervisor) proposeExternal(ctx context.Context, req protocol.ToolsCall) (tools.Proposal, error) {
	p, err := s.proposeAs(s.cfg.Tools, req, tools.Call{Done: ctx.Done(), Elsewhere: true})
	var unknown *tools.UnknownToolError
	if errors.As(err, &unknown) {
		sum := sha256.Sum256(req.Args)
		return tools.Proposal{Plan: tools.Plan{
			Tool: string(req.Tool), Kind: tools.ByAgent, Foreign: "sha256:" + hex.EncodeToString(sum[:]),
		}}, nil
	}
	if err != nil {
		return p, err
	}
	return external.Adapt(p, req.Args)
}
