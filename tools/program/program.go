// Package program holds the tool run: it executes one argument vector, without a
// shell, and so without a shell's rules. Every call asks; a mode or a remembered
// answer may make that silent.
package program

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Config is the configuration of the tool. Under its zero value nothing is found to
// run.
type Config struct {
	Paths   tools.Paths
	Profile sandboxprofile.Profile
	// Credentials are secrets that the egress proxy puts into requests; a program
	// has their placeholders.
	Credentials tools.Credentials
	// Env is the program's whole environment: tools.BuildEnv. A name without a slash is
	// searched in its PATH.
	Env []string
	// Reach says what a program touches that is run in dir, for the patterns that an
	// approver may have remembered; nil is nothing that a pattern could cover.
	Reach func(argv []string, dir string) approval.Reach
	// Rules returns what the rules for command lines deny of a program that is run in dir,
	// how they bound its network and limits, and whether it is reviewed; with nil there are
	// no rules.
	Rules func(argv []string, dir string) (bounds []sandboxprofile.Profile, review bool, err error)
	// Unasked gives a program its variables if it runs without a prompt; it may be nil.
	Unasked func(argv []string, dir string) map[string]string
	// Terminal is what programs get in place of their streams, or nil.
	Terminal *sandboxprofile.Terminal
	// Starts says which files a program starts that is run in dir.
	Starts func(argv []string, dir string) []tools.Started
}

// New gives the tool run.
func New(c Config) tools.Tool { return &runner{c, sandboxprofile.NewLookup(c.Profile)} }

var definition = tools.Definition{
	Name: "run",
	Description: "Run one program with arguments, without a shell: no pipes, redirections, variables or wildcards. " +
		"Returns its output and exit status.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["argv"],
  "properties": {
    "argv": {
      "type": "array",
      "minItems": 1,
      "items": {"type": "string"},
      "description": "The program, by name or path, and its arguments, one string each.",
      "examples": [["go", "test", "./..."], ["./configure", "--prefix=/usr"]]
    },
    "dir": {
      "type": "string",
      "minLength": 1,
      "description": "The working directory, relative to the workspace or absolute. Default: the workspace.",
      "examples": ["src"]
    }
  }
}`),
	Annotations: tools.Annotations{Title: "Run a program", DestructiveHint: true, OpenWorldHint: true},
}

type runner struct {
	Config
	sees *sandboxprofile.Lookup
}

func (r *runner) Definition() tools.Definition { return definition }

// Plan implements tools.Tool. Besides, its error wraps tools.ErrNotFound or
// tools.ErrNotExecutable if there is no such program to run.
func (r *runner) Plan(c tools.Call) (tools.Proposal, error) {
	argv := c.Strings("argv")
	if err := checkArgv(argv); err != nil {
		return tools.Proposal{}, err
	}
	dir, err := tools.WorkingDir(r.Paths, r.sees, r.Profile.Scratch, c.String("dir"))
	if err != nil {
		return tools.Proposal{}, err
	}
	path, pins, err := r.find(argv, dir)
	if err != nil {
		return tools.Proposal{}, err
	}
	profile, review := r.Profile, false
	if r.Rules != nil {
		var bounds []sandboxprofile.Profile
		if bounds, review, err = r.Rules(argv, dir); err != nil {
			return tools.Proposal{}, err
		}
		for _, b := range bounds {
			profile = sandboxprofile.Intersect(profile, b)
		}
	}
	program := &sandboxprofile.Program{Path: path, Argv: argv, Dir: dir, Env: slices.Clone(r.Env), Terminal: r.Terminal}
	profile, secrets, err := r.Credentials.Give(program, profile)
	if err != nil {
		return tools.Proposal{}, err
	}
	command := tools.QuoteCommand(argv)
	p := tools.Proposal{
		Plan: tools.Plan{
			Tool: definition.Name, Kind: tools.Sandboxed,
			Action:  sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: program},
			Pins:    append(pins, secrets...),
			Profile: profile,
		},
		Request: &approval.Request{
			ToolName:    definition.Name,
			Description: "Run " + tools.Shorten(command),
			Payload:     map[string]any{"argv": slices.Clone(argv), "dir": dir},
		},
		Reach:     r.reach(argv, dir),
		Withheld:  r.Paths.AskedReads(),
		Unchanged: r.Paths.Unnamed(),
		Apart:     []tools.Speaks{{Words: definition.Name}},
		Rule:      "default",
		Review:    review,
		Present: func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{
				Type:     approval.Command,
				Content:  command,
				Language: "bash",
				Metadata: map[string]any{"dir": dir, "executable": path},
			}, nil
		},
	}
	p.Kept = r.Paths.Changed(p.Unchanged)
	if r.Unasked != nil {
		p.Unasked = r.Unasked(argv, dir)
	}
	if label := r.Paths.Asks(argv, dir); label != "" {
		p.Request.Payload["reads"] = label // a link that leads elsewhere by then is another question
	}
	starts := []tools.Started{{Name: path}}
	if r.Starts != nil {
		starts = append(starts, r.Starts(argv, dir)...)
	}
	paths := r.Paths
	paths.Until = c.Done
	if c.Beyond(profile, p.Plan.Action) {
		p.Changeable = paths.Changeable(starts)
	}
	paths.Cwd = dir
	p.Hold = func(q tools.Proposal) tools.Proposal { return tools.Hold(q, paths, starts, argv[1:]...) }
	return p.Hold(p), nil
}

func (r *runner) reach(argv []string, dir string) approval.Reach {
	if r.Reach == nil {
		return approval.Reach{}
	}
	return r.Reach(argv, dir)
}

func checkArgv(argv []string) error {
	if len(argv) == 0 || argv[0] == "" {
		return &tools.ArgumentError{Field: "argv", Reason: "names no program"}
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return &tools.ArgumentError{Field: "argv/" + strconv.Itoa(i), Reason: "contains a NUL byte"}
		}
	}
	return nil
}

// find resolves the executable and pins what the run stands on.
func (r *runner) find(argv []string, dir string) (string, []tools.Pin, error) {
	searchPath, _ := tools.LookupEnv(r.Env, "PATH")
	path, err := tools.LookPath(argv[0], searchPath, dir, r.sees.Runnable)
	if err != nil {
		return "", nil, err
	}
	pins, err := tools.PinProgram(path)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", tools.ErrNotFound, err) // it went away since
	}
	return path, pins, nil
}
