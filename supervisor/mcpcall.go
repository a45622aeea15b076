package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/mcpconn"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/mcp"
)

// registry is where a call's tool is found: those of the configuration, or those of
// the session's MCP server that the name belongs to.
func (s *Supervisor) registry(x *session, tool string) (*tools.Registry, error) {
	server := s.cfg.MCP.server(tool)
	switch {
	case server == nil:
		return s.cfg.Tools, nil
	case x.servers == nil: // a forecast: nothing runs, and nobody has asked the server
		return tools.ShippedRegistry(server.Unlisted(tool))
	}
	p := x.process(server.Name)
	if p == nil {
		return nil, protocol.Errorf(protocol.CodeServerFailed, "the MCP server %s has ended", server.Name).WithHint("call again: it is started then")
	}
	_, named := p.listed()
	return named, nil
}

// proposeUnlisted is propose for a tool of a server that is not to be started.
func (s *Supervisor) proposeUnlisted(ctx context.Context, server *mcp.Server, req protocol.ToolsCall) (tools.Proposal, error) {
	registry, err := tools.ShippedRegistry(server.Unlisted(string(req.Tool)))
	if err != nil {
		return tools.Proposal{}, err
	}
	return s.proposeFrom(ctx, registry, req)
}

// planStart plans the process of a server.
func (s *Supervisor) planStart(server *mcp.Server) (tools.Proposal, error) {
	p, err := server.Start()
	if err == nil {
		p.Plan.Profile = s.profiles.bounded(p.Plan.Profile, s.cfg.Operator)
	}
	return p, err
}

// callServer makes a call of a tool of one of the session's servers. The process is
// the one, and the definition the one, that was approved.
func (s *Supervisor) callServer(ctx context.Context, c *call, plan tools.Plan) error {
	op := plan.MCP
	p := c.session.process(op.Server)
	if p == nil || p.digest != op.Process {
		return drift(fmt.Errorf("the MCP server %s is not the one that was to be called", op.Server))
	}
	if t := p.tool(op.Tool); t == nil || t.Digest() != op.Definition {
		return drift(fmt.Errorf("the MCP server %s now describes %s otherwise", op.Server, op.Tool))
	}
	if err := c.release(plan); err != nil {
		return err
	}
	c.enforced = p.call.enforced
	if err := s.cfg.MCP.Approved.Put(op.Server, op.Tool, op.Definition); err != nil {
		return err
	}
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Running})
	ctx, cancel := context.WithTimeoutCause(ctx, plan.Profile.Limits.Wall, errCallWall)
	defer cancel()
	started := time.Now()
	r, err := p.conn.Call(ctx, op.Tool, op.Args)
	c.result.Duration = time.Since(started)
	return c.answeredBy(p, plan, r, err)
}

// answeredBy makes a result of what a server answered, or did not.
func (c *call) answeredBy(p *serverProcess, plan tools.Plan, r mcpconn.Result, err error) error {
	var refused *mcpconn.ServerError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		r = mcpconn.Result{IsError: true, Content: []mcpconn.Item{{Text: refused.Error()}}}
	case errors.Is(err, errCallWall):
		// It may still be at work, and may never listen again.
		_ = p.end(errCallWall)
		return protocol.Errorf(protocol.CodeTimedOut, "the MCP server %s did not answer within %v, and was ended", p.server.Name, plan.Profile.Limits.Wall).
			WithHint("ask for less at a time; the next call starts the server again")
	case isCancelled(err):
		return err
	default:
		return p.end(err)
	}
	c.result.Cause = confine.Exited
	if r.IsError {
		c.result.ExitCode = 1
	}
	c.answered = &answered{structured: r.Structured}
	c.answered.content, c.result.Truncated = contentOfItems(r.Content, plan.Profile.Limits.Output)
	if int64(len(r.Structured)) > plan.Profile.Limits.Output {
		c.answered.structured, c.result.Truncated = nil, true
	}
	return nil
}

// isCancelled reports whether an error is the agent's, the session's or the
// supervisor's word that a call is no longer wanted.
func isCancelled(err error) bool {
	for _, c := range []error{context.Canceled, server.ErrCancelled, server.ErrSessionEnding, errSessionClosed, errShuttingDown, server.ErrDisconnected} {
		if errors.Is(err, c) {
			return true
		}
	}
	return false
}

// contentOfItems is as much of a result as the limit lets through.
func contentOfItems(items []mcpconn.Item, limit int64) (list []protocol.Content, truncated bool) {
	list = []protocol.Content{}
	left := min(limit, sandboxprofile.Unlimited)
	var omitted int64
	for _, i := range items {
		c := protocol.Content{Type: protocol.ContentText, Text: i.Text, MIMEType: i.MIMEType}
		size := int64(len(i.Text))
		if i.Blob != nil {
			c, size = protocol.Content{Type: protocol.ContentBlob, Blob: i.Blob, MIMEType: i.MIMEType}, int64(len(i.Blob))
		}
		if size > left {
			if i.Blob != nil {
				omitted += size
				continue
			}
			keep := left
			for keep > 0 && !utf8.RuneStart(i.Text[keep]) {
				keep--
			}
			omitted, c.Text, size = omitted+size-keep, i.Text[:keep], keep
		}
		left -= size
		if size > 0 || omitted == 0 {
			list = append(list, c)
		}
	}
	if omitted == 0 {
		return list, false
	}
	return append(list, protocol.Content{
		Type: protocol.ContentText, Omitted: omitted, Text: fmt.Sprintf("\n[sandgate: %d bytes are left out here]\n", omitted),
	}), true
}

// serverTools lists what the MCP servers of a session offer, each started if it does
// not run. One that fails is a warning, and does not keep the others away.
func (s *Supervisor) serverTools(ctx context.Context, x *session) (list []protocol.Tool, warnings []string) {
	servers := s.cfg.MCP.Servers
	offered, failed := make([][]protocol.Tool, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			p, err := s.ready(ctx, x, server)
			if err != nil {
				failed[i] = err
				return
			}
			all, _ := p.listed()
			for _, t := range all {
				d := t.Definition()
				offered[i] = append(offered[i], protocol.Tool{
					Name: protocol.ToolName(d.Name), Description: d.Description, InputSchema: d.InputSchema,
					Annotations: protocol.Annotations(d.Annotations), Unavailable: t.Unavailable(),
					Origin: &protocol.Origin{Server: server.Name, Tool: t.Own()},
				})
			}
		})
	}
	wg.Wait()
	for i := range servers {
		list = append(list, offered[i]...)
		if e := wireError(failed[i]); e != nil {
			warnings = append(warnings, e.Message)
		}
	}
	return list, warnings
}

// digestOfTools identifies what a session can call.
func digestOfTools(own string, more []protocol.Tool) string {
	if len(more) == 0 {
		return own
	}
	sum := sha256.Sum256(append([]byte(own), mustJSON(more)...))
	return "sha256:" + hex.EncodeToString(sum[:])
}
