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
//
// Decision.Analysis says what a line can do by its text alone, Decision.Free whether that
// decides. A text can be misread: the kernel holds what runs because of it.
package shell

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Config is what the tool is built from. Its zero value denies every command.
type Config struct {
	Default Default
	Rules   []Rule
	// Closed are the tiers of Rules that deny what none of their own rules matches.
	Closed  []string
	Paths   tools.Paths
	Profile sandboxprofile.Profile
	// Env is the command's whole environment: tools.BuildEnv. Its PATH is what
	// programs are searched in.
	Env []string
	// ProxyEnv are variables that point programs at the egress proxy. They are added
	// where a rule narrows the network to a list of hosts and Profile has none.
	ProxyEnv []string
	// Credentials are secrets that the egress proxy puts into requests; a command has
	// their placeholders.
	Credentials tools.Credentials
	// Shell is the bash to run: a path, or "bash" to search for it. "" is "bash".
	Shell string
}

// New gives the tool. Its error is a *RuleError.
func New(c Config) (*Tool, error) {
	if c.Shell == "" {
		c.Shell = "bash"
	}
	c.Paths.Scratch, c.Paths.Open = c.Profile.Scratch, c.Profile.Open()
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules { // by the place in the configuration, whatever comes before them later
		c.Rules[i].Name = c.Rules[i].Label(i)
	}
	t := &Tool{Config: c, sees: sandboxprofile.NewLookup(c.Profile)}
	if err := t.SetStanding(Standing{}); err != nil {
		return nil, err
	}
	return t, nil
}

// SetStanding replaces the rules that an operator has added to those of the
// configuration. Calls that are already planned keep their plan. Its error is a
// *RuleError; the rules are as they were then.
func (t *Tool) SetStanding(s Standing) error {
	policy, err := t.compile(s)
	if err != nil {
		return err
	}
	t.policy.Store(policy)
	return nil
}

// CheckStanding says what SetStanding would, and changes nothing.
func (t *Tool) CheckStanding(s Standing) error {
	_, err := t.compile(s)
	return err
}

func (t *Tool) compile(s Standing) (*Policy, error) {
	p, err := newPolicy(t.Default, t.Closed, s.around(t.Rules), pathFiles{t.Paths}, sandboxPrograms{t.Profile, t.Paths, t.sees, t.searchPath()})
	if err == nil {
		p.exported = map[string]bool{}
		for _, kv := range t.Env {
			p.exported[tools.EnvName(kv)] = true
		}
		p.each(func(q *Policy) { q.exported = p.exported })
	}
	if name := t.altering(); name != "" && err == nil {
		p.altered = "the variable " + name + " of the environment changes how a command line is read"
	}
	return p, err
}

// Policy is what decides now.
func (t *Tool) Policy() *Policy { return t.policy.Load() }

var definition = tools.Definition{
	Name: "shell",
	Description: "Run a command line in bash, in a sandbox, and return its output and exit status. " +
		"Pipes, redirections and && work. Each program in the line is checked against rules: plain commands with " +
		"literal arguments cause the fewest questions; eval, source and computed command names always need approval. " +
		"Calls do not share a directory or variables, and files in /tmp may not persist.",
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
      "description": "The working directory, relative to the workspace or absolute. Default: the workspace.",
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

// A Tool is the tool shell. Its rules can be replaced while it is in use.
type Tool struct {
	Config
	sees   *sandboxprofile.Lookup
	policy atomic.Pointer[Policy]
	known  executables
}

// executables keeps what was read of programs, by the file as it was then. They lie in
// places that no tool can write to, so there are as many as the machine has.
type executables struct{ files sync.Map }

func (e *executables) of(path string) tools.Executable {
	pin, err := tools.PinFile(path)
	if err != nil {
		return tools.Executable{Files: []string{path}, Script: true}
	}
	if x, ok := e.files.Load(pin); ok {
		return x.(tools.Executable)
	}
	x := tools.LookExecutable(path)
	e.files.Store(pin, x)
	return x
}

func (t *Tool) Definition() tools.Definition { return definition }

// maxArgument is the most bytes that Linux passes in one argument, its NUL
// included: MAX_ARG_STRLEN of execve(2).
const maxArgument = 128 << 10

// Plan implements tools.Tool. Besides, its error wraps tools.ErrNotFound if the
// sandbox has no bash.
func (t *Tool) Plan(c tools.Call) (tools.Proposal, error) {
	command := c.String("command")
	if err := checkCommand(command); err != nil {
		return tools.Proposal{}, err
	}
	dir, err := tools.WorkingDir(t.Paths, t.sees, t.Profile.Scratch, c.String("dir"))
	if err != nil {
		return tools.Proposal{}, err
	}
	policy := t.Policy().In(dir)
	r := policy.until(c.Done)
	d, class := t.settled(r.Decide(command, "bash"))
	if d = t.readsAsked(d, dir); d.Effect == tools.Ask {
		class = sandboxprofile.Unclassified
	}
	if d.Effect == tools.Deny {
		return tools.Proposal{}, t.blocked(d)
	}
	plan, err := t.plan(c, command, dir, policy.bounds(d))
	if err != nil {
		return tools.Proposal{}, err
	}
	plan.Action.Ceiling = t.ceiling(d, class, plan.Action.Exec.Path, dir)
	paths := t.Paths
	paths.Cwd, paths.Until = dir, c.Done
	p := tools.Proposal{
		Plan:     plan,
		Request:  policy.request(c, command, dir, d),
		Unheld:   t.unheld(policy, c, command, dir, d),
		Reach:    t.reach(policy, command, dir, d),
		Rule:     d.Label(),
		Withheld: t.Paths.AskedReads(),
		Unasked:  t.unasked(d),
		Review:   policy.reviewed(d),
		Hold:     func(q tools.Proposal) tools.Proposal { return tools.Hold(q, paths, r.starts(command), d.names()...) },
		Present:  func(context.Context) (*approval.Presentation, error) { return present(command, dir, d), nil },
	}
	beyond := c.Beyond(plan.Profile, plan.Action)
	if beyond || len(plan.Action.Credentials()) > 0 {
		p.Changeable = t.Paths.Changeable(r.starts(command))
	}
	var rules []tools.Speaks
	takers, writers := 0, 0 // programs that may take orders from HOME or the workspace; that may leave some there
	for _, part := range d.Parts {
		if at := part.readings; part.Rule != rulePaths && (part.RuleIndex >= 0 || part.Effect < tools.Allow) && (len(at) == 0 || !known().in("sure", at[0][0]) && !known().in("brings-nothing", at[0][0])) {
			if takers++; !part.reads {
				writers++
			}
		}
		if !part.free {
			rules = append(rules, tools.Speaks{Words: part.Rule, Roots: part.roots})
		}
		if name, ok := strings.CutPrefix(part.Text, "> "); ok && part.Rule == rulePaths {
			p.Redirected = append(p.Redirected, name)
		}
	}
	p.EmptyHome = takers > 1 && t.Default.Effect() < tools.Allow && class != sandboxprofile.ClassRead
	if p.Unchanged = t.Paths.Unnamed(rules...); class == sandboxprofile.ClassWorkspace { // no word of a person's is about it
		p.Unchanged, p.EmptyHome = t.Paths.AskedWrites(), false
	}
	p.Kept = t.Paths.Changed(p.Unchanged)
	if class == sandboxprofile.Unclassified || class == sandboxprofile.ClassBeyond && t.Default.Effect() < tools.Allow && (beyond || !t.Default.Confined) {
		p.Apart = rules
	}
	if label := t.Paths.Asks(d.names(), dir); label != "" && p.Request != nil {
		p.Request.Payload["reads"] = label // a link that leads elsewhere by then is another question
	}
	if beyond && writers > 1 {
		p.Reach.Exact = tools.Beyond(nil)
	}
	if p.Request == nil && p.Unheld == nil {
		switch {
		case !beyond, class < sandboxprofile.ClassBeyond && !c.Elsewhere:
			return p, nil
		case len(p.Changeable) == 0 && (p.Reach.Exact == "" || d.RuleIndex < 0): // and stays so
			return tools.HoldAll(p, paths, r.starts(command)), nil
		}
		d.Effect = tools.Ask
		p.Request, p.Plan.Action.Ceiling, p.Cautions = policy.request(c, command, dir, d), nil, []string{tools.Beyond(p.Changeable)}
	}
	return p.Hold(p), nil
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

func (t *Tool) blocked(d Decision) error {
	return &approval.Blocked{Reason: d.Reason, Rule: d.Label(), Hint: cmp.Or(d.Hint, t.allowedHint())}
}

// allowedHint lists some of what runs, for a model to choose from.
func (t *Tool) allowedHint() string {
	var some []string
	rules := t.Policy().rules
	for _, i := range rules.others.all[:min(8, len(rules.others.all))] {
		some = append(some, rules.list[i].Pattern)
	}
	if len(some) == 0 {
		return "use another way, or ask the user"
	}
	return "examples of commands that rules name: " + strings.Join(some, ", ")
}

// plan says what runs: the program itself if the command line is no more than that, and
// else bash.
func (t *Tool) plan(c tools.Call, command, dir string, bounds []sandboxprofile.Profile) (tools.Plan, error) {
	path, argv := t.direct(command, dir)
	direct := path != ""
	if !direct {
		var err error
		if path, argv, err = t.inBash(command, dir); err != nil {
			return tools.Plan{}, err
		}
	}
	pin, err := tools.PinFile(path)
	if err != nil {
		return tools.Plan{}, fmt.Errorf("%w: %w", tools.ErrNotFound, err) // it went away since
	}
	profile, env := t.narrowed(bounds)
	if ms := c.Int("timeout_ms", 0); ms > 0 && ms < int64(profile.Limits.Wall/time.Millisecond) {
		profile.Limits.Wall = time.Duration(ms) * time.Millisecond
	}
	if direct {
		env = withDir(env, dir)
	}
	program := &sandboxprofile.Program{Path: path, Argv: argv, Dir: dir, Env: env}
	profile, secrets, err := t.Credentials.Give(program, profile)
	if err != nil {
		return tools.Plan{}, err
	}
	return tools.Plan{
		Tool: definition.Name, Kind: tools.Sandboxed,
		Action:  sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: program},
		Pins:    append([]tools.Pin{pin}, secrets...),
		Profile: profile,
	}, nil
}

// inBash gives bash and its arguments. The options keep it from reading start-up files:
// it reads ~/.bashrc even for -c when its standard input is a socket (bash(1),
// INVOCATION). After "--" a command that begins with a dash is no option.
func (t *Tool) inBash(command, dir string) (string, []string, error) {
	bash, err := tools.LookPath(t.Shell, t.searchPath(), dir, t.sees.Runnable)
	if err != nil {
		return "", nil, err
	}
	return bash, tools.BashReads(command), nil
}

// bounds are all that bound a command line.
func (p *Policy) bounds(d Decision) []sandboxprofile.Profile {
	var list []sandboxprofile.Profile
	for _, i := range d.Bounds {
		list = append(list, *p.rules.list[i].Bound)
	}
	return list
}

// reviewed reports whether one of the rules wants a person to look at what was changed.
func (p *Policy) reviewed(d Decision) bool {
	return slices.ContainsFunc(d.Bounds, func(i int) bool { return p.rules.list[i].Review })
}

// narrowed gives the profile and the environment of a command line: the meet of
// the tool's own and all bounds.
func (t *Tool) narrowed(bounds []sandboxprofile.Profile) (sandboxprofile.Profile, []string) {
	profile, env := t.Profile, slices.Clone(t.Env)
	for _, c := range bounds {
		profile = sandboxprofile.Intersect(profile, c)
	}
	if profile.Network.Mode == sandboxprofile.NetworkProxied && t.Profile.Network.Mode != sandboxprofile.NetworkProxied {
		proxied := map[string]string{}
		for _, kv := range t.ProxyEnv {
			name, value, _ := strings.Cut(kv, "=")
			if _, set := tools.LookupEnv(env, name); !set {
				proxied[name], profile.Env.Names = value, append(profile.Env.Names, name)
			}
		}
		env = tools.WithEnv(env, proxied)
	}
	return profile, env
}

func (t *Tool) searchPath() string {
	p, _ := tools.LookupEnv(t.Env, "PATH")
	return p
}

// request is nil if nobody needs to be asked. The payload is all that decides what
// happens: the command, where it runs, for how long, and the rule; the same command under
// another rule is asked about again.
func (p *Policy) request(c tools.Call, command, dir string, d Decision) *approval.Request {
	if d.Effect == tools.Allow {
		return nil
	}
	words := "Execute"
	if d.RuleIndex >= 0 && literalWords(command) != nil { // a rule's words are about one command, and no line around it
		words = cmp.Or(p.rules.list[d.RuleIndex].Description, words)
	}
	return &approval.Request{
		ToolName:    definition.Name,
		Description: approval.EscapeLine(words + ": " + tools.Shorten(command)),
		Payload:     map[string]any{"command": command, "dir": dir, "timeout_ms": c.Int("timeout_ms", 0), "rule": d.Rule},
	}
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
type pathFiles struct{ paths tools.Paths }

func (f pathFiles) Start() string  { return f.paths.Start() }
func (f pathFiles) Origin() string { return cmp.Or(f.paths.Origin, f.Start()) }
func (f pathFiles) Home() string   { return f.paths.Home }

// Check asks the path rules. What they refuse to have read is asked about, since
// programs read much that no tool needs to, and the sandbox hides what is hidden.
func (f pathFiles) Check(name, dir string, write bool) (tools.Effect, string, string) {
	f.paths.Cwd = dir
	d, err := f.paths.Decide(name, write)
	switch {
	case err != nil:
		return tools.Ask, err.Error(), "write a plain path"
	case d.Effect == tools.Deny && f.paths.Private(name) && !write:
		return tools.Allow, "", ""
	case d.Effect == tools.Deny && (!write || f.paths.Private(name)):
		return tools.Ask, d.Reason, d.Hint
	}
	return d.Effect, d.Reason, d.Hint
}

// Scratch: a root that lies below a directory of the sandbox's own, as a workspace lies in
// HOME, is the user's.
func (f pathFiles) Scratch(name, dir string) bool {
	f.paths.Cwd, f.paths.Scratch = dir, f.paths.Open
	return f.paths.Private(name)
}

// Free: where commands start in a root without a question, one beside it is no freer.
func (f pathFiles) Free(name, dir string) bool {
	origin := f.paths
	origin.Cwd, f.paths.Cwd = f.Origin(), dir
	return f.paths.OfProcess(name) || f.paths.Private(name) || f.paths.Unasked(name) && !origin.Unasked(".")
}

func (f pathFiles) Real(dir string) string {
	f.paths.Cwd = dir
	resolved, _ := f.paths.Resolve(".")
	return resolved
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
	paths   tools.Paths
	sees    *sandboxprofile.Lookup
	path    string
}

// Identify trusts the file that PATH gives for the base name, if nothing in the
// sandbox can write to where it lies. A bare name that is not found runs nothing,
// or is built into the shell.
func (s sandboxPrograms) Identify(name, dir string) (string, bool) {
	base := name[strings.LastIndexByte(name, '/')+1:]
	found, err := tools.LookPath(base, s.path, dir, s.sees.Runnable)
	if base == name {
		return base, errors.Is(err, tools.ErrNotFound) || err == nil && s.trusted(found)
	}
	if err != nil || !s.trusted(found) {
		return "", false
	}
	given, err := tools.LookPath(name, s.path, dir, s.sees.Runnable)
	return base, err == nil && given == found
}

func (s sandboxPrograms) trusted(found string) bool {
	return tools.Trusted(found, s.profile) && !s.paths.Writable(found)
}

// Locate implements Programs. Empty and relative entries of PATH start at dir.
func (s sandboxPrograms) Locate(name, dir string) string {
	found, err := tools.LookPath(name, s.path, dir, s.sees.Runnable)
	if err != nil || s.trusted(found) {
		return ""
	}
	return found
}

// Sh follows the links of sh.
func (s sandboxPrograms) Sh() string {
	found, err := tools.LookPath("sh", s.path, "/", s.sees.Runnable)
	if err != nil || !s.trusted(found) {
		return ""
	}
	target, err := filepath.EvalSymlinks(found)
	if err != nil || filepath.Base(target) == "sh" {
		return ""
	}
	return filepath.Base(target)
}
