package config

import "strings"

// An unsupported names a part of the file format that loads and is checked, and
// that nothing implements yet. Ignoring it would promise what is not kept.
type unsupported struct {
	field string // where it is set: "mcp.servers"
	// uses reports whether the values need what is missing.
	uses func(*Config) bool
}

// notYet is the list; to lift a line is to delete it.
func notYet() []unsupported {
	return []unsupported{
		{"mcp", func(c *Config) bool { return len(c.MCP.Servers) > 0 }},
	}
}

// unsupported reports every use of a part that is not there yet.
func (k *checker) unsupported() {
	for _, u := range notYet() {
		if !u.uses(k.c) {
			continue
		}
		for _, field := range fieldOrder(k.c.Origins) {
			if withoutIndex(field) == u.field {
				k.force(field, "not supported yet: "+u.field, "remove it")
			}
		}
	}
}

// withoutIndex replaces list indices: "shell.rules[2].network" is
// "shell.rules[].network".
func withoutIndex(field string) string {
	before, rest, ok := strings.Cut(field, "[")
	if !ok {
		return field
	}
	if _, after, ok := strings.Cut(rest, "]"); ok {
		return before + "[]" + withoutIndex(after)
	}
	return field
}
