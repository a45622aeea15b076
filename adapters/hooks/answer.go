package hooks

import (
	"encoding/json"
	"strings"

	"github.com/sandgate/sandgate/approval"
)

// A Verdict is a hook's decision about a call. The zero value refuses.
type Verdict int

const (
	Deny Verdict = iota
	Ask          // the runtime asks its own user
	Allow
	// Abstain has no opinion, and leaves a call that touches nothing but the runtime
	// itself, such as its list of things to do, to the runtime's own settings.
	Abstain
)

// An Answer is the reply to a runtime.
type Answer struct {
	Verdict Verdict
	Reason  string // for people, and with Deny for the model
	Hint    string // for the model: what would be allowed instead
	// Input replaces the tool's input, whole; nil leaves it. Only with Allow.
	Input json.RawMessage
	// Note is shown to the user beside the call.
	Note string
	// Stop, with Deny, ends the agent's turn.
	Stop bool
	// Broken means that there was a failure instead of a decision. The hook then
	// refuses in the way that asks the least of the runtime.
	Broken bool
}

// An Output is what the hook's process writes and how it exits.
type Output struct {
	Stdout, Stderr []byte
	Exit           int
}

// ExitBlocks is the status that all runtimes take for a refusal, with the reason on
// standard error, whatever else was written.
const ExitBlocks = 2

// Blocks refuses without any of a runtime's own format.
func Blocks(a Answer) Output {
	return Output{Stderr: []byte(a.words() + "\n"), Exit: ExitBlocks}
}

// words is the reason with the hint, fit for a screen.
func (a Answer) words() string {
	reason := approval.EscapeLine(a.Reason)
	if reason == "" {
		reason = "refused"
	}
	text := "sandgate: " + reason
	if hint := strings.TrimSpace(a.Hint); hint != "" {
		text += "\nsandgate: hint: " + approval.EscapeLine(hint)
	}
	return text
}

// stdout is a line of JSON. Values are ours, so they marshal.
func stdout(v any) Output {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a command stays legible
	if err := e.Encode(v); err != nil {
		return Blocks(Answer{Reason: "write the answer: " + err.Error()})
	}
	return Output{Stdout: []byte(b.String())}
}
