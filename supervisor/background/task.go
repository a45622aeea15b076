// Package background keeps programs that go on after the call that started them was
// answered: what they write, what is written to them, and how they end.
//
// It starts nothing. A call in the background takes the path of any other; who carries it
// out hands its streams to a Task here, and the session's other calls find it in Tasks.
package background

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
)

// Limits bound what runs in the background.
type Limits struct {
	// Running is how many tasks a session may have under way, and Ended how many
	// of those that are over are kept to be read.
	Running, Ended int
	// Output is how much of what a task writes is kept, in bytes.
	Output int64
}

// A Task is a call that goes on after it was answered.
type Task struct {
	id     protocol.TaskID
	output *keptOutput
	input  *Input
	cancel context.CancelCauseFunc
	// began is closed when the program is started, and over when the call is.
	began, over chan struct{}

	// These are set before the session, or anyone who waits, can see the task.
	about   protocol.TaskInfo
	started time.Time
	first   protocol.CallResult // what the call was answered with

	// These are set before over is closed.
	result protocol.CallResult
	err    error
}

// ErrKilled is why a task ends that the agent ends.
var ErrKilled = errors.New("the agent ended the task")

// Start has run carry a call out, and answers when its program runs (Begin) or when it is
// clear that it will not. The context of run is ctx's until then, and its own from then on.
func Start(ctx context.Context, output int64, run func(context.Context, *Task) (protocol.CallResult, error)) (protocol.CallResult, error) {
	t := &Task{
		id: protocol.TaskID("t-" + rand.Text()[:16]), output: newKeptOutput(output), input: NewInput(maxInput),
		began: make(chan struct{}), over: make(chan struct{}),
	}
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	t.cancel = cancel
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	go func() { t.finish(run(own, t)) }()
	select {
	case <-t.began:
		if stop() {
			return t.first, nil
		}
		// The caller went away at this very moment: it has not learnt of the task.
		<-t.over
		return protocol.CallResult{}, t.err
	case <-t.over:
		stop()
		if isClosed(t.began) { // and was over at once
			return t.first, nil
		}
		return t.result, t.err
	}
}

// ID is the agent's name for the task.
func (t *Task) ID() protocol.TaskID { return t.id }

// Input is the program's standard input.
func (t *Task) Input() io.Reader { return t.input }

// Output is where the program writes one of its streams to.
func (t *Task) Output(s protocol.Stream) io.Writer { return t.output.stream(s) }

// Begin answers the call: its program is about to run. first is its result so far.
func (t *Task) Begin(first protocol.CallResult) {
	first.Content = []protocol.Content{protocol.NewContent("", fmt.Appendf(nil, "started task %s\n%s", t.id, exposedText(first.Exposed)))}
	first.Structured = must.JSON(t.Info())
	t.first = first
	close(t.began)
}

func (t *Task) finish(r protocol.CallResult, err error) {
	t.result, t.err = r, err
	t.input.End()
	t.output.close()
	t.cancel(nil)
	close(t.over)
}

func (t *Task) isOver() bool { return isClosed(t.over) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Info is how the task stands.
func (t *Task) Info() protocol.TaskInfo {
	read, _ := t.output.read(0, 0)
	i := t.about
	i.TaskID, i.State, i.Started = t.id, protocol.Running, t.started
	i.StdoutBytes, i.StderrBytes = read.total[0], read.total[1]
	if !t.isOver() {
		return i
	}
	i.State, i.Exposed = protocol.Done, nil
	r := t.result
	var e *protocol.Error
	if errors.As(t.err, &e) {
		i.Error = e.Message
		if e.Result != nil {
			r = *e.Result
		}
	}
	i.ExitCode, i.Signal, i.DurationMS, i.Violations = &r.ExitCode, r.Signal, r.DurationMS, r.Violations
	return i
}

// Tasks are those of one session, in the order of their start. The zero Tasks is empty.
type Tasks struct {
	mu  sync.Mutex
	all []*Task
}

// Add gives a task a place, unless none is left. Of about, the members count that say which
// call it is: CallID, Tool, Command, Terminal, Exposed.
func (l *Tasks) Add(t *Task, about protocol.TaskInfo, most Limits) error {
	t.about, t.started = about, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	running := 0
	for _, other := range l.all {
		if !other.isOver() {
			running++
		}
	}
	if running >= most.Running {
		return protocol.Errorf(protocol.CodeLimitExceeded, "this session has %d background tasks under way", running).
			WithHint("end one with kill_task")
	}
	l.all = append(l.all, t)
	for ended := len(l.all) - running - 1; ended > most.Ended; ended-- {
		first := slices.IndexFunc(l.all, (*Task).isOver)
		l.all = slices.Delete(l.all, first, first+1)
	}
	return nil
}

// Find finds one of the session's own tasks. Another session's looks like none.
func (l *Tasks) Find(id string) (*Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.all {
		if string(t.id) == id {
			return t, nil
		}
	}
	return nil, protocol.Errorf(protocol.CodeUnknownTask, "this session has no task %.64q", id).WithHint("list_tasks names them")
}

// An Answer is the result of an operation on a task.
type Answer struct {
	Content    []protocol.Content
	Structured json.RawMessage
}

func answer(structured any, text string) Answer {
	return Answer{[]protocol.Content{protocol.NewContent("", []byte(text))}, must.JSON(structured)}
}

// Operate does what a plan says about a task.
func (l *Tasks) Operate(ctx context.Context, op tools.TaskOperation) (Answer, error) {
	if op.Kind == tools.TaskList {
		return l.list(), nil
	}
	t, err := l.Find(op.ID)
	if err != nil {
		return Answer{}, err
	}
	switch op.Kind {
	case tools.TaskOutput:
		return t.read(ctx, op)
	case tools.TaskInput:
		if t.isOver() {
			return Answer{}, protocol.Errorf(protocol.CodeInvalidArguments, "the task %s is over", t.id)
		}
		if err := t.input.Put(op.Input, op.EOF); err != nil {
			return Answer{}, err
		}
		return answer(t.Info(), fmt.Sprintf("wrote %d bytes\n", len(op.Input))), nil
	case tools.TaskKill:
		t.cancel(ErrKilled)
		select {
		case <-t.over:
			return answer(t.Info(), "the task is over\n"), nil
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
	}
	return Answer{}, protocol.Errorf(protocol.CodeInternal, "no such operation on a task: %q", op.Kind)
}

func (l *Tasks) list() Answer {
	l.mu.Lock()
	all := slices.Clone(l.all)
	l.mu.Unlock()
	list := protocol.TaskList{Tasks: []protocol.TaskInfo{}}
	text := ""
	for _, t := range all {
		i := t.Info()
		list.Tasks = append(list.Tasks, i)
		text += fmt.Sprintf("%s\t%s\t%s\n%s", i.TaskID, i.State, i.Command, exposedText(i.Exposed))
	}
	return answer(list, cmp.Or(text, "no tasks\n"))
}

// read waits for something to read, as long as the call wants to.
func (t *Task) read(ctx context.Context, op tools.TaskOperation) (Answer, error) {
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
				return Answer{}, context.Cause(ctx)
			}
		}
		a := Answer{Structured: must.JSON(protocol.TaskOutput{
			TaskInfo: t.Info(), Offset: op.Offset, NextOffset: r.next, DroppedBytes: r.dropped,
		})}
		for _, p := range r.pieces {
			a.Content = append(a.Content, protocol.NewContent(p.stream, p.data))
		}
		return a, nil
	}
}

// exposedText says in lines where the exposed ports are.
func exposedText(ports []protocol.ExposedPort) string {
	text := ""
	for _, p := range ports {
		text += fmt.Sprintf("port %d is at %s\n", p.Port, p.Address)
	}
	return text
}
