package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Layer is one file as it was loaded by itself, and whose it is.
type Layer struct {
	Tier Tier
	Name string // as positions say it
	// Trusted is false for a file of the workspace that no person has trusted.
	Trusted bool
	Config  *Config
}

// A Source is a file that a Config was merged from.
type Source struct {
	Tier    Tier   `json:"tier"`
	File    string `json:"file"` // absolute
	Name    string `json:"-"`    // as positions say it
	Digest  string `json:"digest"`
	Trusted bool   `json:"trusted"`
}

// Merge is the configuration that several files make together: rows say how, key
// by key. The layers come as Find finds them, the administrator's first.
//
// A trusted file sets what it has to say over those before it, except what is sticky:
// no file takes back what another denies. Then what the administrator's file sets is
// a bound: nothing comes out that is wider. A file that is not trusted is such a bound
// too, and nothing else. Whatever it would widen is in Unused.
func Merge(base *Config, layers ...Layer) (*Config, error) {
	c, err := merge(base, layers)
	if err != nil {
		return c, err
	}
	others := slices.DeleteFunc(slices.Clone(layers), func(l Layer) bool { return l.Tier == TierWorkspace })
	if len(others) < len(layers) {
		c.Above, _ = merge(base, others) // where they do not fit together, what there is of it
	}
	return c, nil
}

func merge(base *Config, layers []Layer) (*Config, error) {
	m := newMerger(base)
	for _, l := range layers {
		m.c.Sources = append(m.c.Sources, Source{l.Tier, l.Config.File, l.Name, l.Config.Digest, l.Trusted})
		if l.Trusted {
			m.lay(l)
		}
	}
	for _, l := range layers {
		if l.Tier == TierAdmin && l.Config.Set("policy") {
			m.t, m.set, m.tier = l.Config, l.Config.fieldsSet(), l
			owned("policy", "").within(m)
		}
	}
	m.c.applyPolicy() // what bounds the whole bounds what the policy gives, too
	for _, l := range layers {
		if l.Tier == TierAdmin {
			m.c.Floor = l.Config
			m.narrow(l)
		}
	}
	for _, l := range layers {
		if !l.Trusted {
			m.narrow(l)
		}
	}
	m.settle()
	return m.c, newError("", m.problems)
}

// KeepFloor narrows c, which the command line may have changed, to what the
// administrator's file sets, and says of what it took something away.
func (c *Config) KeepFloor() []Notice {
	if c.Floor == nil {
		return nil
	}
	m := &merger{c: c, t: c.Floor, set: c.Floor.fieldsSet(), tier: Layer{Tier: TierAdmin, Trusted: true, Config: c.Floor}, floor: true}
	before := c.Sandbox.Paths
	m.bound()
	for i := range c.Shell.Rules {
		c.Shell.Rules[i].SandboxPaths = namesNow(c.Shell.Rules[i], before, c.Sandbox.Paths)
	}
	for i := range c.Tools {
		c.Tools[i].Sandbox.Paths = grantsNow(c.Tools[i].Sandbox.Paths, before, c.Sandbox.Paths)
	}
	return m.bounded
}

// A merger is a merge under way.
type merger struct {
	c *Config // what holds so far
	// t is the file that is taken in, and set what it sets: each field and all around it.
	t    *Config
	set  map[string]bool
	tier Layer
	// floor is set when c was whole already, and is bounded once more.
	floor    bool
	bounded  []Notice
	problems []Problem
	// written are the paths of each file, by which its rules and tools mean them: a
	// name is another directory in another file.
	written map[Tier][]Path
	rules   []laidRule
	owner   map[string]Tier // whose a custom tool, a server or a credential is, by its field
}

func newMerger(base *Config) *merger {
	c := *base
	c.Origins = maps.Clone(base.Origins)
	c.Notices = nil
	c.Shell.Rules, c.Tools, c.MCP.Servers, c.Shell.Credentials = nil, nil, nil, nil
	c.Sandbox.Paths = slices.Clone(c.Sandbox.Paths)
	c.Sandbox.Env.Set = maps.Clone(c.Sandbox.Env.Set)
	return &merger{c: &c, written: map[Tier][]Path{}, owner: map[string]Tier{}}
}

// lay puts a trusted file over what holds so far.
func (m *merger) lay(l Layer) {
	m.t, m.set, m.tier = l.Config, l.Config.fieldsSet(), l
	m.written[l.Tier] = l.Config.Sandbox.Paths
	for _, r := range rows() {
		if r.how != "" && m.set[r.key] {
			r.over(m)
		}
	}
	if l.Tier != TierWorkspace {
		m.c.File, m.c.Digest = l.Config.File, l.Config.Digest
	}
	m.c.Notices = append(m.c.Notices, l.Config.Notices...)
}

// bound bounds what holds so far by each key that t sets.
func (m *merger) bound() {
	for _, r := range rows() {
		if r.how != "" && m.set[r.key] {
			r.within(m)
		}
	}
}

// narrow bounds what holds so far by a file.
func (m *merger) narrow(l Layer) {
	m.t, m.set, m.tier = l.Config, l.Config.fieldsSet(), l
	m.written[l.Tier] = l.Config.Sandbox.Paths
	m.bound()
	if !l.Trusted {
		m.untrustedNotices(l.Config)
	}
}

// fieldsSet are the fields that a file sets, and those that these lie in.
func (c *Config) fieldsSet() map[string]bool {
	set := make(map[string]bool, len(c.Origins))
	for f := range c.Origins {
		for ; f != "" && !set[f]; f = fieldParent(f) {
			set[f] = true
		}
	}
	return set
}

func (c *Config) setsWithin(field string) bool {
	for f := range c.Origins {
		if within(f, field) {
			return true
		}
	}
	return false
}

// within reports whether a field lies in another one.
func within(field, whole string) bool {
	rest, ok := strings.CutPrefix(field, whole)
	return ok && rest != "" && (rest[0] == '.' || rest[0] == '[')
}

// take gives a field of c the positions that t has for it.
func (m *merger) take(field string) { m.takeAs(field, field) }

// takeAs gives the field of c the positions of another one of t.
func (m *merger) takeAs(field, theirs string) {
	m.forget(field)
	for f, p := range m.t.Origins {
		if f == theirs || within(f, theirs) {
			m.c.Origins[field+strings.TrimPrefix(f, theirs)] = p
		}
	}
}

func (m *merger) forget(field string) {
	maps.DeleteFunc(m.c.Origins, func(f string, _ Position) bool { return f == field || within(f, field) })
}

// position is where t sets a field, or the nearest part of the file around it.
func (m *merger) position(field string) Position { return positionIn(m.t, field) }

func positionIn(c *Config, field string) Position {
	for ; field != ""; field = fieldParent(field) {
		if p, ok := c.Origins[field]; ok {
			return p
		}
	}
	return Position{File: c.File}
}

// unused notes that t is wider than what holds.
func (m *merger) unused(field, why string) {
	if m.tier.Trusted {
		return
	}
	m.c.Unused = append(m.c.Unused, Notice{m.position(field), field, why})
}

// narrowed notes that the administrator's file has taken something away.
func (m *merger) narrowed(field string) {
	if !m.tier.Trusted || !m.floor && !m.c.Set(field) && !m.c.setsWithin(field) {
		return
	}
	n := Notice{positionIn(m.c, field), field, "bounded by the administrator's file: " + m.position(field).String()}
	if n.Position == m.position(field) { // its own value, which a flag has changed
		n.Position = Position{}
	}
	m.bounded = append(m.bounded, n)
	if !m.floor {
		m.c.Notices = append(m.c.Notices, n)
	}
}

func (m *merger) problem(field, text, hint string) {
	m.problems = append(m.problems, Problem{m.position(field), field, text, hint})
}

// wider says what a value is wider than.
func (m *merger) wider(field string, theirs, ours any) string {
	return fmt.Sprintf("%s would be wider than %s (%s)", shown(theirs), shown(ours), m.c.Origin(field))
}

// shown is a value as the file format has it, on one line.
func shown(v any) string {
	rv := reflect.New(reflect.TypeOf(v)).Elem()
	rv.Set(reflect.ValueOf(v))
	n := encoder{}.value(rv, "")
	n.Style |= yaml.FlowStyle
	text, err := yaml.Marshal(n)
	if err != nil {
		return "it"
	}
	line, cut := strings.CutSuffix(quote(strings.TrimSpace(string(text))), "...")
	line = strings.ReplaceAll(strings.Trim(line, `"`), `\"`, `"`)
	if cut {
		line += "..."
	}
	return line
}

// untrustedNotices keeps what a file that is not trusted has to say about values that
// have an effect.
func (m *merger) untrustedNotices(c *Config) {
	for _, n := range c.Notices {
		idle := slices.ContainsFunc(m.c.Unused, func(u Notice) bool { return u.Field == n.Field || within(n.Field, u.Field) })
		if !idle {
			m.c.Notices = append(m.c.Notices, n)
		}
	}
}

// settle puts the parts right that depend on the whole, and drops notices that hold
// for one file alone.
func (m *merger) settle() {
	c := m.c
	m.settleWorkdir()
	m.settleRules()
	for i := range c.Tools {
		m.settleTool(&c.Tools[i])
	}
	c.Approval.SafeTools = slices.DeleteFunc(slices.Clone(c.Approval.SafeTools), func(name string) bool {
		return slices.Contains(c.Approval.DangerousTools, name) || slices.Contains(c.Approval.Guarded, name)
	})
	gone := map[string]bool{
		"sandbox.protect":            slices.Contains(c.Sandbox.Protect, DefaultList),
		"sandbox.hide":               slices.Contains(c.Sandbox.Hide, DefaultList),
		"sandbox.require_os_sandbox": c.Sandbox.RequireOSSandbox,
		"approval.elicitation":       !c.Approval.Elicitation,
		"approval.mode":              c.Approval.Mode != ApproveAll,
		"shell.network":              c.Shell.Network.Mode != NetworkHost,
	}
	c.Notices = slices.DeleteFunc(c.Notices, func(n Notice) bool { return gone[n.Field] && !slices.Contains(m.bounded, n) })
}

func (m *merger) settleTool(t *Tool) {
	t.Tier = m.owner[fieldKey("tools", t.Name)]
	named, written := t.Sandbox.Paths, m.written[t.Tier]
	t.Sandbox.Paths, t.Sandbox.Implied = grantsNow(named, written, m.c.Sandbox.Paths), nil
	for _, p := range m.c.Sandbox.Paths {
		same := func(q Path) bool { return q.Root == p.Root && named[q.Name] != "" }
		if t.Sandbox.Paths[p.Name] != "" && !slices.ContainsFunc(written, same) {
			t.Sandbox.Implied = append(t.Sandbox.Implied, p.Name)
		}
	}
	if t.Sandbox.Env != nil && t.Sandbox.Env.Allow != nil {
		env := *t.Sandbox.Env
		env.Allow = common(env.Allow, m.c.Sandbox.Env.Allow)
		t.Sandbox.Env = &env
	}
}

// common are the items of a that are in b too. It is never nil, which would be all.
func common(a, b []string) []string {
	return slices.DeleteFunc(append([]string{}, a...), func(s string) bool { return !slices.Contains(b, s) })
}
