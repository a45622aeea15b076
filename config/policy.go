package config

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// A Policy sets the defaults of a configuration: who decides about what no key and no
// rule speaks of. What a file sets by itself holds whatever the policy says.
type Policy string

const (
	// Careful asks about commands that do more than read, and about writes.
	Careful Policy = "careful"
	// Balanced lets run what the sandbox holds, and asks about what leaves it.
	Balanced Policy = "balanced"
	// Autonomous never asks: it runs what the sandbox can confine, and refuses the rest.
	Autonomous Policy = "autonomous"
)

// Values lists the words of the file format.
func (Policy) Values() []string {
	return []string{string(Careful), string(Balanced), string(Autonomous)}
}

// Caveats returns sentences about the policy's consequences, for the user who starts a
// supervisor.
func (c *Config) Caveats() []string {
	var list []string
	if len(c.Sources) == 0 {
		list = append(list, "no configuration file: using policy careful (reading is allowed, writes and other commands ask, no network); "+
			"create a file for this project with `sandgate config init`")
	}
	if c.Policy == Careful {
		return list
	}
	if !c.Undo.Enabled {
		list = append(list, fmt.Sprintf("policy %s: commands change files of the workspace without asking, and the old content is not saved: set undo.enabled, or use version control", c.Policy))
	}
	if c.Shell.Default.Confined && c.Shell.Network.Mode == NetworkHost {
		list = append(list, "shell.network: host is not confined by a sandbox, so sandgate still asks about commands: list hosts instead, `network: {allow: [...], ask: true}`")
	}
	return list
}

// applyPolicy gives the keys that no file sets what the policy says.
func (c *Config) applyPolicy() {
	c.ByPolicy = nil
	give := func(field string, set func()) {
		if !c.Set(field) {
			set()
			c.ByPolicy = append(c.ByPolicy, field)
		}
	}
	free := c.Policy == Balanced || c.Policy == Autonomous
	give(defaultKey, func() { c.Shell.Default = ShellDefault{Allowed: true, Approval: true, Confined: free} })
	for i := range c.Sandbox.Paths {
		p := &c.Sandbox.Paths[i]
		give(fieldKey("sandbox.paths", p.Name)+".write_approval", func() { p.WriteApproval = !free })
	}
	if c.Policy == Autonomous {
		give("approval.mode", func() { c.Approval.Mode = Strict })
	}
}

// FreeByPolicy reports whether writes to an entry of sandbox.paths need no approval, and only the policy says so.
func (c *Config) FreeByPolicy(name string) bool {
	i := slices.IndexFunc(c.Sandbox.Paths, func(p Path) bool { return p.Name == name })
	return i >= 0 && !c.Sandbox.Paths[i].WriteApproval && c.byPolicy(fieldKey("sandbox.paths", name)+".write_approval")
}

// byPolicy reports whether a value comes from the policy, not from a file.
func (c *Config) byPolicy(field string) bool {
	return slices.ContainsFunc(c.ByPolicy, func(g string) bool { return g == field || within(field, g) })
}

// confinedWord stands in place of the mapping of `shell.default`.
const confinedWord = "confined"

func (s *ShellDefault) decodeNode(d *decoder, n *yaml.Node, field string) {
	switch {
	case n.Kind == yaml.MappingNode:
		d.structure(n, reflect.ValueOf(s).Elem(), field)
	case isScalar(n, "!!str") && n.Value == confinedWord:
		*s = ShellDefault{Allowed: true, Approval: true, Confined: true}
	case n.Kind == yaml.ScalarNode:
		hint := "use confined, or {allowed: true, approval: true}"
		if suggest(n.Value, []string{confinedWord}) != "" {
			hint = "did you mean " + quote(confinedWord) + "?"
		}
		d.problem(n, field, quote(n.Value)+" is not allowed here", hint)
	default:
		d.wrongType(n, field, "confined or a mapping", "")
	}
}
