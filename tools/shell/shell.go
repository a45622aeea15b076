// Package shell holds the tool shell: it runs a command line in bash, and decides
// by rules whether somebody is asked first.
//
// The command is parsed as bash reads it, and every simple command in it, however
// deep, is judged on its own: in lists, pipelines, loops and functions, in
// substitutions inside words, in here-documents, behind programs that run other
// programs. The strictest result decides. A rule that allows matches only what
// is certain; a rule that denies matches whatever can be decided without
// running anything; what cannot be analysed is asked about. New makes the tool,
// and NewPolicy the rules alone, which are pure: Policy.Decide runs nothing.
//
// The rules are an aid to fewer questions. They do not see what an allowed
// program does once it runs: the sandbox is the boundary.
package shell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Config is what the tool is built from. Its zero value denies every command.
type Config struct {
	Default Default
	Rules   []Rule
	Paths   tools.Paths
	Profile sandboxprofile.Profile
	// Env is the command's whole environment: tools.BuildEnv. Its PATH is what
	// programs are searched in.
	Env []string
	// Shell is the bash to run: a path, or "bash" to search for it. "" is "bash".
	Shell string
}

// New gives the tool. Its error is a *RuleError.
func New(c Config) (tools.Tool, error) {
	if c.Shell == "" {
		c.Shell = "bash"
	}
	t := &tool{Config: c}
	policy, err := NewPolicy(c.Default, c.Rules, pathFiles{c.Paths, c.Profile.Scratch}, sandboxPrograms{c.Profile, t.searchPath()})
	if err != nil {
		return nil, err
	}
	t.policy = policy
	return t, nil
}

var definition = tools.Definition{
	Name: "shell",
	Description: "Run a command line in bash, in a sandbox, and return its output and exit status. " +
		"Pipes, redirections and && work. Each program in the line is checked against rules: plain commands with " +
		"literal arguments run with the fewest questions; eval, source and computed command names are always asked about. " +
		"Nothing is remembered between calls: not the directory, not variables.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["command"],
  "properties": {
    "command": {
      "type": "string",
      "minLength": 1,
      "description": "The command line, as bash reads it.",
      "examples": ["git status", "go test ./... 2>&1 | tail -n 20"]
    },
    "dir": {
      "type": "string",
      "minLength": 1,
      "description": "The working directory, relative to the workspace or absolute. The workspace unless given.",
      "examples": ["src"]
    },
    "timeout_ms": {
      "type": "integer",
      "minimum": 1,
      "description": "Stop the command after this many milliseconds. It can only shorten the configured limit.",
      "examples": [30000]
    }
  }
}`),
	Annotations: tools.Annotations{Title: "Run a command line", DestructiveHint: true, OpenWorldHint: true},
}

type tool struct {
	Config
	policy *Policy
}

func (t *tool) Definition() tools.Definition { return definition }

// maxArgument is the most bytes that Linux passes in one argument, its NUL
// included: MAX_ARG_STRLEN of execve(2).
const maxArgument = 128 << 10

// Plan implements tools.Tool. Besides, its error wraps tools.ErrNotFound if the
// sandbox has no bash.
func (t *tool) Plan(c tools.Call) (tools.Proposal, error) {
	command := c.String("command")
	if err := checkCommand(command); err != nil {
		return tools.Proposal{}, err
	}
	dir, err := tools.WorkingDir(t.Paths, t.Profile, c.String("dir"))
	if err != nil {
		return tools.Proposal{}, err
	}
	d := t.policy.in(dir).Decide(command, "bash")
	if d.Effect == tools.Deny {
		return tools.Proposal{}, t.blocked(d)
	}
	plan, err := t.plan(c, command, dir)
	if err != nil {
		return tools.Proposal{}, err
	}
	return tools.Proposal{
		Plan:    plan,
		Request: t.request(command, d),
		Rule:    d.Label(),
		Present: func(context.Context) (*approval.Presentation, error) { return present(command, dir, d), nil },
	}, nil
}

func checkCommand(command string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return &tools.ArgumentError{Field: "command", Reason: "is empty"}
	case strings.ContainsRune(command, 0):
		return &tools.ArgumentError{Field: "command", Reason: "contains a NUL byte"}
	case len(command) >= maxArgument:
		return &tools.ArgumentError{Field: "command", Reason: fmt.Sprintf("has %d bytes, at most %d can be passed", len(command), maxArgument-1),
			Hint: "write the data to a file with write_file"}
	}
	return nil
}

func (t *tool) blocked(d Decision) error {
	hint := d.Hint
	if hint == "" {
		hint = t.allowedHint()
	}
	return &approval.Blocked{Reason: d.Reason, Rule: d.Label(), Hint: hint}
}

// allowedHint lists some of what runs, for a model to choose from.
func (t *tool) allowedHint() string {
	var some []string
	for _, r := range t.Rules {
		if r.Effect() != tools.Deny && len(some) < 8 {
			some = append(some, r.Pattern)
		}
	}
	if len(some) == 0 {
		return "do it another way, or ask the user"
	}
	return "the rules know these commands: " + strings.Join(some, ", ")
}

// plan says what runs. The options keep bash from reading start-up files: it
// reads ~/.bashrc even for -c when its standard input is a socket (bash(1),
// INVOCATION). After "--" a command that begins with a dash is no option.
func (t *tool) plan(c tools.Call, command, dir string) (tools.Plan, error) {
	bash, err := tools.LookPath(t.Shell, t.searchPath(), dir, t.runnable)
	if err != nil {
		return tools.Plan{}, err
	}
	pin, err := tools.PinFile(bash)
	if err != nil {
		return tools.Plan{}, fmt.Errorf("%w: %w", tools.ErrNotFound, err) // it went away since
	}
	profile := t.Profile
	if ms := c.Int("timeout_ms", 0); ms > 0 && ms < int64(profile.Limits.Wall/time.Millisecond) {
		profile.Limits.Wall = time.Duration(ms) * time.Millisecond
	}
	argv := []string{"bash", "--norc", "--noprofile", "-c", "--", command}
	return tools.Plan{
		Tool: definition.Name,
		Action: sandboxprofile.Action{
			Kind: sandboxprofile.Exec,
			Exec: &sandboxprofile.Program{Path: bash, Argv: argv, Dir: dir, Env: slices.Clone(t.Env)},
		},
		Pins:    []tools.Pin{pin},
		Profile: profile,
	}, nil
}

func (t *tool) searchPath() string {
	p, _ := tools.LookupEnv(t.Env, "PATH")
	return p
}

func (t *tool) runnable(path string) bool { return runnable(t.Profile, path) }

func runnable(p sandboxprofile.Profile, path string) bool {
	const rights = sandboxprofile.Read | sandboxprofile.Execute
	return p.Rights(path)&rights == rights
}

// request is nil if nobody needs to be asked. The payload is the command and the
// rule: the same command under another rule is asked about again.
func (t *tool) request(command string, d Decision) *approval.Request {
	if d.Effect == tools.Allow {
		return nil
	}
	description := "Execute: " + shorten(command)
	if d.RuleIndex >= 0 && t.Rules[d.RuleIndex].Description != "" {
		description = t.Rules[d.RuleIndex].Description
	}
	return &approval.Request{
		ToolName:    definition.Name,
		Description: approval.EscapeLine(description),
		Payload:     map[string]any{"command": command, "rule": d.Rule},
	}
}

// shorten keeps a description on one line; the presentation has it whole.
func shorten(s string) string {
	const limit = 80
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-3]) + "..."
}

func present(command, dir string, d Decision) *approval.Presentation {
	return &approval.Presentation{
		Type:     approval.Command,
		Content:  command,
		Language: "bash",
		Metadata: map[string]any{"dir": dir, "rule": d.Label(), "reason": d.Reason},
	}
}

// pathFiles is what the path rules of the configuration say.
type pathFiles struct {
	paths   tools.Paths
	scratch []string
}

func (f pathFiles) Start() string {
	if f.paths.Cwd == "" && len(f.paths.Rules) > 0 {
		return f.paths.Rules[0].Root
	}
	return f.paths.Cwd
}

func (f pathFiles) Home() string { return f.paths.Home }

// Check asks the path rules. What they refuse to have read is asked about, since
// programs read much that no tool needs to, and the sandbox hides what is hidden.
func (f pathFiles) Check(name, dir string, write bool) (tools.Effect, string, string) {
	f.paths.Cwd = dir
	d, err := f.paths.Decide(name, write)
	switch {
	case err != nil:
		return tools.Ask, err.Error(), "write a plain path"
	case d.Effect == tools.Deny && (!write || f.private(absolute(name, dir))):
		return tools.Ask, d.Reason, d.Hint
	}
	return d.Effect, d.Reason, d.Hint
}

// private reports whether a path is in a directory of the sandbox's own.
func (f pathFiles) private(abs string) bool {
	return slices.ContainsFunc(f.scratch, func(s string) bool { return below(s, abs) })
}

func (f pathFiles) Within(name, dir string, roots []string) bool {
	f.paths.Cwd = dir
	resolved, err := f.paths.Resolve(name)
	return err == nil && slices.ContainsFunc(f.paths.Rules, func(r tools.PathRule) bool {
		return slices.Contains(roots, r.Name) && below(r.Root, resolved)
	})
}

// sandboxPrograms knows programs by what PATH finds for them in the sandbox.
type sandboxPrograms struct {
	profile sandboxprofile.Profile
	path    string
}

// Identify trusts the file that PATH gives for the base name, if nothing in the
// sandbox can write to where it lies. A bare name that is not found runs nothing,
// or is built into the shell.
func (s sandboxPrograms) Identify(name, dir string) (string, bool) {
	base := name[strings.LastIndexByte(name, '/')+1:]
	visible := func(p string) bool { return runnable(s.profile, p) }
	found, err := tools.LookPath(base, s.path, dir, visible)
	if base == name {
		return base, errors.Is(err, tools.ErrNotFound) || err == nil && tools.Trusted(found, s.profile)
	}
	if err != nil || !tools.Trusted(found, s.profile) {
		return "", false
	}
	given, err := tools.LookPath(name, s.path, dir, visible)
	return base, err == nil && given == found
}
