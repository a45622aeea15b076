// Package tools defines what an agent can call. A tool plans and never acts: it
// says what a call means, what it needs and whether a person should be asked.
// Deciding is package approval's work, and doing is package confine's.
//
// A Registry holds the tools of one supervisor, validates the arguments of a
// call against the tool's input schema, and asks the tool for its Plan. Tools
// share what this package has for them: Paths decides about path names, LookPath
// and PinProgram find a program and bind an approval to it, BuildEnv makes its
// environment.
//
// The built-in tools live in subpackages: files, program and shell. Each is built
// from a plain config struct, and none touches the disk except to resolve paths
// and to look at the program it would run.
package tools

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Tool turns arguments into a plan. It is safe for concurrent use.
type Tool interface {
	Definition() Definition
	// Plan says what the call would do. Its error is an *ArgumentError when the
	// arguments are at fault, or an *approval.Blocked when the configuration
	// never allows the call. Plan reads the disk only to resolve paths.
	Plan(c Call) (Proposal, error)
}

// A Definition describes a tool to an agent in tools.list, in the format of MCP.
type Definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations Annotations     `json:"annotations"`
}

// Annotations are hints about a tool, in MCP's words.
type Annotations = approval.Annotations

// A Call is one request of an agent, with arguments that already satisfy the
// tool's input schema.
type Call struct {
	Tool string
	Args map[string]any
	// Metadata comes from the agent runtime; it never widens permissions.
	Metadata map[string]any
	// Done is closed when nobody waits for the plan any more: whoever reads files or a long
	// text for it stops, and Registry.Plan gives no plan. nil is never.
	Done <-chan struct{}
	// Elsewhere: no sandbox will hold it. What the profile withholds bounds nothing then.
	Elsewhere bool
	// Unkept: nothing is recorded of what it changes. What runs without an approval only because it can be undone
	// needs one: else a call could end the recording, by what it leaves behind, and the next one could destroy a
	// person's work.
	Unkept bool
}

// WhyUnkept is why such a call needs an approval.
const WhyUnkept = "what it changes cannot be undone now"

// Beyond reports whether an action of the call reaches beyond the workspace.
func (c Call) Beyond(p sandboxprofile.Profile, a sandboxprofile.Action) bool {
	return c.Elsewhere || sandboxprofile.ClassOf(p, a) == sandboxprofile.ClassBeyond
}

// Cancelled reports whether nobody waits for the plan any more.
func (c Call) Cancelled() bool { return isDone(c.Done) }

func isDone(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// A Proposal is a tool's answer to a call: the plan, and what approval needs to
// know about it.
type Proposal struct {
	Plan Plan
	// Request is nil when the configuration asks for no approval.
	Request *approval.Request
	// Unheld is what is asked in place of a nil Request where nothing can hold the call to
	// the ceiling of its plan; nil if the configuration allows the call by name.
	Unheld *approval.Request
	// Rule names what in the configuration decided, for people: `shell.rules[2]
	// "git status"`, `sandbox.paths.workspace`, `default`.
	Rule string
	// Reach is what the call touches, for patterns that an approver may have had
	// remembered, whether anybody is asked or not.
	Reach approval.Reach
	// Review: the call runs on a draft, and a person looks at what it changed.
	Review bool
	// Connector is where the tool comes from, if that is somebody else: the name of an
	// MCP server.
	Connector string
	// Definition is the digest of the definition that the tool has from a configuration, or "".
	Definition string
	// Withheld are directories of the profile that a program has only if a person was
	// asked about the call, absolute and without links: their reads are to be approved.
	Withheld []string
	// Unchanged are directories that a program may change only if a person was asked about
	// the call: no rule that allows it is for them. Kept are those that it may, also below one of them.
	Unchanged, Kept []string
	// EmptyHome: programs that nobody was asked about are several, and none writes where another one looks
	// for orders: see sandboxprofile.Ceiling.
	EmptyHome bool
	// Unasked are variables that a program has if no person was asked about the call.
	Unasked map[string]string
	// Changeable are files that the program starts, where it reaches beyond the workspace
	// and calls may change them without a question. No answer to another call allows it then.
	Changeable []string
	// Apart is what lets a call be more than those are that nobody is asked about, and that no rule speaks of: it
	// has another /tmp than they. nil is none of it.
	Apart []Speaks
	// Redirected are the files that a command line writes itself, as it names them.
	Redirected []string
	// Cautions are reasons to look closely, for the approver.
	Cautions []string
	// Changed says that the tool is not defined as it was when a call of it was last
	// let through: no standing rule was made for what it is now.
	Changed bool
	// Hold binds a question about the program to the files that it starts, as they are when it
	// is asked (the function Hold); nil where nothing is known of them, and then nothing more
	// than the call itself is asked about.
	Hold func(Proposal) Proposal
	// Present builds the rich presentation. It is called only when a person is
	// really asked, and may read the files the plan names.
	Present func(context.Context) (*approval.Presentation, error)
}

// An ArgumentError says which argument is wrong and how.
type ArgumentError struct {
	// Field is where in the arguments: "path", "argv/0", and "" for the whole. It
	// is a JSON pointer (RFC 6901) without its leading slash.
	Field  string
	Reason string
	Hint   string
}

func (e *ArgumentError) Error() string {
	if e.Field == "" {
		return "arguments: " + e.Reason
	}
	return "argument " + e.Field + ": " + e.Reason
}

// Aware shows a Tool to package approval, for programs that use a Controller
// without a supervisor.
type Aware struct{ Tool }

// CheckApproval implements approval.Aware.
func (a Aware) CheckApproval(c approval.Context) (*approval.Request, error) {
	p, err := a.Plan(Call{Tool: c.ToolName, Args: c.Args, Metadata: c.Metadata})
	if err != nil {
		return nil, err
	}
	return p.Request, nil
}
