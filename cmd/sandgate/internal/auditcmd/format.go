package auditcmd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/protocol"
)

// What people see of audit entries. Nearly every string in the log was chosen by
// an agent or a tool, and goes through approval's escaping before a terminal
// gets it.

// Line is an entry in one line: number, time, kind, tool, call, and what
// happened.
func Line(e audit.Entry) string {
	line := fmt.Sprintf("%6d  %s  %-11s  %-10s  %s  %s",
		e.Seq, e.Time.UTC().Format(time.DateTime), e.Kind, cli.Dash(cli.EscapeName(e.Tool)), cli.Dash(cli.EscapeName(e.Call)), summary(e))
	return approval.EscapeLine(strings.TrimRight(line, " "))
}

// entryWhole is all of an entry, one field a line, the data as indented JSON.
func entryWhole(e audit.Entry) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-8s %s\n", name, approval.EscapeLine(value))
		}
	}
	field("entry", fmt.Sprint(e.Seq))
	field("time", e.Time.UTC().Format(time.RFC3339Nano))
	field("kind", string(e.Kind))
	field("session", e.Session)
	field("call", e.Call)
	field("agent", e.Agent)
	if p := e.Peer; p != nil {
		field("peer", fmt.Sprintf("uid %d, gid %d, pid %d", p.UID, p.GID, p.PID))
	}
	field("tool", e.Tool)
	field("digest", e.Digest)
	field("writer", e.Writer)
	field("prev", e.Prev)
	field("hash", e.Hash)
	if len(e.Data) > 0 {
		fmt.Fprintf(&b, "data     %s\n", approval.Escape(indent(e.Data)))
	}
	return b.String()
}

func indent(data json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, data, strings.Repeat(" ", 9), "  "); err != nil {
		return string(data)
	}
	return b.String()
}

// Facts are the members of an entry's data that a summary shows, whatever
// the kind. Members that are missing or of another type are left out.
type Facts struct {
	Decision struct {
		ID       string `json:"id"`
		Scope    string `json:"scope"`
		Action   string `json:"action"`
		Source   string `json:"source"`
		Reason   string `json:"reason"`
		Approver string `json:"approver"`
		Rule     string `json:"rule"`
	} `json:"decision"`
	// Rule is the rule of the configuration that decided; in an entry of kind rules,
	// the rule that changed.
	Rule        json.RawMessage `json:"rule"`
	Description string          `json:"description"`
	Plan        struct {
		Action struct {
			Exec struct {
				Argv []string `json:"argv"`
			} `json:"exec"`
			File struct {
				Path string `json:"path"`
			} `json:"file"`
		} `json:"action"`
	} `json:"plan"`
	Error *struct {
		Message string `json:"message"`
		Data    struct {
			Code string `json:"code"`
		} `json:"data"`
	} `json:"error"`
	ExitCode   *int   `json:"exit_code"`
	Signal     string `json:"signal"`
	Cause      string `json:"cause"`
	DurationMS int64  `json:"duration_ms"`
	Event      string `json:"event"`
	Version    string `json:"version"`
	Reason     string `json:"reason"`
	Fault      string `json:"fault"`
	Detail     string `json:"detail"`
	File       string `json:"file"`
	Elsewhere  bool   `json:"elsewhere"`
}

// DecidedBy names what decided: a standing rule or remembered answer, or else a rule
// of the configuration.
func (f *Facts) DecidedBy() string {
	var own string
	_ = json.Unmarshal(f.Rule, &own) // nothing, if it is something else
	return cmp.Or(f.Decision.Rule, own)
}

// change says what happened to which standing rule.
func (f *Facts) change() string {
	var r protocol.Rule
	if json.Unmarshal(f.Rule, &r) != nil || r.ID == "" {
		return f.Event
	}
	return f.Event + " " + r.ID + ": " + ruleservice.Text(r)
}

func summary(e audit.Entry) string {
	var f Facts
	_ = json.Unmarshal(e.Data, &f) // what does not fit stays empty; `audit show` has it whole
	switch e.Kind {
	case audit.KindDecision:
		return cli.Join(": ", cli.Join(" ", f.Decision.Action, cli.Paren(cli.Join(": ", f.Decision.Source, f.Decision.Approver)), cli.EscapeName(f.subject())), f.Decision.Reason)
	case audit.KindEnd, audit.KindRefused:
		return f.outcome()
	case audit.KindSession:
		return cli.Join(" ", f.Event, e.Agent)
	case audit.KindRules:
		return f.change()
	case audit.KindStart:
		return f.Version
	case audit.KindRecovered:
		return cli.Join(": ", f.Fault, f.Detail, f.File)
	}
	return f.Reason
}

// subject is the action that the call asked for.
func (f *Facts) subject() string {
	switch {
	case f.Description != "":
		return f.Description
	case len(f.Plan.Action.Exec.Argv) > 0:
		return strings.Join(f.Plan.Action.Exec.Argv, " ")
	}
	return f.Plan.Action.File.Path
}

func (f *Facts) outcome() string {
	switch {
	case f.Error != nil:
		return cli.Join(": ", f.Error.Data.Code, f.Error.Message)
	case f.Elsewhere:
		return "left to the agent, not confined"
	case f.Signal != "":
		return fmt.Sprintf("%s %s after %d ms", f.Cause, f.Signal, f.DurationMS)
	case f.ExitCode != nil:
		return fmt.Sprintf("%s %d after %d ms", f.Cause, *f.ExitCode, f.DurationMS)
	}
	return f.Cause
}
