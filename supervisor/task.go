package supervisor

import (
	"context"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// aboutTask is which call a task is.
func (c *call) aboutTask() protocol.TaskInfo {
	plan := c.proposal.Plan
	return protocol.TaskInfo{
		CallID: c.req.CallID, Tool: c.req.Tool, Command: commandOf(plan), Terminal: plan.Action.Exec.Terminal != nil,
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

// commandOf is a person's name for the task.
func commandOf(p tools.Plan) string {
	e := p.Action.Exec
	if e == nil {
		return ""
	}
	if line, ok := shell.CommandLine(e.Argv); ok {
		return line
	}
	return tools.QuoteCommand(e.Argv)
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
