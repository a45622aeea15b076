package history

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A DecisionEntry is the log's record of a decision: who or what decided, and the
// plan it was about, whole but for the bytes of a file.
type DecisionEntry struct {
	Description string            `json:"description,omitempty"`
	Rule        string            `json:"rule,omitempty"`
	Args        json.RawMessage   `json:"args,omitempty"` // without the content of files
	Decision    approval.Decision `json:"decision"`
	Plan        *PlanEntry        `json:"plan,omitempty"`
	Content     *ContentEntry     `json:"content,omitempty"`
	// Metadata comes from the agent runtime, about the call.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Elsewhere is set if the agent carries the call out itself.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Asked is the agent's request, where the approver edited it.
	Asked *AskedEntry `json:"asked,omitempty"`
}

// AskedEntry is the plan that an edit replaced.
type AskedEntry struct {
	Digest  string        `json:"digest"`
	Plan    *PlanEntry    `json:"plan"`
	Content *ContentEntry `json:"content,omitempty"`
}

// PlanEntry is a plan with its profile by digest. The profile itself is written
// with the first decision of this supervisor that has it: it is the same for most
// calls, and larger than all the rest.
type PlanEntry struct {
	tools.Plan
	Profile       *sandboxprofile.Profile `json:"profile,omitempty"`
	ProfileDigest string                  `json:"profile_digest"`
}

// ContentEntry stands for content that is not copied into the log.
type ContentEntry struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type EndEntry struct {
	Error      *protocol.Error `json:"error,omitempty"`
	ExitCode   int             `json:"exit_code"`
	Signal     string          `json:"signal,omitempty"`
	Errno      string          `json:"errno,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	DurationMS int64           `json:"duration_ms"` // of the tool
	TotalMS    int64           `json:"total_ms"`    // from request to end, waiting for an approver included
	Stdout     int64           `json:"stdout_bytes"`
	Stderr     int64           `json:"stderr_bytes"`
	Truncated  bool            `json:"truncated,omitempty"`
	EnforcedBy any             `json:"enforced_by,omitempty"`
	Elsewhere  bool            `json:"elsewhere,omitempty"` // carried out by the agent: nothing enforced the profile
	Violations any             `json:"violations,omitempty"`

	Exposed []protocol.ExposedPort `json:"exposed,omitempty"`
	// Metadata comes from the agent runtime, about a call that has no decision.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// WithoutContent replaces the bytes of a file to be written, the edits of one
// as JSON, or a program's standard input by their size and digest: the log proves
// what was written without holding it.
func WithoutContent(p tools.Plan) (tools.Plan, *ContentEntry) {
	if exec := p.Action.Exec; exec != nil && exec.Stdin != nil {
		program := *exec
		program.Stdin = nil
		p.Action.Exec = &program
		return p, contentOf(exec.Stdin)
	}
	p.MCP.Args = nil // they stand in the entry already
	if p.Action.File == nil {
		return p, nil
	}
	op := *p.Action.File
	var content []byte
	switch p.Action.Kind {
	case sandboxprofile.WriteFile:
		content, op.Content = op.Content, nil
	case sandboxprofile.EditFile:
		content, op.Edits = must.JSON(op.Edits), nil
	default:
		return p, nil
	}
	p.Action.File = &op
	return p, contentOf(content)
}

func contentOf(content []byte) *ContentEntry {
	sum := sha256.Sum256(content)
	return &ContentEntry{Bytes: len(content), SHA256: hex.EncodeToString(sum[:])}
}

// A SessionEntry is the log's record of the opening of a session.
type SessionEntry struct {
	Event    string          `json:"event"`
	Mode     approval.Mode   `json:"mode"`
	Name     string          `json:"name,omitempty"`
	Draft    string          `json:"draft,omitempty"` // that its calls work on
	Metadata json.RawMessage `json:"metadata"`
}

// MaxMetadata is how much a runtime can say about a session or a call, in bytes of
// JSON. It is copied into every question and entry of the log.
const MaxMetadata = 8 << 10

// Told is metadata as approvers, bridges and the log have it: without the secrets that
// the log would leave out, and by its size alone if it is long. It is never interpreted.
func Told(log *audit.Log, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) <= MaxMetadata {
		kept, err := log.Redacted(raw)
		if err == nil && len(kept) <= MaxMetadata {
			return kept
		}
	}
	return json.RawMessage(fmt.Sprintf(`{"omitted_bytes":%d}`, len(raw)))
}
