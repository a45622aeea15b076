package approval

import (
	"bytes"
	"encoding/json"
	"slices"
)

// A ToolPolicy says how far tools are known. nil, in Options, knows every tool.
type ToolPolicy struct {
	// Unknown is for calls of tools that no list names. Allow leaves them to what
	// the tool says, Ask asks at least, Deny refuses.
	Unknown Effect
	// Safe, Dangerous and Known are globs on names. What a safe tool says of
	// itself is believed; a dangerous one is known, and only an allow rule that
	// names it in full covers it; a known one has rules of its own.
	Safe, Dangerous, Known []string
	// Guarded are also globs on names: the glob of an allow rule never covers these
	// names, as with dangerous ones, but this does not make them better known.
	Guarded []string
}

// Annotations are a tool's claims about itself, in the words of the Model Context Protocol.
// They come from the tool's author, so they can only make a decision more careful. Title and
// idempotence do not affect it.
type Annotations struct {
	Title           string `json:"title,omitempty"`
	ReadOnlyHint    bool   `json:"readOnlyHint"`
	DestructiveHint bool   `json:"destructiveHint"`
	IdempotentHint  bool   `json:"idempotentHint"`
	OpenWorldHint   bool   `json:"openWorldHint"`
}

// Effect applies to calls of a tool in addition to what the tool itself asks for; Allow adds
// nothing.
func (p *ToolPolicy) Effect(tool string, a *Annotations) Effect {
	if p == nil || !p.unknown(tool) {
		return Allow
	}
	return min(p.Unknown, a.caution())
}

// caution is Ask for a tool that says that it may be destructive. Nothing that a tool
// says about itself asks for less care than the policy does.
func (a *Annotations) caution() Effect {
	if a != nil && (a.DestructiveHint || !a.ReadOnlyHint && a.OpenWorldHint) {
		return Ask
	}
	return Allow
}

func (p *ToolPolicy) unknown(tool string) bool {
	return !anyGlob(p.Safe, tool) && !anyGlob(p.Dangerous, tool) && !anyGlob(p.Known, tool)
}

func anyGlob(globs []string, tool string) bool {
	return slices.ContainsFunc(globs, func(g string) bool { return Glob(g, tool) })
}

func (p *ToolPolicy) dangerous(tool string) bool {
	return p != nil && (anyGlob(p.Dangerous, tool) || anyGlob(p.Guarded, tool))
}

// spares reports whether the policy lets a call be that no tool has looked at.
func (p *ToolPolicy) spares(tool string) bool {
	return p != nil && (anyGlob(p.Safe, tool) || p.Unknown == Allow && p.unknown(tool))
}

// Why a person is asked although the tool does not ask.
const (
	CauseUnknownTool = "unknown_tool"
	CauseAnnotations = "annotations"
)

// raise makes a request of a call that asks for none, where the policy wants one. No
// policy knows every tool, and has nothing to say of a call that no tool has seen.
func (p *ToolPolicy) raise(q *question) {
	q.policy = p.Effect(q.call.ToolName, q.call.Annotations)
	if q.call.Foreign && !p.spares(q.call.ToolName) {
		q.policy = min(q.policy, Ask)
	}
	if q.policy != Ask || q.call.Request != nil || q.call.Err != nil {
		return
	}
	q.cause = CauseUnknownTool
	if p != nil && p.Unknown == Allow && !q.call.Foreign {
		q.cause = CauseAnnotations
	}
	var args map[string]any
	d := json.NewDecoder(bytes.NewReader(q.call.Args))
	d.UseNumber()
	_ = d.Decode(&args) // what is no object has nothing to show
	q.call.Request = Simple(q.call.ToolName, args)
}

// unknownTool refuses what the policy denies.
func (c *Controller) unknownTool(q *question) *verdict {
	if q.policy != Deny {
		return nil
	}
	return &verdict{
		action: Denied, code: CodeDenied, reason: "the tool is in no list, and unknown tools are denied",
		hint: "Use one of the session's tools.",
	}
}
