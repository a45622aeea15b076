package assemble

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/manifest"
)

// ownQuestions are the names of questions that sandgate itself asks, which do not belong to a
// tool: about a host, a path, a draft, a signature, the use of a credential.
func ownQuestions() []string { return []string{"network", "path", "review", "sign", "credential"} }

// ReservedTools are names that a custom tool cannot have: those of the built-in tools, and of
// our own questions.
func ReservedTools() []string {
	return append(ownQuestions(),
		"read_file", "write_file", "edit_file", "multi_edit", "list_files", "glob", "grep", "shell", "run",
		"run_background", "task_output", "task_input", "kill_task", "list_tasks",
	)
}

// customTools makes the tools of the configuration.
func customTools(cfg *config.Config, d Derived, own map[string]sandboxprofile.Rights) ([]tools.Tool, error) {
	var list []tools.Tool
	for i := range cfg.Tools {
		c, err := CustomTool(cfg, d, own, &cfg.Tools[i])
		if err != nil {
			return nil, configError(err)
		}
		tool, err := manifest.New(c)
		if err != nil {
			return nil, configError(err)
		}
		if cfg.Tools[i].Review {
			tool = reviewedTool{tool}
		}
		list = append(list, tool)
	}
	return list, nil
}

// A reviewedTool has each of its calls reviewed.
type reviewedTool struct{ tools.Tool }

func (t reviewedTool) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := t.Tool.Plan(c)
	p.Review = true
	return p, err
}

// CustomTool narrows what every program has to what one tool is granted. Its
// network is its own.
func CustomTool(cfg *config.Config, d Derived, own map[string]sandboxprofile.Rights, t *config.Tool) (manifest.Config, error) {
	c := manifest.Config{Spec: t.Spec(), Paths: d.paths, AllPaths: d.paths, Starts: d.starts}
	c.Credentials = credentials("tools."+t.Name+".credentials", t.Credentials, t.Sandbox.Network)
	var err error
	if d.denied != nil {
		if c.Denied, err = d.denied(t.Tier); err != nil {
			return c, err
		}
	}
	needs, err := toolNeeds(cfg, d.Needs, t)
	if err != nil {
		return c, fmt.Errorf("tools.%s.sandbox.network: %w", t.Name, err)
	}
	narrow, kept, _ := forPrograms(cfg, needs)
	maps.Copy(kept, own)
	for _, p := range cfg.Sandbox.Paths {
		if _, granted := t.Sandbox.Paths[p.Name]; t.Sandbox.Paths != nil && !granted {
			kept[p.Root] = 0 // it may lie inside one that is granted
		}
	}
	ceiling := d.Programs
	ceiling.Network, ceiling.Env = needs.Network, needs.Env
	c.Profile = sandboxprofile.Intersect(without(sandboxprofile.Derive(narrow), kept), ceiling)
	c.Paths.Rules = toolRules(c.Paths.Rules, t.Sandbox.Paths)
	seen := c.Profile
	asked := c.Paths.Unnamed()
	for _, r := range c.Paths.Rules { // what a definition names, its program has
		if t.Sandbox.Paths != nil && !slices.Contains(t.Sandbox.Implied, r.Name) {
			continue
		}
		if r.ReadApproval {
			c.Withheld = append(c.Withheld, r.Root)
		}
		if slices.Contains(asked, r.Root) {
			c.Unchanged = append(c.Unchanged, r.Root)
		}
	}
	seen = without(seen, none(c.Withheld))
	c.Dir = startDir(cfg, c.Paths, t.Sandbox.Paths, seen)
	c.Paths.Cwd, c.AllPaths.Cwd = c.Dir, c.Dir
	allow, set := toolVariables(cfg, t)
	c.Environ = environ(allow, set, d, c.Profile)
	c.Lends = lends(d, c)
	return c, nil
}

// lends reports whether a tool that needs no approval has something that not every command has without
// approval. What calls may put in the place of a file that it starts would have that, too.
func lends(d Derived, c manifest.Config) bool {
	unasked := func(p sandboxprofile.Profile, paths tools.Paths, withheld, unchanged []string) bounds.Boundary {
		p = bounds.Unasked(p, tools.Proposal{Withheld: withheld, Unchanged: unchanged, Kept: paths.Changed(unchanged)})
		p.Network.Terminated = nil
		return bounds.BoundaryOf(tools.Plan{Profile: p, Action: sandboxprofile.Action{Exec: &sandboxprofile.Program{}}})
	}
	commands := unasked(d.Programs, d.paths, d.paths.AskedReads(), d.paths.Unnamed())
	return !unasked(c.Profile, c.Paths, c.Withheld, c.Unchanged).Within(commands.Text())
}

// none gives no rights to any of the directories.
func none(dirs []string) map[string]sandboxprofile.Rights {
	m := map[string]sandboxprofile.Rights{}
	for _, dir := range dirs {
		m[dir] = 0
	}
	return m
}

// toolNeeds are the needs of every program, less what the tool leaves out.
func toolNeeds(cfg *config.Config, n sandboxprofile.Needs, t *config.Tool) (sandboxprofile.Needs, error) {
	s := t.Sandbox
	var err error
	if n.Network, err = network(s.Network); err != nil {
		return n, err
	}
	if s.Paths != nil {
		n.Roots = slices.DeleteFunc(slices.Clone(n.Roots), func(r sandboxprofile.Root) bool { return s.Paths[r.Name] == "" })
		for i := range n.Roots {
			n.Roots[i].Write = n.Roots[i].Write && s.Paths[n.Roots[i].Name] == config.ReadWrite
		}
	}
	if s.Presets != nil {
		n.Presets = slices.DeleteFunc(slices.Clone(n.Presets), func(p sandboxprofile.Preset) bool { return !slices.Contains(s.Presets, p.Name) })
	}
	allow, set := toolVariables(cfg, t)
	n.Env = sandboxprofile.Env{Names: slices.Concat(allow, slices.Collect(maps.Keys(set)), t.Spec().EnvNames())}
	for _, c := range t.Credentials {
		n.Env.Names = append(n.Env.Names, c.Name)
	}
	n.Limits = narrowed(n.Limits, s.Limits)
	if t.Timeout != nil {
		n.Limits.Wall = min(n.Limits.Wall, *t.Timeout)
	}
	return n, nil
}

// narrowed lowers limits to those that are set in l.
func narrowed(limits sandboxprofile.Limits, l *config.Limits) sandboxprofile.Limits {
	if l == nil {
		return limits
	}
	lower := func(have *int64, want int64) {
		if want > 0 {
			*have = min(*have, want)
		}
	}
	if l.Timeout > 0 {
		limits.Wall = min(limits.Wall, l.Timeout)
	}
	if l.CPU > 0 {
		limits.CPU = min(limits.CPU, l.CPU)
	}
	lower(&limits.Memory, int64(l.Memory))
	lower(&limits.Pids, l.Pids)
	lower(&limits.FileSize, int64(l.FileSize))
	lower(&limits.Scratch, int64(l.FileSize))
	lower(&limits.OpenFiles, l.OpenFiles)
	lower(&limits.Output, int64(l.Output))
	return limits
}

// toolVariables are the names that a tool's programs take over from the host, and
// the variables with fixed values.
func toolVariables(cfg *config.Config, t *config.Tool) (allow []string, set map[string]string) {
	allow, _ = allowedNames(cfg)
	set = maps.Clone(cfg.Sandbox.Env.Set)
	if set == nil {
		set = map[string]string{}
	}
	if e := t.Sandbox.Env; e != nil {
		maps.Copy(set, e.Set)
		if cfg.Floor != nil && t.Tier != config.TierAdmin { // what the administrator sets stands
			maps.Copy(set, cfg.Floor.Sandbox.Env.Set)
		}
		if e.Allow != nil {
			allow = e.Allow
		}
	}
	return allow, withProxy(t.Sandbox.Network, set)
}

// toolRules narrows the path rules to those that are granted; nil grants all.
func toolRules(rules []tools.PathRule, granted map[string]config.Mode) []tools.PathRule {
	if granted == nil {
		return rules
	}
	rules = slices.DeleteFunc(slices.Clone(rules), func(r tools.PathRule) bool { return granted[r.Name] == "" })
	for i := range rules {
		rules[i].Write = rules[i].Write && granted[rules[i].Name] == config.ReadWrite
	}
	return rules
}

// startDir is where the tool runs: where every program does if it sees that, else in
// the first directory that it sees, else in its own /tmp. An untrusted file cannot move
// a tool into another directory, whose Makefile would get the tool's secrets.
func startDir(cfg *config.Config, p tools.Paths, granted map[string]config.Mode, profile sandboxprofile.Profile) string {
	sees := func(dir string) bool { return profile.Rights(dir)&sandboxprofile.Read != 0 }
	vouched := cfg.Vouched()
	if vouched == cfg {
		return cmp.Or(firstDir(p, sees), "/tmp")
	}
	was := pathsOf(vouched, sandboxprofile.Needs{})
	was.Rules = slices.DeleteFunc(toolRules(was.Rules, granted), func(r tools.PathRule) bool { return len(r.Suffixes) > 0 })
	saw := func(dir string) bool {
		return slices.ContainsFunc(was.Rules, func(r tools.PathRule) bool { return sandboxprofile.Contains(r.Root, dir) })
	}
	if dir := firstDir(was, saw); sees(dir) {
		return dir
	}
	return "/tmp"
}

func firstDir(p tools.Paths, sees func(string) bool) string {
	dirs := []string{p.Cwd}
	for _, r := range p.Rules {
		dirs = append(dirs, r.Root)
	}
	if i := slices.IndexFunc(dirs, func(dir string) bool { return dir != "" && sees(dir) }); i >= 0 {
		return dirs[i]
	}
	return ""
}

// CheckTools looks for the programs of the custom tools and the MCP servers. A program
// named by a path has to exist; one that is searched for may be installed later.
func CheckTools(cfg *config.Config) error {
	programs := map[string]config.Tool{} // by field
	for _, t := range cfg.Tools {
		programs["tools."+t.Name] = t
	}
	for i := range cfg.MCP.Servers {
		s := &cfg.MCP.Servers[i]
		programs["mcp.servers."+s.Name] = s.Tool()
	}
	if len(programs) == 0 {
		return nil
	}
	d, err := Derive(cfg, nil, "")
	if err != nil {
		return err
	}
	var problems []config.Problem
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		t, field := programs[name], name+".command[0]"
		c, err := CustomTool(cfg, d, nil, &t)
		if err == nil {
			_, err = c.Find()
		}
		at := t.Position
		if p, ok := cfg.Origins[field]; ok {
			at = p
		}
		switch {
		case err == nil:
		case errors.Is(err, tools.ErrNotFound) && !strings.Contains(c.Command[0], "/"):
			cfg.Notices = append(cfg.Notices, config.Notice{Position: at, Field: field,
				Text: fmt.Sprintf("%v on the sandbox's PATH: calls end with status 127", err)})
		default:
			problems = append(problems, config.Problem{Position: at, Field: field, Text: err.Error(),
				Hint: "a path starts at " + c.Dir + ", and the tool must see it"})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return configError(&config.Error{File: problems[0].Position.File, Problems: problems})
}
