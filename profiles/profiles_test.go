package profiles

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

func TestEveryShippedFileLoads(t *testing.T) {
	for _, want := range []string{"system", "git", "go", "node", "python", "rust", "java"} {
		p, err := Preset(want)
		if err != nil {
			t.Errorf("preset %s: %v", want, err)
		}
		if p.Name != want || len(p.Grants) == 0 {
			t.Errorf("preset %s: got %+v", want, p)
		}
	}
	for _, want := range []string{"read-only", "workspace-write", "hardened", "build"} {
		if _, err := Operator(want, map[string]string{"workspace": "/w"}); err != nil {
			t.Errorf("profile %s: %v", want, err)
		}
		if reason, err := Reason(want); err != nil || reason == "" {
			t.Errorf("profile %s: reason %q, %v", want, reason, err)
		}
	}
	if len(PresetNames()) < 7 || len(OperatorNames()) < 4 || len(Protect()) == 0 || len(Hide()) == 0 {
		t.Error("a folder is empty")
	}
}

func TestUnknownNamesListTheKnownOnes(t *testing.T) {
	_, presetErr := Preset("golang")
	_, profileErr := Operator("paranoid", nil)
	for _, err := range []error{presetErr, profileErr} {
		var unknown *UnknownError
		if !errors.As(err, &unknown) {
			t.Fatalf("got %v, want an UnknownError", err)
		}
		if !strings.Contains(unknown.Hint(), unknown.Known[0]) {
			t.Errorf("hint %q does not name %s", unknown.Hint(), unknown.Known[0])
		}
	}
}

// TestNoPresetReachesSecrets holds the shipped grants against the shipped hide
// list: what a preset grants by name must not be a secret, and the other way round.
func TestNoPresetReachesSecrets(t *testing.T) {
	secrets := []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssl/private/x.key",
		"/h/.ssh/id_rsa", "/h/.git-credentials", "/h/.config/git/credentials", "/h/.cargo/credentials.toml", "/h/.m2/settings.xml",
		"/h/.gradle/gradle.properties", "/h/.npmrc", "/h/.netrc", "/h/.bash_history", "/root/x", "/home/x", "/etc/machine-id"}
	var needs sp.Needs
	needs.UserHome, needs.Hide = "/h", Hide()
	for _, name := range PresetNames() {
		p, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Grants {
			expanded := strings.Replace(g.Path, "~", "/h", 1)
			for _, pat := range needs.Hide {
				if sp.MatchPattern(pat, expanded) {
					t.Errorf("preset %s grants %s, which %s hides", name, g.Path, pat)
				}
			}
		}
		needs.Presets = append(needs.Presets, p)
	}
	d := sp.Derive(needs)
	for _, s := range secrets {
		if r := d.Rights(s); r != 0 {
			t.Errorf("presets give %v to %s", r, s)
		}
	}
	for _, ok := range []string{"/usr/bin/env", "/etc/ssl/certs/x.pem", "/h/.gitconfig", "/etc/passwd"} {
		if d.Rights(ok)&sp.Read == 0 {
			t.Errorf("%s cannot be read", ok)
		}
	}
}

func TestShippedProfilesNarrow(t *testing.T) {
	system, err := Preset("system")
	if err != nil {
		t.Fatal(err)
	}
	tool := sp.Derive(sp.Needs{
		Roots:   []sp.Root{{Name: "workspace", Path: "/w", Write: true}, {Name: "docs", Path: "/d"}},
		Presets: []sp.Preset{system}, Home: "/home/u",
		Network: sp.Network{Mode: sp.NetworkHost}, Env: sp.Env{All: true}, Limits: sp.NoLimits(),
	})
	const r, x, w = sp.Read, sp.Execute, sp.Write
	for _, c := range []struct {
		profile        string
		ws, docs, hook sp.Rights
		usr, etc       sp.Rights
		net            sp.NetworkMode
	}{
		{"read-only", r | x, r | x, r | x, r | x, r, sp.NetworkNone},
		{"workspace-write", r | w | x, r | x, r | x, r | x, r, sp.NetworkNone},
		{"build", r | w | x, r | x, r | x, r | x, r, sp.NetworkProxied},
		{"hardened", r | w | x, r | x, r | x, r | x, r, sp.NetworkNone},
	} {
		ceiling, err := Operator(c.profile, map[string]string{"workspace": "/w", "docs": "/d"})
		if err != nil {
			t.Fatal(err)
		}
		p := sp.Intersect(tool, ceiling)
		got := []any{p.Rights("/w/f"), p.Rights("/d/f"), p.Rights("/w/.git/hooks/x"), p.Rights("/usr/bin/x"), p.Rights("/etc/passwd"), p.Network.Mode}
		want := []any{c.ws, c.docs, c.hook, c.usr, c.etc, c.net}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.profile, d)
		}
		if !sp.Within(p, tool) {
			t.Errorf("%s widened the tool's profile", c.profile)
		}
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", c.profile, err)
		}
	}
}

const complete = `name: mine
reason: r
paths: any
network: any
unix_sockets: any
devices: any
syscalls: any
env: any
limits: any
`

func TestAnyRestrictsNothing(t *testing.T) {
	p, err := parseOperator("mine.yaml", []byte(complete), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sp.Top().Normalize(), p); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOperatorErrorsNameThePlace(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"missing section": {"network: any\n", "", "section network is missing"},
		"unknown section": {"network: any", "netwrok: any", "line 4: field netwrok not found"},
		"unknown key":     {"paths: any", "paths:\n  - {path: /, right: r-x, reason: r}", `line 4: unknown key "right"`},
		"bad rights":      {"paths: any", "paths:\n  - {path: /, rights: rx, reason: r}", `line 4: sandboxprofile: rights "rx"`},
		"no reason":       {"paths: any", "paths:\n  - {path: /, rights: r-x}", `line 4: "/" has no reason`},
		"relative path":   {"paths: any", "paths:\n  - {path: w, rights: r-x, reason: r}", `"w" is not absolute`},
		"unknown name":    {"paths: any", "paths:\n  - {path: $cache, rights: r-x, reason: r}", `no path is configured as "cache"`},
		"no list":         {"syscalls: any", "syscalls: ptrace", `line 7: want none, any or a list`},
		"missing limit":   {"limits: any", "limits: {wall: 1m}", "line 9: limits: cpu is missing"},
		"bad limit":       {"limits: any", "limits: {wall: 0s, cpu: any, memory: any, pids: any, file_size: any, open_files: any, output: any, scratch: any}", "wall: \"0s\" is no positive time"},
		"bad network":     {"network: any", "network: {alow: [x]}", `unknown key "alow"`},
		"empty network":   {"network: any", "network: {allow: []}", "allow is empty"},
		"star":            {"devices: any", `devices: ["*"]`, "write any"},
		"device":          {"devices: any", "devices: [/etc/passwd]", "is not below /dev"},
		"two documents":   {"limits: any\n", "limits: any\n---\nname: x\n", "more than one document"},
		"alias":           {"network: any\nunix_sockets: any", "network: &a any\nunix_sockets: *a", "aliases are not supported"},
		"wrong name":      {"name: mine", "name: other", `name has to be "mine"`},
		"bad pattern":     {"limits: any\n", "limits: any\nhide: [/etc]\n", "empty component"},
	} {
		text := strings.Replace(complete, c.from, c.to, 1)
		if _, err := parseOperator("mine.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestOperatorFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(complete, "paths: any",
		"paths:\n  - {path: $w/a, rights: rwx, reason: r}\n  - {path: $*, rights: r--, reason: r}", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Operator(file, map[string]string{"w": "/w", "d": "/d"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]sp.Rights{"/w": sp.Read, "/w/a": sp.Read | sp.Write | sp.Execute, "/d": sp.Read}
	if d := cmp.Diff(want, p.Paths); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := Operator(file+"x", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: got %v", err)
	}
}

func TestExamplesAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"match":    {`[{pattern: a, reason: r, match: [/b], no_match: [/c]}]`, `does not match its own example "/b"`},
		"no_match": {`[{pattern: a, reason: r, match: [/a], no_match: [/x/a]}]`, `matches "/x/a"`},
		"reason":   {`[{pattern: a, match: [/a], no_match: [/b]}]`, "needs a reason"},
		"twice":    {"- {pattern: a, reason: r, match: [/a], no_match: [/b]}\n- {pattern: a, reason: r, match: [/a], no_match: [/b]}", "listed twice"},
	} {
		if _, err := parsePatterns("x.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func FuzzParseOperator(f *testing.F) {
	f.Add([]byte(complete))
	for _, name := range OperatorNames() {
		b, _, err := read("operator", "profile", name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("- {path: /, rights: r-x}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseOperator("mine.yaml", b, map[string]string{"w": "/w"})
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("a profile that loads does not validate: %v", err)
		}
		if !sp.Equal(p, p.Normalize()) {
			t.Fatal("a profile that loads is not normalised")
		}
	})
}
