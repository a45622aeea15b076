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
		"":                 {"no configuration file"},
		"policy: careful":  nil,
		"policy: balanced": {"the old content is not saved"},
		"policy: balanced\nundo: {enabled: true}":    nil,
		"policy: autonomous\nshell: {network: host}": {"the old content is not saved", "still asks about commands"},
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

// TestAPolicyOfTheStarterHolds: the file that config init writes leaves to its policy what
// the policy sets.
func TestAPolicyOfTheStarterHolds(t *testing.T) {
	text := strings.Replace(string(Init("")), "policy: balanced", "policy: autonomous", 1)
	if !strings.Contains(text, "policy: autonomous") {
		text = strings.Replace(text, "version: 1\n", "version: 1\npolicy: autonomous\n", 1)
	}
	c, err := Parse([]byte(text), "sandgate.yaml", Env{Cwd: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	base, err := Default(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(base, Layer{Tier: TierUser, Name: "sandgate.yaml", Trusted: true, Config: c})
	if err != nil || merged.Approval.Mode != Strict {
		t.Errorf("autonomous: mode %v, %v", merged.Approval.Mode, err)
	}
}

// TestTrustSaysWhatAToolIsGiven: who vouches for a file reads what its tools and servers
// would have.
func TestTrustSaysWhatAToolIsGiven(t *testing.T) {
	tool := Tool{Name: "lint"}
	tool.Command, tool.Sandbox.Network.Mode = []string{"./lint.sh"}, NetworkHost
	tool.Secrets = []ToolSecret{{}}
	if got := widerTool(&tool); got != `this adds a program as a tool: "./lint.sh", with the network of the host, given 1 of your secrets, without asking` {
		t.Error(got)
	}
	server := MCPServer{Command: []string{"srv"}, Network: Network{Mode: NetworkAllow, Allow: hostRules("a.example:443")}, Approval: MCPApproval{Default: Ask, Tools: map[string]Effect{"get": Allow}}}
	if got := widerServer(&server); got != `this adds a program as a server: "srv", with the hosts a.example:443, without asking` {
		t.Error(got)
	}
}
