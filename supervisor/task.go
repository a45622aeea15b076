package supervisor

import (
	"context"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
)

// aboutTask is which call a task is.
func (c *call) aboutTask() protocol.TaskInfo {
	plan := c.proposal.Plan
	return protocol.TaskInfo{
		CallID: c.req.CallID, Tool: c.req.Tool, Command: tools.CommandOf(plan.Action.Exec.Argv), Terminal: plan.Action.Exec.Terminal != nil,
		Exposed: c.exposed,
	}
}

// ruledAs is the tool whose rules and remembered answers hold for a plan: a command
// in the background is a command.
func ruledAs(asked protocol.ToolName, p tools.Plan) string {
	if p.Background {
		return p.Tool
	}
	return string(asked)
}

// bindTask holds a proposal that is about a task against the tasks that there
// are, and tells the approver which program it is about.
func (x *session) bindTask(p *tools.Proposal) error {
	op := p.Plan.Task
	if p.Plan.Kind != tools.OnTask || op.Kind == tools.TaskList {
		return nil
	}
	t, err := x.tasks.Find(op.ID)
	if err != nil {
		return err
	}
	if p.Request != nil {
		p.Request.Payload["command"] = t.Info().Command
	}
	return nil
}

// operate does what a plan says about a task.
func (s *Supervisor) operate(ctx context.Context, c *call, plan tools.Plan) error {
	if err := c.release(plan); err != nil {
		return err
	}
	a, err := c.session.tasks.Operate(ctx, plan.Task)
	if err == nil {
		c.answered = &answered{a.Content, a.Structured}
	}
	return err
}
