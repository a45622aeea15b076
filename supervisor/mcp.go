package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/mcphost"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/mcp"
)

// registry is where a call's tool is found: those of the configuration, or those of
// the session's MCP server that the name belongs to.
func (s *Supervisor) registry(x *session, tool string) (*tools.Registry, error) {
	server := s.cfg.MCP.Server(tool)
	if server == nil {
		return s.cfg.Tools, nil
	}
	p := x.servers.Running(server.Name)
	if p == nil {
		return nil, protocol.Errorf(protocol.CodeServerFailed, "the MCP server %s has ended", server.Name).WithHint("call again: it is started then")
	}
	return p.Tools(), nil
}

// forecastRegistry is registry where no server is started for it.
func (s *Supervisor) forecastRegistry(x *session, tool string) (*tools.Registry, error) {
	if server := s.idle(x, tool); server != nil {
		return tools.ShippedRegistry(server.Unlisted(tool))
	}
	return s.registry(x, tool)
}

// idle is the MCP server that a tool belongs to, if it does not run; else nil.
func (s *Supervisor) idle(x *session, tool string) *mcp.Server {
	server := s.cfg.MCP.Server(tool)
	if server == nil || x.servers.Running(server.Name) != nil {
		return nil
	}
	return server
}

// launch carries out the calls that the MCP servers of a session are.
func (s *Supervisor) launch(x *session) mcphost.Launch {
	return func(ctx context.Context, p *mcphost.Process, n int) (confine.Result, error) {
		name := p.Server().ProcessName()
		req := protocol.ToolsCall{SessionID: x.id, CallID: protocol.CallID(fmt.Sprintf("%s.%d", name, n)), Tool: protocol.ToolName(name)}
		began := false
		notice := func(_ protocol.Method, params any) {
			if state, ok := params.(protocol.ToolState); ok && state.State == protocol.Running {
				began = true
				p.Started()
			}
		}
		k := &ofServer{process: p}
		r, err := s.carryOut(ctx, nil, k, x.peer, req, notice)
		if err == nil && !began && len(r.Content) > 0 {
			err = errors.New(strings.TrimPrefix(strings.TrimSpace(r.Content[0].Text), "sandgate: ")) // its program was not found
		}
		return k.ended, err
	}
}

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
	ended := s.keepChanges(c, plan) // of what the server does beside its calls its process has a record, once it ends
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
