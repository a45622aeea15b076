package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/tools"
)

// callServer makes a call of a tool of one of the session's servers.
func (s *Supervisor) callServer(ctx context.Context, c *call, plan tools.Plan) error {
	op := plan.MCP
	if err := c.session.servers.Drift(ctx, op); err != nil {
		return failure.Drift(err)
	}
	if err := c.release(plan); err != nil {
		return err
	}
	p := c.session.servers.Running(op.Server)
	if p == nil {
		return protocol.Errorf(protocol.CodeServerFailed, "the MCP server %s has ended", op.Server).WithHint("call again: it is started then")
	}
	c.enforced = p.Enforced()
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Running})
	ended, err := s.keepChanges(c, plan) // of what the server does beside its calls its process has a record, once it ends
	if err != nil {
		return err
	}
	started := time.Now()
	a, left, err := p.Call(ctx, op, plan.Profile.Limits)
	c.result.Duration = time.Since(started)
	c.violations = append(c.violations, outcome.LeftBy(left)...)
	ended()
	if err != nil {
		return err
	}
	c.result.Cause, c.result.Truncated = confine.Exited, a.Truncated
	if a.IsError {
		c.result.ExitCode = 1
	}
	c.answered = &answered{a.Content, a.Structured}
	return nil
}

// digestOfTools identifies what a session can call.
func digestOfTools(own string, more []protocol.Tool) string {
	if len(more) == 0 {
		return own
	}
	sum := sha256.Sum256(append([]byte(own), must.JSON(more)...))
	return "sha256:" + hex.EncodeToString(sum[:])
}
