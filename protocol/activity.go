package protocol

import (
	"encoding/json"
	"time"
)

// SessionsClose ends a session of any agent. Its calls are killed.
type SessionsClose struct {
	SessionID SessionID `json:"session_id"`
}

// CallsList is the answer to calls.list, oldest first.
type CallsList struct {
	Calls []CallInfo `json:"calls"`
	More  bool       `json:"more,omitempty"` // than fit into a message
}

// CallInfo describes a call under way: one that waits for an approver, one that runs, or
// one that goes on in the background.
type CallInfo struct {
	ID        string    `json:"id"` // of this supervisor, for calls.kill; agents name their calls as they like
	SessionID SessionID `json:"session_id"`
	CallID    CallID    `json:"call_id"`
	Agent     string    `json:"agent"`
	Tool      ToolName  `json:"tool"`
	// Args are as the agent gave them; null if they are long.
	Args       json.RawMessage `json:"args,omitempty"`
	Background bool            `json:"background,omitempty"`
	// Waiting: something that it needs waits for an answer; what it has not needed that for may be running.
	Waiting bool      `json:"waiting,omitempty"`
	Started time.Time `json:"started"`
}

// CallsKill ends a call, with everything that it has started.
type CallsKill struct {
	ID string `json:"id"`
}

// AuditQuery chooses entries of the log by what is given, and the last of those.
type AuditQuery struct {
	Session SessionID `json:"session,omitempty"`
	Call    CallID    `json:"call,omitempty"`
	Tool    ToolName  `json:"tool,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Kinds   []string  `json:"kinds,omitempty"`
	Since   time.Time `json:"since,omitzero"`  // inclusive
	Until   time.Time `json:"until,omitzero"`  // exclusive
	Limit   int       `json:"limit,omitempty"` // 100 if it is not given, at most 1000
}

// AuditEntries answers audit.query, oldest first.
type AuditEntries struct {
	Entries []AuditEntry `json:"entries"`
	// More: there are others before these.
	More bool `json:"more,omitempty"`
}

// An AuditEntry is one entry of the log, without what chains it to the others. Its texts
// are raw, and redacted as they are in the log. An audit.Entry is the line itself.
type AuditEntry struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Kind    string          `json:"kind"`
	Session SessionID       `json:"session,omitempty"`
	Call    CallID          `json:"call,omitempty"`
	Agent   string          `json:"agent,omitempty"`
	Tool    ToolName        `json:"tool,omitempty"`
	Peer    *Peer           `json:"peer,omitempty"`
	Digest  string          `json:"digest,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// MaxAuditEntries is how many entries one answer may have.
const MaxAuditEntries = 1000

func (p *SessionsClose) Validate() error { return checkID("params.session_id", string(p.SessionID)) }
func (p *CallsKill) Validate() error     { return checkID("params.id", p.ID) }

func (p *AuditQuery) Validate() error {
	if p.Limit < 0 || p.Limit > MaxAuditEntries {
		return &FieldError{Path: "params.limit", Reason: "must be between 1 and 1000"}
	}
	return nil
}
