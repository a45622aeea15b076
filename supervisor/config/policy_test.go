package config

import (
	"slices"
	"strings"
	"testing"
)

// TestPolicies: what each policy gives the keys that the file leaves out, and nothing to
// those that it sets.
func TestPolicies(t *testing.T) {
	for _, x := range []struct {
		text     string
		shell    ShellDefault
		approval bool // of writes
		mode     ApprovalMode
		given    []string
	}{
		{"", ShellDefault{Allowed: true, Approval: true}, true, Interactive, []string{"sandbox.paths.workspace.write_approval", "shell.default"}},
		{"policy: careful", ShellDefault{Allowed: true, Approval: true}, true, Interactive, []string{"sandbox.paths.workspace.write_approval", "shell.default"}},
		{"policy: balanced", ShellDefault{Allowed: true, Approval: true, Confined: true}, false, Interactive, []string{"sandbox.paths.workspace.write_approval", "shell.default"}},
		{"policy: autonomous", ShellDefault{Allowed: true, Approval: true, Confined: true}, false, Strict,
			[]string{"approval.mode", "sandbox.paths.workspace.write_approval", "shell.default"}},
		{"policy: balanced\nshell: {default: {allowed: false}}", ShellDefault{Approval: true}, false, Interactive, []string{"sandbox.paths.workspace.write_approval"}},
		{"policy: autonomous\napproval: {mode: interactive}", ShellDefault{Allowed: true, Approval: true, Confined: true}, false, Interactive,
			[]string{"sandbox.paths.workspace.write_approval", "shell.default"}},
		{"policy: balanced\nsandbox: {paths: {workspace: {root: ., mode: rw, write_approval: true}}}", ShellDefault{Allowed: true, Approval: true, Confined: true}, true, Interactive,
			[]string{"shell.default"}},
		{"shell: {default: confined}", ShellDefault{Allowed: true, Approval: true, Confined: true}, true, Interactive, []string{"sandbox.paths.workspace.write_approval"}},
	} {
		c, err := Parse([]byte(x.text), "sandgate.yaml", testEnv(t))
		if err != nil {
			t.Errorf("%s: %v", x.text, err)
			continue
		}
		given := slices.Sorted(slices.Values(c.ByPolicy))
		if c.Shell.Default != x.shell || c.Sandbox.Paths[0].WriteApproval != x.approval || c.Approval.Mode != x.mode || !slices.Equal(given, x.given) {
			t.Errorf("%s: %+v, writes asked %t, mode %s, given %v", x.text, c.Shell.Default, c.Sandbox.Paths[0].WriteApproval, c.Approval.Mode, given)
		}
	}
	for text, want := range map[string]string{
		"policy: reckless":             "use one of careful, balanced, autonomous",
		"shell: {default: confned}":    "did you mean \"confined\"?",
		"shell: {default: [confined]}": "confined or a mapping",
	} {
		if _, err := Parse([]byte(text), "sandgate.yaml", testEnv(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

// TestCaveats: whoever starts is told what a policy means, once, and that there is no file.
func TestCaveats(t *testing.T) {
	for text, want := range map[string][]string{
		"":                 {"there is no configuration file"},
		"policy: careful":  nil,
		"policy: balanced": {"nothing keeps what was there before"},
		"policy: autonomous\nshell: {network: host}": {"nothing keeps what was there before", "commands are asked about all the same"},
	} {
		env := testEnv(t)
		var layers []Layer
		if text != "" {
			layers = append(layers, layerOf(t, env, TierUser, true, text))
		}
		got := mergedOf(t, env, layers...).Caveats()
		ok := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			ok = ok && strings.Contains(got[i], want[i])
		}
		if !ok {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
