package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/manifest"
	"github.com/sandgate/sandgate/tools/mcp"
	"github.com/sandgate/sandgate/tools/shell"
)

// withTool adds a tool of the configuration to a fixture: its program is bash.
func (f *fixture) withTool(t *testing.T, s manifest.Spec, script string) {
	t.Helper()
	s.Command = []string{"bash", "-c", script}
	s.Name, s.Approval.Required = "custom", true
	profile := confinetest.Profile(t, f.ws)
	profile.Env.Names = append(profile.Env.Names, s.EnvNames()...)
	tool, err := manifest.New(manifest.Config{
		Spec: s, Dir: f.ws, Profile: profile, Environ: []string{"PATH=/usr/bin:/bin"},
		Paths: tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.ws, Write: true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.cfg.Tools, err = tools.NewRegistry(tool); err != nil {
		t.Fatal(err)
	}
}

// secretFile is a file outside the workspace.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, content)
	return path
}

const sayBoth = `echo "file $(cat "$TOKEN_FILE")"; echo "env $OTHER"; tr '\0' ' ' </proc/$$/cmdline`

// TestSecretsReachTheProgramAlone: the program has them, and neither its arguments
// nor the log do. One that changed after the question was put is not given.
func TestSecretsReachTheProgramAlone(t *testing.T) {
	for changed, code := range map[bool]protocol.Code{false: "", true: protocol.CodeDenied} {
		f := newFixture(t, setup{})
		path := secretFile(t, "marmalade\n")
		f.withTool(t, manifest.Spec{Secrets: []manifest.Secret{{Name: "TOKEN", File: path}, {Name: "OTHER", File: path, Env: true}}}, sayBoth)
		f.answer(t, func(p approval.Pending) {
			if changed {
				writeFile(t, path, "honeycake\n")
			}
			f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
		})
		r, e := f.call(context.Background(), "custom", "{}")
		if (e == nil) != (code == "") || e != nil && (e.Code != code || !strings.Contains(e.Message, "changed between approval and start")) {
			t.Fatalf("changed %v: %v", changed, e)
		}
		if !changed {
			if out := texts(r)[protocol.Stdout]; !strings.HasPrefix(out, "file marmalade\nenv marmalade\nbash -c ") || strings.Count(out, "marmalade") != 2 {
				t.Errorf("the program had %q", out)
			}
		}
		log, err := os.ReadFile(f.logPath)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "marmalade") || strings.Contains(string(log), "honeycake") || !strings.Contains(string(log), path) {
			t.Errorf("changed %v: the log is to name the file and hold no content: %s", changed, log)
		}
	}
}

func TestSecretWithAZeroByteIsNoVariable(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	f.withTool(t, manifest.Spec{Secrets: []manifest.Secret{{Name: "OTHER", File: secretFile(t, "a\x00b"), Env: true}}}, "true")
	if _, e := f.call(context.Background(), "custom", "{}"); e == nil || !strings.Contains(e.Message, "zero byte") {
		t.Errorf("got %v", e)
	}
}

// TestJSONOutput: one JSON value becomes the structured result; anything else is an
// error with the text kept, unless the program says itself that it failed.
func TestJSONOutput(t *testing.T) {
	for _, c := range []struct {
		script, structured string
		code               protocol.Code
		status             int
	}{
		{script: `echo '{"a": [1, "x"]}'`, structured: `{"a":[1,"x"]}`},
		{script: `echo; echo 7; echo note >&2`, structured: `7`},
		{script: `echo '{"a": 1}'; exit 3`, structured: `{"a":1}`, status: 3},
		{script: `echo nothing useful; exit 3`, status: 3},
		{script: `echo not JSON`, code: protocol.CodeInvalidOutput},
		{script: `true`, code: protocol.CodeInvalidOutput},
		{script: `echo '{} {}'`, code: protocol.CodeInvalidOutput},
		{script: `printf '"\377"'`, code: protocol.CodeInvalidOutput},
	} {
		f := newFixture(t, setup{mode: approval.ApproveAll})
		f.withTool(t, manifest.Spec{JSONOutput: true}, c.script)
		r, e := f.call(context.Background(), "custom", "{}")
		if c.code != "" {
			if e == nil || e.Code != c.code || e.Result == nil || c.script != "true" && len(e.Result.Content) == 0 {
				t.Errorf("%s: %+v, want %s with the text", c.script, e, c.code)
			}
			continue
		}
		got := strings.NewReplacer(" ", "", "\n", "").Replace(string(r.Structured))
		if e != nil || got != c.structured || r.ExitCode != c.status {
			t.Errorf("%s: %v, %q, status %d; want %q, %d", c.script, e, r.Structured, r.ExitCode, c.structured, c.status)
		}
	}
}

// TestStandardInputIsInThePlanByDigest: what a program reads is what was
// approved, and the log holds its digest and not its bytes.
func TestStandardInputIsInThePlanByDigest(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	schema := map[string]any{"type": "object", "properties": map[string]any{"text": map[string]any{"type": "string"}}}
	f.withTool(t, manifest.Spec{Stdin: "{{text}}", InputSchema: schema}, "cat; echo .; cat")
	r, e := f.call(context.Background(), "custom", `{"text": "marmalade"}`)
	if e != nil || texts(r)[protocol.Stdout] != "marmalade.\n" {
		t.Fatalf("%v, %+v", e, r)
	}
	log, err := os.ReadFile(f.logPath)
	if err != nil {
		t.Fatal(err)
	}
	const digest = "1752b6cc2b03b941cbd01eb743c18492b229adfc0f3cfccae323b248edd4c2c9" // of "marmalade"
	if strings.Contains(string(log), `"stdin"`) || !strings.Contains(string(log), digest) {
		t.Errorf("the log holds the input, or no digest of it: %s", log)
	}
}

// withScript adds a tool of the configuration whose program is a script of the workspace.
func (f *fixture) withScript(t *testing.T, s manifest.Spec, rule tools.PathRule, credentials ...sandboxprofile.Secret) error {
	t.Helper()
	s.Name, s.Command = "custom", []string{"./dep.sh"}
	profile := confinetest.Profile(t, f.ws)
	profile.Env.Names = append(profile.Env.Names, s.EnvNames()...)
	if len(credentials) > 0 {
		profile.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{apiHost}}}
		profile.Env.Names = append(profile.Env.Names, credentials[0].Name)
	}
	own := rule
	own.Write = false // what others can write is held, though this program cannot
	tool, err := manifest.New(manifest.Config{
		Spec: s, Dir: f.ws, Profile: profile, Environ: []string{"PATH=/usr/bin:/bin"},
		Paths: tools.Paths{Rules: []tools.PathRule{own}}, AllPaths: tools.Paths{Rules: []tools.PathRule{rule}},
		Credentials: tools.Credentials{Rule: "tools.custom.credentials", Covers: coversHost, List: credentials},
	})
	if err == nil {
		f.cfg.Tools, err = tools.NewRegistry(tool)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = mcp.New(mcp.Config{Name: "svc", Program: tool}).Start()
	return err
}

// TestAToolsProgramIsTheOneThatWasApproved: the script of a custom tool is shown and held,
// as that of a command line is.
func TestAToolsProgramIsTheOneThatWasApproved(t *testing.T) {
	f := newFixture(t, setup{})
	write := func(what string) {
		writeFile(t, f.ws+"/dep.sh", "#!/bin/sh\necho "+what+"\n")
		if err := os.Chmod(f.ws+"/dep.sh", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("approved")
	s := manifest.Spec{}
	s.Approval.Required = true
	if err := f.withScript(t, s, tools.PathRule{Name: "workspace", Root: f.ws, Write: true}); err != nil {
		t.Fatal(err)
	}
	change := false
	f.answer(t, func(p approval.Pending) {
		if shown, err := f.approvals.Show(context.Background(), p.ID); err != nil || !strings.Contains(shown.Presentation.Content, "echo approved") {
			t.Errorf("the text is not shown: %v, %+v", err, shown.Presentation)
		}
		if change {
			write("evil")
		}
		f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
	})
	if r, e := f.call(context.Background(), "custom", "{}"); e != nil || textOf(r) != "approved\n" {
		t.Errorf("unchanged: %v, %q", e, textOf(r))
	}
	change = true
	if r, e := f.call(context.Background(), "custom", "{}"); e == nil || !strings.Contains(e.Message, "changed between approval and start") {
		t.Errorf("changed after it was approved: %v, %q", e, textOf(r))
	}
}

// TestASecretIsNotForWhatIsFreeToChange: a program that is given a secret, and that calls
// may change, is asked about whatever its definition says; a server is not started. The twins:
// without a secret, and where calls cannot write. That the file tools ask first is no twin.
func TestASecretIsNotForWhatIsFreeToChange(t *testing.T) {
	for name, x := range map[string]struct{ secret, credential, asks, fixed, held bool }{
		"a credential that it does not see": {credential: true, held: true},
		"free to change":                    {secret: true, held: true}, "no secret": {}, "file tools ask": {secret: true, asks: true, held: true}, "not to be written": {secret: true, fixed: true},
	} {
		f := newFixture(t, setup{mode: approval.Strict})
		writeFile(t, f.ws+"/dep.sh", "#!/bin/sh\necho ran\n")
		if err := os.Chmod(f.ws+"/dep.sh", 0o755); err != nil {
			t.Fatal(err)
		}
		s := manifest.Spec{}
		if x.secret {
			s.Secrets = []manifest.Secret{{Name: "TOKEN", File: secretFile(t, "s3cr3t"), Env: true}}
		}
		var credentials []sandboxprofile.Secret
		if x.credential {
			credentials = []sandboxprofile.Secret{{Name: "API_KEY", File: secretFile(t, "s3cr3t"), Host: apiHost + ":443"}}
		}
		err := f.withScript(t, s, tools.PathRule{Name: "workspace", Root: f.ws, Write: !x.fixed, WriteApproval: x.asks}, credentials...)
		if held := err != nil && strings.Contains(err.Error(), "calls may change: "+f.ws+"/dep.sh"); held != x.held || (err != nil) != x.held {
			t.Errorf("%s: a server: %v", name, err)
		}
		if r, e := f.call(context.Background(), "custom", "{}"); (e != nil) != x.held || e != nil && e.Code != protocol.CodeDenied {
			t.Errorf("%s: a tool: %v, %q", name, e, textOf(r))
		}
	}
}

// TestAServerStartsNothingThatItsWordsDoNotTell: a server that is given a secret is not
// started where its words may lead to files that calls may change, however they name them.
// The twins: a script that no call can change, a program that loads nothing, one that only
// its configuration vouches for, and a workspace that calls cannot write to.
func TestAServerStartsNothingThatItsWordsDoNotTell(t *testing.T) {
	f := newFixture(t, setup{})
	writeFile(t, f.ws+"/mcpsrv.py", "print(1)\n")
	profile := confinetest.Profile(t, f.ws)
	start := func(fixed bool, argv ...string) error {
		paths := tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.ws, Write: !fixed}}, Cwd: f.ws}
		sh, err := shell.New(shell.Config{Paths: paths, Profile: profile, Env: []string{"PATH=/usr/bin:/bin"}})
		if err != nil {
			t.Fatal(err)
		}
		s := manifest.Spec{Name: "custom", Command: argv, Secrets: []manifest.Secret{{Name: "TOKEN", File: secretFile(t, "s3cr3t"), Env: true}}}
		p := profile
		p.Env.Names = append(slices.Clone(p.Env.Names), s.EnvNames()...)
		tool, err := manifest.New(manifest.Config{Spec: s, Dir: f.ws, Held: true, Profile: p, Environ: []string{"PATH=/usr/bin:/bin"}, Paths: paths, AllPaths: paths, Starts: sh.StartsOf})
		if err != nil {
			t.Fatal(err)
		}
		_, err = mcp.New(mcp.Config{Name: "svc", Program: tool}).Start()
		return err
	}
	for _, argv := range [][]string{{"python3", "mcpsrv"}, {"python3", "mcpsrv.py"}, {"python3", "-um", "mcpsrv"}, {"python3", "-mmcpsrv"}, {"perl", "mcpsrv"}, {"bash", "mcpsrv"}, {"python3", "--unheard-of", "/opt/x.py", "mcpsrv.py"}} {
		if err := start(false, argv...); err == nil || !strings.Contains(err.Error(), "starts files that calls may change") {
			t.Errorf("%q: %v", argv, err)
		}
		if err := start(true, argv...); err != nil {
			t.Errorf("%q, where calls cannot write: %v", argv, err)
		}
	}
	for _, argv := range [][]string{{"python3", "/opt/x.py"}, {"cat"}, {"getent", "hosts"}} {
		if err := start(false, argv...); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	}
}
