package protocol

import (
	"encoding/json"
	"time"
)

// TaskID names a background task. The server chooses it, and only the session
// that started the task can use it.
type TaskID string

// TaskCall is the params of task.start, task.output, task.input, task.kill and
// task.list: a tools.call whose tool is named by the method. They are the same
// calls, decided and recorded alike; args follow the input schema of
// run_background, task_output, task_input, kill_task or list_tasks, and the
// result is a CallResult.
type TaskCall struct {
	SessionID  SessionID       `json:"session_id"`
	CallID     CallID          `json:"call_id"`
	Args       json.RawMessage `json:"args,omitempty"`
	GroupID    string          `json:"group_id,omitempty"`
	OneStream  bool            `json:"one_stream,omitempty"`
	Metadata   map[string]any  `json:"metadata,omitempty"`
	Defer      bool            `json:"defer,omitempty"`
	ApprovalID ApprovalID      `json:"approval_id,omitempty"`
}

// ToolRunBackground is the tool whose calls are answered when they have started.
const ToolRunBackground ToolName = "run_background"

// taskTools are the tools behind the methods.
var taskTools = map[Method]ToolName{
	MethodTaskStart:  ToolRunBackground,
	MethodTaskOutput: "task_output",
	MethodTaskInput:  "task_input",
	MethodTaskKill:   "kill_task",
	MethodTaskList:   "list_tasks",
}

// ToolsCall is the call that the method m stands for.
func (p TaskCall) ToolsCall(m Method) ToolsCall {
	return ToolsCall{
		SessionID: p.SessionID, CallID: p.CallID, Tool: taskTools[m], Args: p.Args, GroupID: p.GroupID,
		OneStream: p.OneStream, Metadata: p.Metadata, Defer: p.Defer, ApprovalID: p.ApprovalID,
	}
}

// Validate implements Validator.
func (p *TaskCall) Validate() error {
	c := p.ToolsCall(MethodTaskStart) // any of them: only the rest is looked at
	return c.Validate()
}

// TaskInfo is how a background task stands: the structured result of
// run_background, task_input and kill_task, and a part of the others'.
type TaskInfo struct {
	TaskID      TaskID    `json:"task_id"`
	CallID      CallID    `json:"call_id"` // of the call that started it
	Tool        ToolName  `json:"tool"`
	Command     string    `json:"command"`
	State       State     `json:"state"` // running or done
	Terminal    bool      `json:"terminal,omitempty"`
	Started     time.Time `json:"started"`
	StdoutBytes int64     `json:"stdout_bytes"` // written so far
	StderrBytes int64     `json:"stderr_bytes"`
	// Exposed are the ports that the host can connect to; while it is running.
	Exposed []ExposedPort `json:"exposed,omitempty"`

	// These are set when the task is done.
	ExitCode   *int        `json:"exit_code,omitempty"` // 128+N after signal N
	Signal     string      `json:"signal,omitempty"`
	DurationMS int64       `json:"duration_ms,omitempty"`
	Error      string      `json:"error,omitempty"` // why it was ended: a limit, kill_task
	Violations []Violation `json:"violations,omitempty"`
}

// TaskOutput is the structured result of task_output. The bytes themselves are
// the content.
type TaskOutput struct {
	TaskInfo
	Offset     int64 `json:"offset"`      // as asked for
	NextOffset int64 `json:"next_offset"` // where to go on
	// DroppedBytes is how much of what was asked for is no longer kept.
	DroppedBytes int64 `json:"dropped_bytes"`
}

// TaskList is the structured result of list_tasks.
type TaskList struct {
	Tasks []TaskInfo `json:"tasks"`
}
