// Package history has the entries of the audit log about calls, as the supervisor
// writes them, and reads decisions back, so that they can be made again under other rules.
//
// What the log has of a call is not all that the call had: secrets are redacted,
// long strings cut, and the content of files is left out. A Decision that cannot
// be made again says why.
package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A Decision is one decision entry.
type Decision struct {
	Entry audit.Entry // without its Data
	// Args are the arguments of the call, fit to be planned again.
	Args   map[string]any
	Record approval.Decision
	Rule   string // of the tool, when nothing else decided
	about  string // in words, if the tool asked
	// Elsewhere is set if the agent carried the call out itself.
	Elsewhere bool
	// Held is the class that the kernel held the call to; unclassified where the log does
	// not say, or nothing ran.
	Held   sandboxprofile.Class
	edited bool // the approver changed the arguments; Args are the agent's
	// Unfit says why the decision cannot be made again; "" if it can.
	Unfit string
}

// data is the content of a decision entry: supervisor's decisionEntry.
type data struct {
	Rule     string            `json:"rule"`
	About    string            `json:"description"`
	Args     json.RawMessage   `json:"args"`
	Decision approval.Decision `json:"decision"`
	Asked    json.RawMessage   `json:"asked"`
	Plan     struct {
		Class  sandboxprofile.Class `json:"class"`
		Action struct {
			Ceiling *sandboxprofile.Ceiling `json:"ceiling"`
		} `json:"action"`
	} `json:"plan"`
	// Elsewhere is of calls that the agent carried out itself.
	Elsewhere bool `json:"elsewhere"`
}

// Decisions reads the decisions among entries, one at a time. Lines that are not
// what was written are passed over: verify tells about them.
func Decisions(entries iter.Seq2[audit.Entry, error]) iter.Seq2[Decision, error] {
	return func(yield func(Decision, error) bool) {
		for e, err := range entries {
			var bad *audit.ChainError
			switch {
			case errors.As(err, &bad):
				continue
			case err != nil:
				yield(Decision{}, err)
				return
			case e.Kind != audit.KindDecision:
				continue
			}
			if !yield(read(e), nil) {
				return
			}
		}
	}
}

func read(e audit.Entry) Decision {
	var in data
	err := json.Unmarshal(e.Data, &in)
	e.Data = nil
	d := Decision{Entry: e, Record: in.Decision, Rule: in.Rule, about: in.About, edited: len(in.Asked) > 0, Elsewhere: in.Elsewhere}
	if d.Held = in.Plan.Class; in.Plan.Action.Ceiling != nil {
		d.Held = in.Plan.Action.Ceiling.Class
	}
	switch {
	case err != nil:
		d.Unfit = "the entry was shortened, or is of another format"
	case len(in.Args) == 0:
		d.Unfit = "the entry has no arguments"
	case audit.Altered(in.Args):
		d.Unfit = "its arguments were redacted or cut"
	default:
		d.Args, err = restore(e.Tool, in.Args)
		if err != nil {
			d.Unfit = err.Error()
		}
	}
	return d
}

// Past is the result for the call at the time, apart from answers and memory: a call
// that somebody was once asked about counts as asked.
func (d Decision) Past() tools.Effect {
	allowed := d.Record.Action.State() == approval.StateApproved
	switch d.Record.Source {
	case approval.SourceNotNeeded, approval.SourceAllowRule:
		return tools.Allow
	case approval.SourceMode:
		if allowed {
			return tools.Allow
		}
		return tools.Deny
	case approval.SourceBlocked, approval.SourceDenyRule, approval.SourceUnknownTool, approval.SourceInvalid:
		return tools.Deny
	}
	return tools.Ask
}

// Subject is what the call was about to do, in one line: raw, in the agent's words.
func (d Decision) Subject() string {
	for _, name := range []string{"command", "path"} {
		if s, ok := d.Args[name].(string); ok {
			return s
		}
	}
	return d.about
}

// Asked reports whether a person answered this very call, and what. Who edits a
// call answers for another one.
func (d Decision) Asked() (answered, allowed bool) {
	if d.Record.Source != approval.SourceAsk || d.edited {
		return false, false
	}
	switch d.Record.Action {
	case approval.Approved, approval.SessionApproved:
		return true, true
	case approval.Denied:
		return true, false
	}
	return false, false
}

// Answered reports whether an answer of a person decided, given now or before.
func (d Decision) Answered() bool {
	return d.Past() == tools.Ask && d.Record.Action != approval.LeftToCaller
}

// bulky are the arguments that hold the content of files, which the log does not
// copy, and what stands for each when a decision is made again: no rule looks at
// them.
var bulky = map[string]map[string]any{
	"write_file": {"content": ""},
	"edit_file":  {"old_string": "-", "new_string": "+"},
	"multi_edit": {"edits": []any{map[string]any{"old_string": "-", "new_string": "+"}}},
}

// omitted stands in the log for an argument that is not copied.
const omitted = "[omitted: the content of a file]"

// Args is the log's record of the arguments of a call. Values that are not objects are
// left out.
func Args(tool string, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}") // as the tool takes it
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil || args == nil {
		return nil
	}
	for name := range bulky[tool] {
		if _, ok := args[name]; ok {
			args[name] = json.RawMessage(`"` + omitted + `"`)
		}
	}
	out, err := json.Marshal(args)
	if err != nil {
		return nil
	}
	return out
}

// restore gives arguments that the tool's schema takes.
func restore(tool string, raw json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var args map[string]any
	if err := d.Decode(&args); err != nil {
		return nil, fmt.Errorf("its arguments are not an object: %w", err)
	}
	for name, v := range args {
		if stand, ok := bulky[tool][name]; ok && v == omitted {
			args[name] = stand
		}
	}
	return args, nil
}

// Recorded are those of the requests whose end is in the log, by their id. A log can be long: only
// what may be of them is taken apart.
func Recorded(log *audit.Log, requests []approval.Pending) (map[string]bool, error) {
	known := map[string]bool{}
	names := func(data []byte) bool {
		return bytes.IndexByte(data, '\\') >= 0 || slices.ContainsFunc(requests, func(p approval.Pending) bool { return bytes.Contains(data, []byte(p.ID)) })
	}
	for e, err := range audit.Query(log.Path(), audit.Filter{Kinds: []audit.Kind{audit.KindDecision, audit.KindAnswer}}) {
		var damaged *audit.ChainError
		if errors.As(err, &damaged) {
			continue // audit verify is about that
		}
		if err != nil {
			return nil, err
		}
		var data struct {
			Decision approval.Decision `json:"decision"`
		}
		if names(e.Data) && json.Unmarshal(e.Data, &data) == nil {
			known[data.Decision.RequestID] = true
		}
	}
	return known, nil
}
