// Package tasks holds the tools for programs that run in the background: start
// one, read what it has written so far, write to it, end it, list them.
//
// A program is started by the same rules as in the foreground: run_background
// plans what the tool shell plans, and approval hears of it under that tool's
// name. The other tools plan an operation on a task that the session already has;
// the supervisor carries it out, and no sandbox is needed for it.
package tasks

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Names of the tools.
const (
	Start  = "run_background"
	Output = "task_output"
	Input  = "task_input"
	Kill   = "kill_task"
	List   = "list_tasks"
)

// Bounds of the arguments.
const (
	maxInput  = 64 << 10         // bytes in one task_input
	maxOutput = 256 << 10        // bytes in one task_output
	maxWait   = 60 * time.Second // for new output
)

// Config is what the tools are built from.
type Config struct {
	// Shell plans the command lines of background tasks.
	Shell tools.Tool
	// Wall is how long a task may run. It takes the place of the limit for calls,
	// which nobody waits for here; the operator's profile still bounds it.
	Wall time.Duration
}

// New gives the tools.
func New(c Config) []tools.Tool {
	return []tools.Tool{starter{c}, reader{}, writer{}, killer{}, lister{}}
}

type starter struct{ Config }

func (starter) Definition() tools.Definition {
	return tools.Definition{
		Name: Start,
		Description: "Start a command line in the background, in a sandbox, and return its task id immediately: for servers, watchers " +
			"and long builds. The same rules apply as for shell. Read its output with task_output and end it with kill_task; " +
			"it ends with the session at the latest. Set terminal for programs that need one.",
		InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["command"],
  "properties": {
    "command": {
      "type": "string",
      "minLength": 1,
      "description": "The command line, as bash reads it.",
      "examples": ["npm run dev", "go test ./... 2>&1 | tee test.log"]
    },
    "dir": {
      "type": "string",
      "minLength": 1,
      "description": "The working directory, relative to the workspace or absolute. Default: the workspace.",
      "examples": ["web"]
    },
    "timeout_ms": {
      "type": "integer",
      "minimum": 1,
      "description": "End the task after this many milliseconds. It can only shorten the configured limit.",
      "examples": [600000]
    },
    "terminal": {
      "type": "object",
      "additionalProperties": false,
      "description": "Give the program a terminal of this size, in characters. Its output then is a single stream.",
      "examples": [{"rows": 24, "columns": 80}],
      "properties": {
        "rows": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Lines. Default: 24.", "examples": [24]},
        "columns": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Characters per line. Default: 80.", "examples": [80]}
      }
    }
  }
}`),
		Annotations: tools.Annotations{Title: "Start a background task", DestructiveHint: true, OpenWorldHint: true},
	}
}

// Plan implements tools.Tool: the shell's plan, to be left running. A remembered
// answer for the same command in the foreground does not cover it, since the
// payload says that it stays.
func (s starter) Plan(c tools.Call) (tools.Proposal, error) {
	args := map[string]any{"command": c.Args["command"]}
	if dir, ok := c.Args["dir"]; ok {
		args["dir"] = dir
	}
	p, err := s.Shell.Plan(tools.Call{Tool: s.Shell.Definition().Name, Args: args, Metadata: c.Metadata, Done: c.Done})
	if err != nil {
		return p, err
	}
	p.Plan.Background = true
	limits := &p.Plan.Profile.Limits
	limits.Wall = s.Wall
	if ms := c.Int("timeout_ms", 0); ms > 0 && ms < int64(s.Wall/time.Millisecond) {
		limits.Wall = time.Duration(ms) * time.Millisecond
	}
	limits.Output = sandboxprofile.Unlimited // the supervisor keeps a part of it, and the task goes on
	terminal(c, p.Plan.Action.Exec)
	p.Request, p.Unheld = stays(p.Request, c), stays(p.Unheld, c)
	return p, nil
}

// stays is a question about a command that stays.
func stays(r *approval.Request, c tools.Call) *approval.Request {
	if r == nil {
		return nil
	}
	q := *r
	q.Description, q.Payload = "In the background: "+r.Description, maps.Clone(r.Payload)
	q.Payload["background"], q.Payload["timeout_ms"] = true, c.Int("timeout_ms", 0)
	if size, ok := c.Args["terminal"]; ok {
		q.Description = "In the background, with a terminal: " + r.Description
		q.Payload["terminal"] = size
	}
	return &q
}

// terminal asks for one of the sandbox's own.
func terminal(c tools.Call, e *sandboxprofile.Program) {
	size, ok := c.Args["terminal"].(map[string]any)
	if !ok {
		return
	}
	sizes := tools.Call{Args: size}
	e.Terminal = &sandboxprofile.Terminal{Rows: uint16(sizes.Int("rows", 24)), Columns: uint16(sizes.Int("columns", 80))}
}

const taskID = `"task_id": {"type": "string", "minLength": 1, "description": "The id that run_background returned.", "examples": ["t-4XQ2M7ZKD3A5BVNC"]}`

type reader struct{}

func (reader) Definition() tools.Definition {
	return tools.Definition{
		Name: Output,
		Description: "Read the output of a background task from an offset, and its state. Offsets count the bytes of " +
			"stdout and stderr together, in order of arrival; continue from next_offset. dropped_bytes counts output that is no longer available.",
		InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["task_id"],
  "properties": {
    ` + taskID + `,
    "offset": {"type": "integer", "minimum": 0, "description": "First byte to read. Default: 0.", "examples": [0]},
    "max_bytes": {"type": "integer", "minimum": 1, "maximum": 262144, "description": "Maximum number of bytes. Default: 65536.", "examples": [65536]},
    "wait_ms": {"type": "integer", "minimum": 0, "maximum": 60000, "description": "If there is no new output, wait this long for output or the end of the task. Default: 0.", "examples": [1000]}
  }
}`),
		Annotations: tools.Annotations{Title: "Read a background task's output", ReadOnlyHint: true},
	}
}

func (reader) Plan(c tools.Call) (tools.Proposal, error) {
	return operation(tools.TaskOperation{
		Kind: tools.TaskOutput, ID: c.String("task_id"),
		Offset: c.Int("offset", 0), MaxBytes: min(c.Int("max_bytes", 64<<10), maxOutput),
		Wait: min(time.Duration(c.Int("wait_ms", 0))*time.Millisecond, maxWait),
	}), nil
}

type writer struct{}

func (writer) Definition() tools.Definition {
	return tools.Definition{
		Name: Input,
		Description: "Write text to a background task's standard input or terminal, unchanged: end a line with \\n, " +
			"and send Ctrl-C as \\u0003 if the task has a terminal. Needs approval, because the text can be any command.",
		InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["task_id"],
  "properties": {
    ` + taskID + `,
    "input": {"type": "string", "maxLength": 65536, "description": "What to write.", "examples": ["y\n", "help\n"]},
    "eof": {"type": "boolean", "description": "Close the input afterwards. A task with a terminal receives Ctrl-D instead.", "examples": [true]}
  }
}`),
		Annotations: tools.Annotations{Title: "Write to a background task", DestructiveHint: true, OpenWorldHint: true},
	}
}

// Plan implements tools.Tool. What is typed into an interpreter is a command that
// no rule has seen, so it is asked about whatever started the task.
func (writer) Plan(c tools.Call) (tools.Proposal, error) {
	input, eof := c.String("input"), c.Bool("eof")
	if len(input) > maxInput {
		return tools.Proposal{}, &tools.ArgumentError{Field: "input", Reason: "is longer than 64 KiB", Hint: "write it in pieces"}
	}
	if input == "" && !eof {
		return tools.Proposal{}, &tools.ArgumentError{Field: "input", Reason: "is empty", Hint: "give input, or eof"}
	}
	p := operation(tools.TaskOperation{Kind: tools.TaskInput, ID: c.String("task_id"), Input: input, EOF: eof})
	p.Request = &approval.Request{
		ToolName:    Input,
		Description: "Write to " + approval.EscapeName(c.String("task_id")) + ": " + tools.Shorten(input),
		Payload:     map[string]any{"task_id": c.String("task_id"), "input": input, "eof": eof},
	}
	p.Reach.Single = "text written to a program may be any command"
	return p, nil
}

type killer struct{}

func (killer) Definition() tools.Definition {
	return tools.Definition{
		Name:        Kill,
		Description: "End a background task and kill every process that it started. Its output can still be read.",
		InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["task_id"],
  "properties": {
    ` + taskID + `
  }
}`),
		Annotations: tools.Annotations{Title: "End a background task", IdempotentHint: true},
	}
}

func (killer) Plan(c tools.Call) (tools.Proposal, error) {
	return operation(tools.TaskOperation{Kind: tools.TaskKill, ID: c.String("task_id")}), nil
}

type lister struct{}

func (lister) Definition() tools.Definition {
	return tools.Definition{
		Name:        List,
		Description: "List the background tasks of this session, including ended ones.",
		InputSchema: json.RawMessage(`{"type": "object", "additionalProperties": false, "properties": {}}`),
		Annotations: tools.Annotations{Title: "List background tasks", ReadOnlyHint: true},
	}
}

func (lister) Plan(tools.Call) (tools.Proposal, error) {
	return operation(tools.TaskOperation{Kind: tools.TaskList}), nil
}

func operation(o tools.TaskOperation) tools.Proposal {
	return tools.Proposal{Plan: tools.Plan{Tool: toolOf(o.Kind), Kind: tools.OnTask, Task: o}, Rule: "own task"}
}

func toolOf(k tools.TaskKind) string {
	return map[tools.TaskKind]string{
		tools.TaskOutput: Output, tools.TaskInput: Input, tools.TaskKill: Kill, tools.TaskList: List,
	}[k]
}
