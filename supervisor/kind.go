package supervisor

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/mcphost"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/tools"
)

// awaited is a call that an agent has made and waits for.
type awaited struct{}

// propose starts the MCP server that the tool belongs to, if it does not run.
func (awaited) propose(ctx context.Context, s *Supervisor, c *call) (tools.Proposal, error) {
	if server := s.cfg.MCP.Server(string(c.req.Tool)); server != nil {
		if _, err := c.session.servers.Ready(ctx, server); err != nil {
			return tools.Proposal{}, err
		}
	}
	return s.propose(ctx, c.session, c.req)
}

func (awaited) checked(*call) {}

func (awaited) notFound(c *call, err error) bool { return c.notFound(err) }

func (awaited) onDraft() error { return errReview }

// question lets an approver put other arguments in the place of the agent's.
func (awaited) question(s *Supervisor, c *call, _ tools.Proposal, q *approval.Call) {
	q.Revise = func(args json.RawMessage) (approval.Call, error) { return s.revise(c.session, c.req, args) }
}

func (awaited) open(_ *Supervisor, c *call, limit int64) error {
	c.output = outcome.New(c.req.CallID, limit, c.keep(limit), c.notify, c.session.stdin, c.session.sink)
	if c.oneStream() {
		c.output.OneStream()
	}
	return nil
}

// oneStream reports whether the program gets one pipe for both streams.
func (c *call) oneStream() bool { return c.req.OneStream && !c.proposal.Plan.JSONOutput }

// keep is how much of the output is kept for the result, of what the limit lets through.
func (c *call) keep(limit int64) int64 {
	if c.proposal.Plan.JSONOutput {
		return limit // it is read
	}
	return outcome.MaxKept
}

func (awaited) leave(*Supervisor, *call) {}
func (awaited) over(*call)               {}

func (awaited) widens() bool      { return true }
func (awaited) staysBehind() bool { return false }
func (awaited) lasting() bool     { return false }
func (awaited) external() bool    { return false }

func (awaited) called(c *call) (name, ends string) {
	return "call " + string(c.req.CallID), "call again when it has ended"
}

// inBackground is a call that is answered when its program runs, and goes on as a task.
type inBackground struct {
	awaited
	task *background.Task
}

func (inBackground) onDraft() error    { return notOnDraft("a background task by itself") }
func (inBackground) widens() bool      { return false }
func (inBackground) staysBehind() bool { return true }

func (k inBackground) open(s *Supervisor, c *call, limit int64) error {
	streams := &Streams{Stdout: k.task.Output(protocol.Stdout), Stderr: k.task.Output(protocol.Stderr)}
	if c.oneStream() {
		streams.Stderr = streams.Stdout
	}
	c.output = outcome.New(c.req.CallID, limit, c.keep(limit), c.notify, k.task.Input(), streams)
	return c.session.tasks.Add(k.task, c.aboutTask(), s.cfg.Tasks)
}

// leave answers the agent. The batch that the call is in, if any, goes on, and its
// notifications end.
func (k inBackground) leave(s *Supervisor, c *call) {
	first := callResult(c, s.ownWarnings(c))
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Done})
	c.notify = func(protocol.Method, any) {}
	c.place.End(c.decision, nil)
	k.task.Begin(first)
}

func (k inBackground) called(*call) (name, ends string) {
	return "task " + string(k.task.ID()), "end that task with kill_task"
}

// ofServer is the process of an MCP server of a session, which the supervisor starts when
// it is needed.
type ofServer struct {
	awaited
	process *mcphost.Process
	ended   confine.Result // over
}

// propose plans the process as the configuration has it: no agent has given arguments.
func (k *ofServer) propose(_ context.Context, s *Supervisor, _ *call) (tools.Proposal, error) {
	p, err := k.process.Server().Start()
	if err == nil {
		p.Plan.Profile = s.profiles.Bounded(p.Plan.Profile, s.cfg.Operator)
		bounds.Set(&p, false)
	}
	return p, err
}

func (k *ofServer) checked(c *call) { k.process.Planned(c.proposal.Plan, c.digest) }

func (k *ofServer) open(_ *Supervisor, c *call, limit int64) error {
	c.output = outcome.New(c.req.CallID, limit, 0, c.notify, k.process.Input(), &Streams{Stdout: k.process.Output(), Stderr: k.process.Errors()})
	return nil
}

func (k *ofServer) leave(_ *Supervisor, c *call) { k.process.Held(c.enforced, c.look) }

func (k *ofServer) over(c *call) { k.ended = c.result }

func (*ofServer) widens() bool  { return false }
func (*ofServer) lasting() bool { return true }

// byAgent is a call that the agent carries out itself.
type byAgent struct {
	awaited
	asks bool // the agent puts to its own user what is to be asked
}

func (byAgent) propose(ctx context.Context, s *Supervisor, c *call) (tools.Proposal, error) {
	return s.proposeExternal(ctx, c.req)
}

func (byAgent) checked(c *call) { c.warnings = []string{warnExternal} }

func (byAgent) notFound(*call, error) bool { return false }

func (byAgent) onDraft() error { return notOnDraft("what an agent carries out itself") }

// question says that the call runs without a sandbox here: an allow for a sandbox does
// not count without one, and no prompt is skipped. Arguments are the agent's own.
func (k byAgent) question(_ *Supervisor, c *call, p tools.Proposal, q *approval.Call) {
	q.Connector, q.DenialsOf, q.Mode = fromElsewhere, []string{""}, bounds.Stricter(c.session.mode, approval.Interactive)
	q.Foreign, q.CallerAsks = p.Plan.Foreign != "", k.asks
}

func (byAgent) external() bool { return true }

// forecast is a call that is planned and judged, and not made. No server of tools is
// started for it: of one that does not run, the configuration alone says what it may do.
type forecast struct{ awaited }

func (forecast) propose(ctx context.Context, s *Supervisor, c *call) (tools.Proposal, error) {
	registry, err := s.forecastRegistry(c.session, string(c.req.Tool))
	if err != nil {
		return tools.Proposal{}, err
	}
	if server := s.idle(c.session, string(c.req.Tool)); server != nil {
		c.unlisted = "the MCP server " + server.Name + " does not run yet: this is what the configuration says of the tool, whatever the server says of it"
	}
	return s.proposeFrom(ctx, registry, c.req)
}

// fromElsewhere is where a runtime's own tools come from, as far as approval is concerned:
// no allow that was given for a call in a sandbox covers one without. What was denied there
// is denied here.
const fromElsewhere = "elsewhere"

const warnExternal = "the agent carries this out itself: no sandbox holds it"

// errReview says of a call that a draft's supervisor is to decide about it and carry it out.
var errReview = errors.New("supervisor: bug: a call that is reviewed was carried out without a draft")

func notOnDraft(what string) error {
	return protocol.Errorf(protocol.CodeDenied, "it has to be reviewed, and %s runs on no draft", what).
		WithHint("call it in a session that was opened with review")
}
