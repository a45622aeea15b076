package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Plan is the whole of what a call would do: the action, the files it stands
// on, and the profile that bounds it. The prompt, `why`, tools.check, the
// launcher and the audit log all speak from this one value, and an approval is
// bound to its digest.
type Plan struct {
	Tool string `json:"tool"`
	// Kind says who carries out the plan. A plan with the zero Kind is refused.
	Kind   Kind                  `json:"kind,omitempty"`
	Action sandboxprofile.Action `json:"action"`
	// Pins are the files whose identity, or content, is part of what was approved: the
	// executable, and what it was named to start. Another one behind the same path at
	// launch is drift, and drift is a denial.
	Pins    []Pin                  `json:"pins,omitempty"`
	Profile sandboxprofile.Profile `json:"profile"`
	// Class is the most that the call can do under its profile and ceiling.
	Class sandboxprofile.Class `json:"class,omitempty"`
	// JSONOutput says that the program's standard output is one JSON value, which
	// becomes the structured result.
	JSONOutput bool `json:"json_output,omitempty"`
	// Background leaves the action running when the call has been answered.
	Background bool `json:"background,omitempty"`
	// Task is the operation of a plan of kind OnTask.
	Task TaskOperation `json:"task,omitzero"`
	// MCP is the operation of a plan of kind ByServer. Action and Profile then describe the
	// server's process.
	MCP MCPCall `json:"mcp,omitzero"`
	// Foreign is, in a plan of kind ByAgent, the digest of the arguments of a tool that is
	// not among ours, about which the plan says nothing else; "" for one of ours.
	Foreign string `json:"foreign,omitempty"`
}

// A Kind says who carries a plan out, and so which of its members say what is done.
type Kind string

const (
	// Sandboxed is done in a sandbox of the plan's Profile: its Action.
	Sandboxed Kind = "sandboxed"
	// ByAgent is carried out by the agent: it is decided about and recorded, and no
	// sandbox holds it to the profile.
	ByAgent Kind = "by_agent"
	// OnTask is done by the supervisor to a background task of the session.
	OnTask Kind = "task"
	// ByServer is done by an MCP server of the session, whose process runs already.
	ByServer Kind = "mcp"
)

// An MCPCall is a call of one tool of an MCP server.
type MCPCall struct {
	Server string `json:"server"`
	Tool   string `json:"tool"` // as the server names it
	// Definition is the digest of what the server says about the tool, and Process
	// that of the plan by which the server was started. Others, when the call is to be
	// made, are drift.
	Definition string          `json:"definition"`
	Process    string          `json:"process"`
	Args       json.RawMessage `json:"args,omitempty"` // canonical
}

// Held is the class that the kernel holds the plan to.
func (p Plan) Held() sandboxprofile.Class {
	if l := p.Action.Ceiling; l != nil {
		return l.Class
	}
	return p.Class
}

// TaskKind says what is done to a background task.
type TaskKind string

// What can be done to a background task, once it runs.
const (
	TaskOutput TaskKind = "output"
	TaskInput  TaskKind = "input"
	TaskKill   TaskKind = "kill"
	TaskList   TaskKind = "list"
)

// A TaskOperation is done by the supervisor, and only to tasks of the session that
// asks. It needs no sandbox: it reads what was kept, or hands on what was approved.
type TaskOperation struct {
	Kind TaskKind `json:"kind"`
	ID   string   `json:"id,omitempty"`
	// Offset, MaxBytes and Wait are for TaskOutput: from which byte, how many, and
	// how long to wait if there are none.
	Offset   int64         `json:"offset,omitempty"`
	MaxBytes int64         `json:"max_bytes,omitempty"`
	Wait     time.Duration `json:"wait,omitempty"`
	// Input is the text that TaskInput writes; EOF also ends the input.
	Input string `json:"input,omitempty"`
	EOF   bool   `json:"eof,omitempty"`
}

// A Pin identifies a file by more than its name: by its identity, or by its content if
// SHA256 is set. Sizes are bytes, times are nanoseconds since 1970.
type Pin struct {
	Path    string `json:"path"`
	Device  uint64 `json:"device,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns,omitempty"`
	// ChangeTime is st_ctime: unlike the modification time, its owner cannot
	// set it back after a change.
	ChangeTime int64 `json:"ctime_ns,omitempty"`
	// Mode is st_mode, type bits included; with a SHA256, the permissions alone.
	Mode   uint32 `json:"mode"`
	SHA256 string `json:"sha256,omitempty"` // in hexadecimal
	// Named is the absolute path by which the call names a held file: it has to lead to
	// Path, by whatever links.
	Named string `json:"named,omitempty"`
	// Absent says that there is no file yet.
	Absent bool `json:"absent,omitempty"`
	// Kind is the kind of file in place of one that is held by its content: "a pipe".
	Kind string `json:"kind,omitempty"`
	// Frozen says that the content must not change while the call runs either.
	Frozen bool `json:"frozen,omitempty"`
}

// Digest is the SHA-256 of the plan's canonical JSON, as "sha256:<hex>". Two
// plans with the same digest do the same thing under the same profile.
func (p Plan) Digest() string { return p.DigestWith(mustMarshal(p.Profile)) }

// DigestWith is Digest for a caller that has the JSON of p.Profile already: it is
// most of the plan's, and the same for most calls.
func (p Plan) DigestWith(profile []byte) string {
	p.Profile = sandboxprofile.Profile{}
	// The member cannot stand in a string of the plan's: its quotes would be escaped.
	before, after, _ := bytes.Cut(mustMarshal(p), emptyProfile())
	h := sha256.New()
	for _, part := range [][]byte{before, profileMember, profile, after} {
		h.Write(part)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

var profileMember = []byte(`,"profile":`)

var emptyProfile = sync.OnceValue(func() []byte {
	return append(bytes.Clone(profileMember), mustMarshal(sandboxprofile.Profile{})...)
})

// mustMarshal gives canonical JSON: map keys come out sorted, and every field has a
// fixed order.
func mustMarshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("tools: bug: %T does not marshal: %v", v, err))
	}
	return b
}
