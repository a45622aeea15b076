// Package files holds the file tools: read_file, write_file, edit_file,
// multi_edit, list_files, glob and grep. They decide with the path rules whether a
// file may be touched, and plan the one operation that does it. The operation
// itself is done by the init of the sandbox, under the same mounts and Landlock
// rules as a program. So the rules here are for the agent and for prompts, and the
// sandbox enforces.
//
// The only file that this package opens is the one that a write or an edit would
// change, to show a person the difference, when one is really asked.
package files

import (
	"path/filepath"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Config is the configuration of the file tools. Its zero value refuses every
// path.
type Config struct {
	Paths tools.Paths
	// Profile bounds the operations. It is computed once: sandboxprofile.Derive.
	Profile sandboxprofile.Profile
}

// New gives the file tools.
func New(c Config) []tools.Tool {
	return []tools.Tool{
		&reader{c}, &writer{c}, &editor{c}, &multiEditor{c},
		&searcher{Config: c, definition: listDefinition, kind: sandboxprofile.ListFiles, verb: "List"},
		&searcher{Config: c, definition: globDefinition, kind: sandboxprofile.GlobFiles, verb: "Find files in"},
		&searcher{Config: c, definition: grepDefinition, kind: sandboxprofile.GrepFiles, verb: "Search"},
	}
}

// blocked turns a denial by the path rules into the permission error. A path
// outside every root and a hidden one name the same rule, as they are one refusal.
func blocked(d tools.PathDecision) error {
	return &approval.Blocked{Reason: d.Reason, Rule: ruleName(d), Hint: d.Hint}
}

func ruleName(d tools.PathDecision) string {
	if d.Rule == nil {
		return "sandbox.paths"
	}
	return d.Rule.Label()
}

// unkept is the decision about a write of which nothing is recorded: see tools.Call.
func unkept(c tools.Call, d tools.PathDecision) tools.PathDecision {
	if c.Unkept && d.Effect == tools.Allow && d.Rule.Undoable {
		d.Effect, d.Reason = tools.Ask, tools.WhyUnkept
	}
	return d
}

// request asks for one kind of access to one file. The payload leaves out the
// bytes read or written: a remembered answer is about the file. It has the whole
// path: the roots of two workspaces are called alike.
func request(tool, description string, d tools.PathDecision) *approval.Request {
	if d.Effect != tools.Ask {
		return nil
	}
	rel := relative(d)
	return &approval.Request{
		ToolName:    tool,
		Description: description + " " + d.Rule.Name + ":" + approval.EscapeName(rel),
		Payload:     map[string]any{"sandbox": d.Rule.Name, "path": d.Path},
		Covers:      covers[tool],
	}
}

// covers says what an answer for one of the tools covers that is remembered.
var covers = map[string]string{
	"write_file": "this file, with any content", "edit_file": "this file, with any edit", "multi_edit": "this file, with any edits",
	"read_file": "all of this file", "list_files": "this directory, with any arguments", "glob": "this directory, with any pattern",
	"grep": "this file or directory, with any pattern",
}

// relative is the resolved path from the root of its rule, so that every way to
// spell one file is one payload.
func relative(d tools.PathDecision) string {
	rel, err := filepath.Rel(d.Rule.Root, d.Path)
	if err != nil {
		return d.Path // not reached: both are absolute
	}
	return rel
}
