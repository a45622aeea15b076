package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// TaskConfig bounds what runs in the background.
type TaskConfig struct {
	// Running is how many tasks a session may have under way, and Ended how many
	// of those that are over are kept to be read.
	Running, Ended int
	// Output is how much of what a task writes is kept, in bytes.
	Output int64
}

// A task is a call that goes on after it was answered. It takes the same path as
// any other; only its streams, and who waits for its end, are different. Its end
// is in the log when it comes.
type task struct {
	id     protocol.TaskID
	output *keptOutput
	input  *taskInput
	cancel context.CancelCauseFunc
	// began is closed when the program is started, and over when the call is.
	began, over chan struct{}

	// These are set before the session, or whoever waits, can see the task.
	call    *call
	started time.Time
	first   protocol.CallResult // what the call was answered with

	// These are set before over is closed.
	result protocol.CallResult
	err    error
}

var errTaskKilled = errors.New("the agent ended the task")

// startTask takes a call along its path in the background, and answers when the
// program runs, or when it is clear that it will not.
func (s *Supervisor) startTask(ctx context.Context, at *place, peer unixsock.Peer, req protocol.ToolsCall, notify notifyFunc) (protocol.CallResult, error) {
	t := &task{
		id: protocol.TaskID("t-" + rand.Text()[:16]), output: newKeptOutput(s.cfg.Tasks.Output), input: newTaskInput(maxPendingInput),
		began: make(chan struct{}), over: make(chan struct{}),
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t.cancel = cancel
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) }) // until it runs, it is the caller's
	go func() {
		r, err := s.carryOut(own, at, func(c *call) { c.task = t }, peer, req, notify)
		t.finish(r, err)
	}()
	select {
	case <-t.began:
		if stop() {
			return t.first, nil
		}
		// The caller went away at this very moment: nobody has learnt of the task.
		<-t.over
		return protocol.CallResult{}, t.err
	case <-t.over:
		stop()
		if t.hasBegun() { // and was over at once
			return t.first, nil
		}
		return t.result, t.err
	}
}

func (t *task) hasBegun() bool { return isClosed(t.began) }
func (t *task) isOver() bool   { return isClosed(t.over) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// openOutput makes what the program writes to, and reads from.
func (s *Supervisor) openOutput(c *call, limit int64) error {
	if p := c.server; p != nil {
		c.output = newOutput(c.req.CallID, limit, 0, c.notify, p.input, &Streams{Stdout: p.in, Stderr: p.said})
		return nil
	}
	t, keep := c.task, int64(maxKept)
	if c.proposal.Plan.JSONOutput {
		keep = limit // it is read
	}
	if t == nil {
		c.output = newOutput(c.req.CallID, limit, keep, c.notify, c.session.stdin, c.session.sink)
		return nil
	}
	c.output = newOutput(c.req.CallID, limit, keep, c.notify, t.input, &Streams{
		Stdout: t.output.stream(protocol.Stdout), Stderr: t.output.stream(protocol.Stderr),
	})
	return c.session.adopt(c, s.cfg.Tasks)
}

// leave answers the agent of a call that stays in the background. The batch that
// the call is in, if any, goes on, and its notifications end.
func (c *call) leave(warnings []string) {
	t := c.task
	if t == nil {
		return
	}
	first := callResult(c, warnings)
	first.Content = []protocol.Content{protocol.NewContent("", fmt.Appendf(nil, "started task %s\n%s", t.id, exposedText(c.exposed)))}
	first.Structured = mustJSON(t.info())
	t.first = first
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Done})
	c.notify = func(protocol.Method, any) {}
	c.place.end(c.decision, nil)
	close(t.began)
}

// ruledAs is the tool whose rules and remembered answers hold for a plan: a command
// in the background is a command.
func ruledAs(asked protocol.ToolName, p tools.Plan) string {
	if p.Background {
		return p.Tool
	}
	return string(asked)
}

func (t *task) finish(r protocol.CallResult, err error) {
	t.result, t.err = r, err
	t.input.end()
	t.output.close()
	t.cancel(nil)
	close(t.over)
}

// info is how the task stands.
func (t *task) info() protocol.TaskInfo {
	read, _ := t.output.read(0, 0)
	i := protocol.TaskInfo{
		TaskID: t.id, CallID: t.call.req.CallID, Tool: t.call.req.Tool, Command: commandOf(t.call.proposal.Plan),
		State: protocol.Running, Started: t.started, StdoutBytes: read.total[0], StderrBytes: read.total[1],
		Terminal: t.call.proposal.Plan.Action.Exec.Terminal != nil,
	}
	if !t.isOver() {
		i.Exposed = t.call.exposed
		return i
	}
	i.State = protocol.Done
	r := t.result
	if e := wireError(t.err); e != nil {
		i.Error = e.Message
		if e.Result != nil {
			r = *e.Result
		}
	}
	i.ExitCode, i.Signal, i.DurationMS, i.Violations = &r.ExitCode, r.Signal, r.DurationMS, r.Violations
	return i
}

// commandOf is what a person would call the task by.
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

// adopt gives a call's task a place in its session, unless there is none left.
func (x *session) adopt(c *call, most TaskConfig) error {
	t := c.task
	t.call, t.started = c, time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	running := 0
	for _, other := range x.tasks {
		if !other.isOver() {
			running++
		}
	}
	if running >= most.Running {
		return protocol.Errorf(protocol.CodeLimitExceeded, "this session has %d background tasks under way", running).
			WithHint("end one with kill_task")
	}
	x.tasks = append(x.tasks, t)
	for ended := len(x.tasks) - running - 1; ended > most.Ended; ended-- {
		first := slices.IndexFunc(x.tasks, (*task).isOver)
		x.tasks = slices.Delete(x.tasks, first, first+1)
	}
	return nil
}

// task finds one of the session's own tasks. Another session's looks like none.
func (x *session) task(id string) (*task, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, t := range x.tasks {
		if string(t.id) == id {
			return t, nil
		}
	}
	return nil, protocol.Errorf(protocol.CodeUnknownTask, "this session has no task %.64q", id).WithHint("list_tasks names them")
}

// bindTask holds a proposal that is about a task against the tasks that there
// are, and tells the approver which program it is about.
func (x *session) bindTask(p *tools.Proposal) error {
	op := p.Plan.Task
	if op == nil || op.Kind == tools.TaskList {
		return nil
	}
	t, err := x.task(op.ID)
	if err != nil {
		return err
	}
	if p.Request != nil {
		p.Request.Payload["command"] = t.info().Command
	}
	return nil
}

// operate does what a plan says about a task.
func (s *Supervisor) operate(ctx context.Context, c *call, plan tools.Plan) error {
	if err := c.release(plan); err != nil {
		return err
	}
	op := *plan.Task
	if op.Kind == tools.TaskList {
		return c.listTasks()
	}
	t, err := c.session.task(op.ID)
	if err != nil {
		return err
	}
	switch op.Kind {
	case tools.TaskOutput:
		return c.readTask(ctx, t, op)
	case tools.TaskInput:
		if t.isOver() {
			return protocol.Errorf(protocol.CodeInvalidArguments, "the task %s is over", t.id)
		}
		if err := t.input.put(op.Input, op.EOF); err != nil {
			return err
		}
		c.answer(t.info(), fmt.Sprintf("wrote %d bytes\n", len(op.Input)))
	case tools.TaskKill:
		t.cancel(errTaskKilled)
		select {
		case <-t.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		c.answer(t.info(), "the task is over\n")
	default:
		return protocol.Errorf(protocol.CodeInternal, "no such operation on a task: %q", op.Kind)
	}
	return nil
}

func (c *call) listTasks() error {
	c.session.mu.Lock()
	tasks := slices.Clone(c.session.tasks)
	c.session.mu.Unlock()
	list := protocol.TaskList{Tasks: []protocol.TaskInfo{}}
	text := ""
	for _, t := range tasks {
		i := t.info()
		list.Tasks = append(list.Tasks, i)
		text += fmt.Sprintf("%s\t%s\t%s\n%s", i.TaskID, i.State, i.Command, exposedText(i.Exposed))
	}
	c.answer(list, cmp.Or(text, "no tasks\n"))
	return nil
}

// readTask waits for something to read, as long as the call wants to.
func (c *call) readTask(ctx context.Context, t *task, op tools.TaskOperation) error {
	wait := time.NewTimer(op.Wait)
	defer wait.Stop()
	for {
		r, more := t.output.read(op.Offset, op.MaxBytes)
		if more != nil && op.Wait > 0 {
			select {
			case <-more:
				continue
			case <-wait.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		c.answered = &answered{structured: mustJSON(protocol.TaskOutput{
			TaskInfo: t.info(), Offset: op.Offset, NextOffset: r.next, DroppedBytes: r.dropped,
		})}
		for _, p := range r.pieces {
			c.answered.content = append(c.answered.content, protocol.NewContent(p.stream, p.data))
		}
		return nil
	}
}

// answered is the result of a call that ran nothing in a sandbox.
type answered struct {
	content    []protocol.Content
	structured []byte
}

func (c *call) answer(structured any, text string) {
	c.answered = &answered{[]protocol.Content{protocol.NewContent("", []byte(text))}, mustJSON(structured)}
}
