package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/external"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/mcp"
)

// propose is check for any arguments: the agent's, or those that an approver has
// put in their place.
func (s *Supervisor) propose(ctx context.Context, x *session, req protocol.ToolsCall) (tools.Proposal, error) {
	registry, err := s.registry(x, string(req.Tool))
	if err != nil {
		return tools.Proposal{}, err
	}
	return s.proposeFrom(ctx, registry, req)
}

func (s *Supervisor) proposeFrom(ctx context.Context, registry *tools.Registry, req protocol.ToolsCall) (tools.Proposal, error) {
	return s.proposeAs(registry, req, tools.Call{Done: ctx.Done()})
}

// proposeAs is proposeFrom with what the call is besides its tool and arguments.
func (s *Supervisor) proposeAs(registry *tools.Registry, req protocol.ToolsCall, call tools.Call) (tools.Proposal, error) {
	args, err := req.DecodeArgs()
	if err != nil {
		return tools.Proposal{}, &protocol.Error{Code: protocol.CodeInvalidArguments, Message: err.Error()}
	}
	call.Tool, call.Args, call.Metadata = string(req.Tool), args, req.Metadata
	p, err := registry.Plan(call)
	if k := s.keeper(); err == nil && p.Request == nil && k.Keeps(p.Plan) && k.Rests(p.Plan) {
		call.Unkept = true
		p, err = registry.Plan(call)
	}
	if err != nil {
		return p, err
	}
	p.Plan.Profile = s.profiles.Bounded(p.Plan.Profile, s.cfg.Operator)
	bounds.Set(&p, call.Unkept)
	if ms := req.TimeoutMS; ms > 0 {
		limits := &p.Plan.Profile.Limits
		limits.Wall = min(limits.Wall, time.Duration(ms)*time.Millisecond)
	}
	return p, nil
}

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

// question is a call as approval sees it.
func (s *Supervisor) question(c *call, p tools.Proposal, checked error) approval.Call {
	q := s.proposed(subject{p, c.req.Args}, c.digest, c.warnings)
	q.Unseen = s.unseen(c, p)
	q.ID, q.Asked, q.Err, q.ApprovalID = string(c.req.CallID), c.tellPending, checked, string(c.req.ApprovalID)
	q.SessionID, q.Agent, q.Mode = string(c.session.id), c.session.agent, c.session.mode
	q.Peer = c.session.peer.String()
	q.SessionName, q.SessionMetadata, q.Metadata = c.session.name, c.session.metadata, s.metadata(c)
	q.ToolName, q.BatchID, q.Args = ruledAs(c.req.Tool, p.Plan), c.req.GroupID, c.req.Args
	q.Annotations, q.Connector = s.annotations(q.ToolName), p.Connector
	c.kind.question(s, c, p, &q)
	for _, b := range c.req.BatchRemaining {
		q.BatchRemaining = append(q.BatchRemaining, b.String())
	}
	return q
}

// proposed describes a proposal to approval, for the agent's arguments or an approver's.
func (s *Supervisor) proposed(p subject, digest string, warnings []string) approval.Call {
	q := approval.Call{
		Request: p.Request,
		Reach:   p.Reach,
		Rule:    p.Rule,
		Changed: p.Changed,
		Digest:  digest,
		Subject: p,
		Present: p.Present,
		Details: func() map[string]string { return s.details(p.Proposal, digest, warnings) },
	}
	if p.Plan.Action.Exec != nil {
		q = bounded(q, p.Plan)
	}
	return q
}

// bounded is a question about a program whose remembered answers hold while it reaches no more than now.
func bounded(q approval.Call, plan tools.Plan) approval.Call {
	q.Boundary = func() string { return bounds.BoundaryOf(plan).Text() }
	q.Within = func(then string) bool { return bounds.BoundaryOf(plan).Within(then) }
	return q
}

// revise is the call with the arguments of an approver: checked like the agent's.
func (s *Supervisor) revise(x *session, req protocol.ToolsCall, args json.RawMessage) (approval.Call, error) {
	req.Args = args
	p, err := s.propose(context.Background(), x, req)
	if err != nil {
		return approval.Call{}, err
	}
	if p.Review && s.cfg.DraftOver == nil {
		return approval.Call{}, errors.New("with these arguments the call has to be reviewed: deny it, and have the agent make that one")
	}
	if err := x.bindTask(&p); err != nil {
		return approval.Call{}, err
	}
	bounds.Freeze(&p, x.mode)
	bounds.Withhold(&p, x.mode)
	profile, digest := s.digests(p.Plan)
	return s.proposed(subject{p, args}, digest, profile.Warnings), nil
}

// annotations are a tool's claims about itself.
func (s *Supervisor) annotations(tool string) *approval.Annotations {
	d, err := s.cfg.Tools.Definition(tool)
	if err != nil {
		return nil
	}
	return &d.Annotations
}

// digests is plan.Digest, and what is known of the plan's profile.
func (s *Supervisor) digests(plan tools.Plan) (bounds.KnownProfile, string) {
	profile := s.profiles.Known(plan.Profile)
	return profile, plan.DigestWith(profile.Json)
}

// digestOf is plan.Digest.
func (s *Supervisor) digestOf(plan tools.Plan) string {
	_, digest := s.digests(plan)
	return digest
}

// ask puts a call to approval.
func (s *Supervisor) ask(ctx context.Context, c *call, p tools.Proposal, checked error) (approval.Grant, error) {
	q := s.question(c, p, checked)
	if c.req.Defer {
		return s.cfg.Approvals.Defer(ctx, q)
	}
	defer c.place.WasAsked()
	return s.cfg.Approvals.Decide(ctx, q)
}
