// Package mcp makes tools of what third-party servers of the Model Context
// Protocol offer.
//
// A server is a program of the configuration that runs in a sandbox of its own,
// for one session; the supervisor keeps it. What the server says about itself is
// the word of a stranger: names are made ours, texts that could hide something
// are refused, and hints can only make a decision more careful. What a person
// approved is a tool with its definition, from a program with its profile; if one
// of them is another the next time, the answer does not hold.
//
// Like every package of tools this one plans and never acts.
package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Config is the configuration of a Server.
type Config struct {
	// Name is letters, digits and '-'. It has no '_', which ends it in the names of
	// the server's tools.
	Name string
	// Program plans the server's process, called without arguments.
	Program tools.Tool
	// Default and Tools say what applies to calls, Tools by globs on the names that
	// the server gives its tools. Of several that match, the strictest wins.
	Default tools.Effect
	Tools   map[string]tools.Effect
	// Wall bounds one call, and Output what it gives back, in bytes.
	Wall   time.Duration
	Output int64
	// Position is where the configuration has the server: "sandgate.yaml:31:5".
	Position string
	// Others are the names of the other servers.
	Others []string
}

// A Server is one entry of mcp.servers.
type Server struct{ Config }

// New gives the server of a configuration.
func New(c Config) *Server { return &Server{c} }

// ProcessName is the tool name under which the process of a server is in the log.
func (s *Server) ProcessName() string { return "mcp." + s.Name }

// Start plans the server's process. It runs until its session ends.
func (s *Server) Start() (tools.Proposal, error) {
	p, err := s.Program.Plan(tools.Call{Tool: s.ProcessName(), Args: map[string]any{}})
	if err != nil {
		return p, fmt.Errorf("mcp server %s: %w", s.Name, err)
	}
	if len(p.Changeable) > 0 {
		return p, fmt.Errorf("mcp server %s: %s; move it to where tools cannot write, such as below a path with mode: ro", s.Name, p.Reach.Exact)
	}
	p.Plan.Tool = s.ProcessName()
	p.Plan.Background = true
	p.Plan.Profile.Limits.Wall = time.Duration(sandboxprofile.Unlimited)
	p.Plan.Profile.Limits.Output = sandboxprofile.Unlimited // messages; each call has its own limit
	p.Rule, p.Connector, p.Request, p.Present = "mcp.servers."+s.Name, s.Name, nil, nil
	return p, nil
}

func (s *Server) rule(glob string) string {
	r := "mcp.servers." + s.Name
	if glob != "" {
		return fmt.Sprintf("%s.approval.tools %q", r, glob)
	}
	return r + ".approval.default"
}

// effect is the configuration's decision about a tool, and the rule that makes it.
func (s *Server) effect(tool string) (tools.Effect, string) {
	effect, rule := s.Default, s.rule("")
	matched := false
	for _, glob := range slices.Sorted(maps.Keys(s.Tools)) {
		if e := s.Tools[glob]; approval.Glob(glob, tool) && (!matched || e < effect) {
			effect, rule, matched = e, s.rule(glob), true
		}
	}
	return effect, rule
}

// A Process is a server as it runs: the plan of its start, which was carried out.
type Process struct {
	Plan   tools.Plan
	Digest string
	// Approved is the digest of the definition that a tool had when a call of it was
	// last let through, or "".
	Approved func(tool string) string
}

// A Tool is one tool of a server.
type Tool struct {
	server     *Server
	process    Process
	definition tools.Definition
	own        string // the server's own name for it
	digest     string // of the definition, and of what tools can write of the program
	refused    string // why it is not offered; "" if it is
	hint       string // what the server's hints say against it; "" for nothing
	cautions   []string
}

// Definition implements tools.Tool.
func (t *Tool) Definition() tools.Definition { return t.definition }

// Own is the name that the server gives the tool.
func (t *Tool) Own() string { return t.own }

// Digest identifies the definition.
func (t *Tool) Digest() string { return t.digest }

// Refused says why calls of the tool are blocked; "" if they are not.
func (t *Tool) Refused() string { return t.refused }

// Unavailable says why every call of the tool is refused; "" if it is not so.
func (t *Tool) Unavailable() string {
	effect, rule := t.server.effect(t.own)
	switch {
	case t.refused != "":
		return "its definition is refused: " + t.refused
	case effect == tools.Deny:
		return rule + " denies it"
	}
	return ""
}

// Plan implements tools.Tool.
func (t *Tool) Plan(c tools.Call) (tools.Proposal, error) {
	effect, rule := t.server.effect(t.own)
	p := tools.Proposal{Rule: rule, Connector: t.server.Name}
	switch {
	case t.refused != "":
		return p, &approval.Blocked{
			Reason: fmt.Sprintf("the definition of %s is refused: %s", t.definition.Name, t.refused),
			Rule:   "mcp.servers." + t.server.Name, Hint: "use another tool",
		}
	case effect == tools.Deny:
		return p, &approval.Blocked{
			Reason: fmt.Sprintf("the configuration denies %s of the MCP server %s", t.own, t.server.Name),
			Rule:   rule, Hint: "use another tool",
		}
	}
	args, err := approval.Canonical(c.Args)
	if err != nil {
		return p, &tools.ArgumentError{Reason: err.Error()}
	}
	p.Plan = t.process.Plan
	p.Plan.Tool, p.Plan.Background, p.Plan.Pins = t.definition.Name, false, nil
	p.Plan.Profile.Limits.Wall = t.server.Wall
	p.Plan.Profile.Limits.Output = t.server.Output
	p.Plan.Kind, p.Plan.MCP = tools.ByServer, tools.MCPCall{
		Server: t.server.Name, Tool: t.own, Definition: t.digest, Process: t.process.Digest, Args: args,
	}
	cautions := slices.Clone(t.cautions)
	if named := effect == tools.Allow && t.server.Tools[t.own] == tools.Allow; t.hint != "" && !named {
		// An operator who allows a tool by its own name has decided about it, and the
		// hints add nothing; another definition the next time still does.
		cautions = append(cautions, t.hint)
	}
	if before := t.process.Approved(t.own); before != "" && before != t.digest {
		p.Changed = true
		cautions = append([]string{"since the last approved call, the server changed the tool's definition, or its program changed in a place where tools can write"}, cautions...)
	}
	p.Cautions = cautions
	if effect == tools.Allow && len(cautions) == 0 {
		return p, nil
	}
	p.Request = &approval.Request{
		ToolName:    t.definition.Name,
		Description: tools.Shorten(fmt.Sprintf("%s: %s %s", t.server.Name, t.own, args)),
		Payload: map[string]any{
			"server": t.server.Name, "program": t.process.program(), "tool": t.own, "definition": t.digest, "args": c.Args,
		},
	}
	p.Present = t.present(c, cautions)
	return p, nil
}

// program identifies what runs, without the files that it stands on: those of an
// update are others, and its tools are held against their definitions. What tools can
// write of it counts as a part of each definition.
func (p Process) program() string {
	b, err := json.Marshal([]any{p.Plan.Action, p.Plan.Profile})
	if err != nil {
		panic(fmt.Sprintf("mcp: bug: a plan does not marshal: %v", err))
	}
	return digestOf(b)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Unlisted is a tool that is not in the server's list: only the configuration decides
// about it.
func (s *Server) Unlisted(name string) tools.Tool { return unlisted{s, name} }

type unlisted struct {
	server *Server
	name   string
}

func (u unlisted) own() string { return strings.TrimPrefix(u.name, u.server.Name+"_") }

func (u unlisted) Definition() tools.Definition {
	return tools.Definition{Name: u.name, InputSchema: json.RawMessage(`{"type":"object"}`)}
}

func (u unlisted) Plan(c tools.Call) (tools.Proposal, error) {
	start, err := u.server.Start()
	if err != nil {
		return start, err
	}
	t := Tool{server: u.server, own: u.own(), definition: u.Definition(), process: Process{
		Plan: start.Plan, Digest: start.Plan.Digest(), Approved: func(string) string { return "" },
	}}
	return t.Plan(c)
}

func (u unlisted) Explain(c tools.Call) ([]tools.Considered, error) {
	return u.server.explain(u.own()), nil
}

// Explain implements tools.Explainer.
func (t *Tool) Explain(tools.Call) ([]tools.Considered, error) { return t.server.explain(t.own), nil }

func (s *Server) explain(own string) []tools.Considered {
	effect, decides := s.effect(own)
	var list []tools.Considered
	add := func(rule string, e tools.Effect, matches bool) {
		c := tools.Considered{Subject: own, Rule: rule, Position: s.Position, Effect: e, Outcome: tools.NoMatch}
		switch {
		case rule == decides:
			c.Outcome = tools.Decides
		case matches:
			c.Outcome, c.Why = tools.Matches, "a stricter one decides"
		}
		list = append(list, c)
	}
	for _, glob := range slices.Sorted(maps.Keys(s.Tools)) {
		add(s.rule(glob), s.Tools[glob], approval.Glob(glob, own))
	}
	if decides == s.rule("") {
		add(s.rule(""), effect, true)
	}
	return list
}
