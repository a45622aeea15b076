// Package manifest makes tools of the `tools` section of the configuration: any
// program, with a JSON Schema for its arguments and a template for its argument
// vector.
//
// No shell takes part. A value becomes one word or a part of one, whatever
// characters it has; it cannot become an option unless the definition says so;
// an array becomes several words only where the template spreads it. An argument
// of format "path" is held against the path rules as the file tools do it, and
// the program gets the path that it resolved to.
//
// Spec.Check says everything that is wrong with a definition when the
// configuration is loaded. New makes the tool; like every tool it plans and never
// acts.
package manifest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Config is the configuration of a tool. With a zero Profile nothing is found to run.
type Config struct {
	Spec
	// Paths are the rules for arguments of format path, and Profile what the
	// program runs under; both are already narrowed to what the definition grants.
	Paths   tools.Paths
	Profile sandboxprofile.Profile
	// AllPaths are the rules of all tools. What they let be written is held where the
	// program starts it: the program itself may have it read-only. None are Paths.
	AllPaths tools.Paths
	// Held: the files that the program starts are held by their content even without a
	// prompt, as those of an MCP server, which is started again.
	Held bool
	// Environ is the environment of every program: tools.BuildEnv. The program is
	// searched in its PATH.
	Environ []string
	// Credentials are secrets that the egress proxy puts into requests.
	Credentials tools.Credentials
	// Dir is the working directory.
	Dir string
	// Withheld are the directories of Profile that the program has only if a person was
	// asked about the call.
	Withheld []string
	// Unchanged are those that it may change only then.
	Unchanged []string
	// Lends says that the program has what no other call has unasked: a host, or a directory.
	Lends bool
	// Denied returns the rule against a command in that directory, from a file above the
	// one that defines the tool; with nil there are no rules.
	Denied func(argv []string, dir string) error
	// Starts says which files the command starts in that directory, besides itself.
	Starts func(argv []string, dir string) []tools.Started
}

// New gives the tool. Its error holds what Spec.Check finds.
func New(c Config) (tools.Tool, error) {
	if faults := c.Check(); len(faults) > 0 {
		errs := make([]error, len(faults))
		for i, f := range faults {
			errs[i] = f
		}
		return nil, fmt.Errorf("tools.%s: %w", c.Name, errors.Join(errs...))
	}
	if c.AllPaths.Rules == nil {
		c.AllPaths = c.Paths
	}
	if len(c.Secrets) > 0 {
		c.Profile.Fresh = true // no other call finds what it leaves of them, or lays out what it reads
	}
	t := &tool{Config: c}
	for _, word := range c.Command[1:] {
		parsed, err := parseTemplate(word)
		if err != nil {
			return nil, fmt.Errorf("tools.%s: %w", c.Name, err) // not reached: checked
		}
		t.words = append(t.words, parsed)
	}
	t.describe, _ = parseTemplate(c.Approval.Description)
	t.stdinKind, t.stdinArg, _ = c.stdin()
	schema, err := c.schema()
	if err != nil {
		return nil, fmt.Errorf("tools.%s: input_schema: %w", c.Name, err)
	}
	t.definition = tools.Definition{
		Name: c.Name, Description: c.description(), InputSchema: schema, Annotations: annotations(c.Profile),
	}
	t.digest = c.Spec.digest(c.Profile, c.Credentials.List)
	return t, nil
}

// Find resolves the program. Its error wraps tools.ErrNotFound or
// tools.ErrNotExecutable.
func (c Config) Find() (string, error) {
	searchPath, _ := tools.LookupEnv(c.Environ, "PATH")
	return tools.LookPath(c.Command[0], searchPath, c.Dir, sandboxprofile.NewLookup(c.Profile).Runnable)
}

// annotations follow from the profile: what the sandbox does not let happen, the
// tool does not do.
func annotations(p sandboxprofile.Profile) tools.Annotations {
	writes := false
	for _, rights := range p.Paths {
		writes = writes || rights&sandboxprofile.Write != 0
	}
	online := p.Network.Mode != sandboxprofile.NetworkNone
	return tools.Annotations{ReadOnlyHint: !writes && !online, DestructiveHint: writes || online, OpenWorldHint: online}
}

type tool struct {
	Config
	words      []template // of the command, without the program
	describe   template
	stdinKind  stdinKind
	stdinArg   string
	definition tools.Definition
	digest     string
}

func (t *tool) Definition() tools.Definition { return t.definition }

// Plan implements tools.Tool. Besides, its error wraps tools.ErrNotFound or
// tools.ErrNotExecutable if there is no such program to run.
func (t *tool) Plan(c tools.Call) (tools.Proposal, error) {
	args, err := t.arguments(c.Args)
	if err != nil {
		return tools.Proposal{}, err
	}
	argv, err := t.argv(args)
	if err != nil {
		return tools.Proposal{}, err
	}
	program, pins, err := t.program(argv)
	if err != nil {
		return tools.Proposal{}, err
	}
	if t.Denied != nil {
		if err := t.Denied(argv, t.Dir); err != nil {
			return tools.Proposal{}, err
		}
	}
	if program.Stdin, err = t.input(args); err != nil {
		return tools.Proposal{}, err
	}
	profile, credentials, err := t.Credentials.Give(program, t.Profile)
	if err != nil {
		return tools.Proposal{}, err
	}
	p := tools.Proposal{
		Plan: tools.Plan{
			Tool: t.Name, Kind: tools.Sandboxed,
			Action:     sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: program},
			Pins:       slices.Concat(pins, args.pins, credentials),
			Profile:    profile,
			JSONOutput: t.JSONOutput,
		},
		Request:    t.request(args, argv),
		Definition: t.digest,
		Withheld:   t.Withheld,
		Unchanged:  t.Unchanged,
		Apart:      []tools.Speaks{{Words: t.Name}},
		Kept:       t.Paths.Changed(t.Unchanged),
		Reach:      args.reach(),
		Rule:       args.rule(t.Name),
		Present:    func(context.Context) (*approval.Presentation, error) { return t.present(program), nil },
	}
	if len(args.pins) > 0 { // calls can turn such a name while the program runs: it leads into no directory that asks
		p.Withheld = t.Paths.AskedReads()
	}
	if args.writes {
		p.Unchanged = t.Paths.AskedWrites()
		p.Kept = t.Paths.Changed(p.Unchanged)
	}
	starts := []tools.Started{{Name: program.Path}}
	if t.Starts != nil {
		starts = append(starts, t.Starts(argv, t.Dir)...)
	}
	// What a program does with a credential it decides, also where it does not see it.
	beyond, why, counted := c.Beyond(profile, p.Plan.Action) || len(program.Secrets) > 0, tools.Beyond, starts
	if t.Held || !beyond {
		counted = vouched(starts)
	}
	if t.Lends && !beyond {
		beyond, why = true, tools.Lends
	}
	if beyond {
		p.Changeable = t.AllPaths.Changeable(counted)
	}
	if len(p.Changeable) > 0 {
		p.Reach.Exact = why(p.Changeable)
		if p.Request == nil {
			p.Request, p.Cautions = t.question(args, argv), []string{p.Reach.Exact}
		}
	}
	paths := t.AllPaths
	paths.Until = c.Done
	p.Hold = func(q tools.Proposal) tools.Proposal { return tools.Hold(q, paths, starts) }
	if t.Held || beyond && p.Request == nil {
		return tools.HoldAll(p, paths, starts), nil
	}
	return p.Hold(p), nil
}

// vouched are the files that count as started of a program that no table knows, where who configures it
// vouches for it: a server could be started nowhere else, and is not asked about; a tool that has a host or
// a directory of its own, and nothing beyond, was given that for this program.
func vouched(starts []tools.Started) []tools.Started {
	return slices.DeleteFunc(slices.Clone(starts), func(s tools.Started) bool { return s.Anything && s.Doubtful })
}

// program resolves the executable and pins what the run stands on, the files of
// the secrets included.
func (t *tool) program(argv []string) (*sandboxprofile.Program, []tools.Pin, error) {
	path, err := t.Find()
	if err != nil {
		return nil, nil, err
	}
	pins, err := tools.PinProgram(path)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", tools.ErrNotFound, err) // it went away since
	}
	p := &sandboxprofile.Program{Path: path, Argv: argv, Dir: t.Dir}
	env := map[string]string{}
	for name, value := range t.Env {
		env[name] = value
	}
	for _, s := range t.Secrets {
		p.Secrets = append(p.Secrets, sandboxprofile.Secret{Name: s.Name, File: s.File, Env: s.Env})
		if !s.Env {
			env[s.variable()] = fmt.Sprintf("/proc/self/fd/%d", firstSecret+descriptors(p.Secrets)-1)
		}
	}
	p.Env = tools.WithEnv(t.Environ, env)
	secrets, err := tools.PinSecrets(p.Secrets, "tools."+t.Name+".secrets")
	return p, append(pins, secrets...), err
}

// firstSecret is the descriptor of the first secret that is given as a file:
// those below are the standard streams.
const firstSecret = 3

// descriptors counts the secrets that are given as files.
func descriptors(list []sandboxprofile.Secret) int {
	n := 0
	for _, s := range list {
		if !s.Env {
			n++
		}
	}
	return n
}

// request is nil if neither the definition nor a path rule asks.
func (t *tool) request(args arguments, argv []string) *approval.Request {
	if !t.Approval.Required && len(args.asks) == 0 {
		return nil
	}
	return t.question(args, argv)
}

func (t *tool) question(args arguments, argv []string) *approval.Request {
	payload := map[string]any{"definition": t.digest, "args": t.remembered(args)}
	return &approval.Request{
		ToolName:    t.Name,
		Description: approval.EscapeLine(t.describeCall(args, argv)),
		Payload:     payload,
		Covers:      t.covers(args),
	}
}

// remembered are the arguments that a remembered answer is about. Arguments that
// a path rule asks about are always among them.
func (t *tool) remembered(args arguments) map[string]any {
	if t.Approval.Payload == nil {
		return args.values
	}
	kept := map[string]any{}
	for _, name := range slices.Concat(t.Approval.Payload, args.asked()) {
		if v, ok := args.values[name]; ok {
			kept[name] = v
		}
	}
	return kept
}

// covers says which other calls a remembered answer covers: those that differ in arguments which it is
// not about. "" means none.
func (t *tool) covers(args arguments) string {
	properties, _ := t.InputSchema["properties"].(map[string]any)
	about := slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.Approval.Payload, args.asked()))))
	other := func(name string) bool { return !slices.Contains(about, name) }
	more := t.InputSchema["additionalProperties"]
	switch {
	case t.Approval.Payload == nil, !slices.ContainsFunc(slices.Collect(maps.Keys(properties)), other) && (more == nil || more == false):
		return ""
	case len(about) == 0:
		return "every call of this tool that starts the same files, with any arguments"
	}
	var names []string
	for _, name := range about {
		names = append(names, approval.EscapeName(name))
	}
	return "every call with the same " + strings.Join(names, ", ") + " that starts the same files, with any other arguments"
}

// describeCall fills the definition's own words. Values are quoted as for a
// shell and cut, so that they neither pass for the operator's text nor push it
// off the line.
func (t *tool) describeCall(args arguments, argv []string) string {
	if len(t.describe.pieces) == 0 {
		return tools.Shorten(t.Name + ": " + tools.QuoteCommand(argv))
	}
	text, _ := t.describe.fill(func(name string) (string, bool) {
		v, ok := args.values[name]
		if !ok {
			return "(none)", true
		}
		return tools.Shorten(quoted(v)), true
	})
	return text
}

// quoted is any argument as one readable text.
func quoted(v any) string {
	if text, ok := plainText(v); ok {
		return tools.QuoteWord(text)
	}
	if list, ok := v.([]any); ok && !slices.ContainsFunc(list, func(v any) bool { _, ok := plainText(v); return !ok }) {
		words := make([]string, len(list))
		for i, item := range list {
			words[i] = quoted(item)
		}
		return strings.Join(words, " ")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return strconv.Quote(err.Error())
	}
	return string(b)
}

// present shows the whole command, and what it is given to read.
func (t *tool) present(p *sandboxprofile.Program) *approval.Presentation {
	content := tools.QuoteCommand(p.Argv)
	if len(p.Stdin) > 0 {
		end := "STDIN"
		for strings.Contains(string(p.Stdin), end) {
			end += "_"
		}
		content += " <<'" + end + "'\n" + string(p.Stdin) + "\n" + end
	}
	metadata := map[string]any{"dir": p.Dir, "executable": p.Path, "definition": t.digest}
	if len(p.Secrets) > 0 {
		var names []string
		for _, s := range p.Secrets {
			names = append(names, s.Name)
		}
		metadata["secrets"] = names
	}
	return &approval.Presentation{Type: approval.Command, Content: content, Language: "bash", Metadata: metadata}
}
