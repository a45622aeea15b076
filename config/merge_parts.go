package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (m *merger) laySet() {
	set := maps.Clone(m.c.Sandbox.Env.Set)
	if set == nil {
		set = map[string]string{}
	}
	const key = "sandbox.env.set"
	for _, name := range slices.Sorted(maps.Keys(m.t.Sandbox.Env.Set)) {
		set[name] = m.t.Sandbox.Env.Set[name]
		m.take(fieldKey(key, name))
	}
	m.c.Sandbox.Env.Set = set
	m.c.Origins[key] = m.position(key)
}

// boundSet: a variable such as LD_PRELOAD or PATH decides what programs do, so a file
// that is not trusted sets none.
func (m *merger) boundSet() {
	const key = "sandbox.env.set"
	for _, name := range slices.Sorted(maps.Keys(m.t.Sandbox.Env.Set)) {
		field := fieldKey(key, name)
		switch {
		case m.c.Sandbox.Env.Set[name] == m.t.Sandbox.Env.Set[name]:
		case m.tier.Trusted:
			m.narrowed(field)
			m.c.Sandbox.Env.Set = maps.Clone(m.c.Sandbox.Env.Set)
			m.c.Sandbox.Env.Set[name] = m.t.Sandbox.Env.Set[name]
			m.take(field)
		default:
			m.unused(field, "a variable can change the behaviour of programs")
		}
	}
}

func (m *merger) addProfile() {
	const key = "sandbox.profile"
	name := m.t.Sandbox.Profile
	if name == "" {
		return
	}
	if m.tier.Tier == TierWorkspace && isProfileFile(name) {
		m.problem(key, "a workspace file can name only a shipped profile, not a file: "+quote(name)+" could change unnoticed",
			"name a shipped profile, or set this profile in the user's configuration")
		return
	}
	m.c.Sandbox.Profiles = append(slices.Clone(m.c.Sandbox.Profiles),
		OperatorProfile{name, m.tier.Tier, m.position(key), roots(m.t.Sandbox.Paths)})
	if m.tier.Trusted || m.c.Sandbox.Profile == "" {
		m.c.Sandbox.Profile = name
		m.take(key)
	}
}

// boundProfile: the administrator's has been added, and stays.
func (m *merger) boundProfile() {
	if !m.tier.Trusted {
		m.addProfile()
	}
}

func (d ShellDefault) rank() int {
	switch {
	case !d.Allowed:
		return 0
	case d.Confined:
		return 2
	case d.Approval:
		return 1
	}
	return 3
}

const defaultKey = "shell.default"

func (m *merger) layDefault() {
	if !m.c.Set(defaultKey) || m.t.Shell.Default.rank() < m.c.Shell.Default.rank() {
		m.c.Shell.Default = m.t.Shell.Default
		m.take(defaultKey)
	}
	m.close()
}

func (m *merger) boundDefault() {
	ours, theirs := m.c.Shell.Default, m.t.Shell.Default
	switch {
	case theirs.rank() < ours.rank():
		m.narrowed(defaultKey)
		m.c.Shell.Default = theirs
		m.take(defaultKey)
	case theirs.rank() > ours.rank():
		m.unused(defaultKey, m.wider(defaultKey, theirs, ours))
	}
	m.close()
}

// close notes that the file denies what its own rules do not name.
func (m *merger) close() {
	if !m.t.Shell.Default.Allowed && !slices.Contains(m.c.Shell.Closed, m.tier.Tier) {
		m.c.Shell.Closed = append(slices.Clone(m.c.Shell.Closed), m.tier.Tier)
	}
}

// A laidRule is a rule and where it is from.
type laidRule struct {
	layer Layer
	index int
}

// addRules puts the rules of a trusted file before those of the files before it: where
// several allow, the most specific file speaks. Whatever the order, the rules of each
// file are tried by themselves too.
func (m *merger) addRules() {
	var list []laidRule
	for i := range m.t.Shell.Rules {
		list = append(list, laidRule{m.tier, i})
	}
	m.rules = slices.Concat(list, m.rules)
}

func (m *merger) boundRules() {
	if m.tier.Trusted {
		return
	}
	for i, r := range m.t.Shell.Rules {
		field := fieldIndex("shell.rules", i)
		if r.Allowed && !r.Approval {
			m.unused(field, fmt.Sprintf("%s would run without asking", quote(r.Pattern)))
		} else {
			for key, text := range map[string]string{".description": r.Description, ".reason": approversRead(r)} {
				if text != "" {
					m.unused(field+key, "approvers would read this text")
				}
			}
		}
		m.rules = append(m.rules, laidRule{m.tier, i})
	}
}

// approversRead is the reason of a rule that asks: the question has it. That of one that
// denies is for the agent.
func approversRead(r Rule) string {
	if !r.Allowed {
		return ""
	}
	return r.Reason
}

func (m *merger) settleRules() {
	const key = "shell.rules"
	m.forget(key)
	m.c.Shell.Rules = nil
	for _, l := range m.rules {
		r := l.layer.Config.Shell.Rules[l.index]
		r.Tier, r.Narrows = l.layer.Tier, !l.layer.Trusted
		if r.Narrows {
			r.Description = ""
			if approversRead(r) != "" {
				r.Reason = ""
			}
			if r.Network != nil && m.listsForAll(*r.Network) {
				field := fieldIndex(key, l.index) + ".network"
				m.c.Unused = append(m.c.Unused, Notice{positionIn(l.layer.Config, field), field, listedByTrusted})
				r.Network = nil
			}
		}
		if len(m.c.Sources) > 1 {
			r.Name = fmt.Sprintf("shell.rules[%d] %q", l.index, r.Pattern)
			if r.Tier == TierAdmin || r.Tier == TierWorkspace {
				r.Name += " (" + string(r.Tier) + ")"
			}
		}
		r.SandboxPaths = namesNow(r, m.written[r.Tier], m.c.Sandbox.Paths)
		m.t = l.layer.Config
		m.takeAs(fieldIndex(key, len(m.c.Shell.Rules)), fieldIndex(key, l.index))
		m.c.Shell.Rules = append(m.c.Shell.Rules, r)
	}
	if len(m.rules) > 0 {
		m.c.Origins[key] = positionIn(m.rules[0].layer.Config, key)
	}
}

// widerTool says what who vouches for a file gives to a tool of it.
func widerTool(t *Tool) string {
	why := "this adds a program as a tool: " + quote(strings.Join(t.Command, " ")) + widerReach(t.Sandbox.Network, len(t.Secrets)+len(t.Credentials))
	if !t.Approval.Required {
		why += ", without asking"
	}
	return why
}

func widerCredential(*Credential) string { return "calls would use a secret" }

func widerServer(s *MCPServer) string {
	why := "this adds a program as a server: " + quote(strings.Join(s.Command, " ")) + widerReach(s.Network, len(s.Secrets)+len(s.Credentials))
	allows := func(e Effect) bool { return e == Allow }
	if allows(s.Approval.Default) || slices.ContainsFunc(slices.Collect(maps.Values(s.Approval.Tools)), allows) {
		why += ", without asking"
	}
	return why
}

func widerReach(n Network, secrets int) (more string) {
	switch n.Mode {
	case NetworkHost:
		more = ", with the network of the host"
	case NetworkAllow:
		more = ", with the hosts " + strings.Join(n.Hosts(), ", ")
	}
	if secrets > 0 {
		more += fmt.Sprintf(", given %d of your secrets", secrets)
	}
	return more
}

const dangerousKey = "approval.dangerous_tools"

func (m *merger) layDangerous() {
	if m.c.Set(dangerousKey) {
		m.boundDangerous()
		return
	}
	m.c.Approval.DangerousTools = slices.Clone(m.t.Approval.DangerousTools)
	m.take(dangerousKey)
}

// boundDangerous: a dangerous tool is a known one, and a file that is not trusted makes
// none known.
func (m *merger) boundDangerous() {
	if m.tier.Trusted {
		m.addAll(dangerousKey, &m.c.Approval.DangerousTools, m.t.Approval.DangerousTools)
		return
	}
	for i, name := range m.t.Approval.DangerousTools {
		if !slices.Contains(m.c.Approval.DangerousTools, name) {
			m.unused(fieldIndex(dangerousKey, i), quote(name)+" would become a known tool; now globs cannot allow it")
			m.c.Approval.Guarded = append(slices.Clone(m.c.Approval.Guarded), name)
		}
	}
}

func (m *merger) addRedact() {
	const key = "audit.redact"
	list := slices.Clone(m.c.Audit.Redact)
	for i, r := range m.t.Audit.Redact {
		m.takeAs(fieldIndex(key, len(list)), fieldIndex(key, i))
		list = append(list, r)
	}
	m.c.Audit.Redact = list
	m.c.Origins[key] = cmp.Or(m.c.Origins[key], m.position(key))
}

// boundRedact: what is redacted is not evidence.
func (m *merger) boundRedact() {
	for i := range m.t.Audit.Redact {
		m.unused(fieldIndex("audit.redact", i), "the log would record less")
	}
}
