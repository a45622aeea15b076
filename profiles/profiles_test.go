package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

func TestEveryShippedFileLoads(t *testing.T) {
	for _, want := range []string{"system", "git", "go", "node", "python", "rust", "java", "c", "ruby", "perl", "php", "dotnet"} {
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
		if f := operatorExamples(t, want); len(f) < 3 {
			t.Errorf("profile %s has %d examples", want, len(f))
		}
		if reason, err := Reason(want); err != nil || reason == "" {
			t.Errorf("profile %s: reason %q, %v", want, reason, err)
		}
	}
	if len(PresetNames()) < 7 || len(OperatorNames()) < 4 || len(Protect()) == 0 || len(Hide()) == 0 {
		t.Error("a folder is empty")
	}
}

func operatorExamples(t *testing.T, name string) []example {
	t.Helper()
	b, file, err := read("operator", "profile", name)
	if err != nil {
		t.Fatal(err)
	}
	var f operatorFile
	if err := decode(file, b, &f); err != nil {
		t.Fatal(err)
	}
	return f.Examples
}

// TestExamplesHoldForEveryConfiguration: roots may lie in one another and in the
// system without a shipped profile ceasing to load.
func TestExamplesHoldForEveryConfiguration(t *testing.T) {
	for _, vars := range []map[string]string{nil, {"w": "/w"}, {"w": "/home/somebody", "inner": "/home/somebody/p"}, {"w": "/usr/src/p"}, {"w": "/"}, {"w": "/etc"}, {"w": "/opt/somewhere"}} {
		for _, name := range OperatorNames() {
			if _, err := Operator(name, vars); err != nil {
				t.Errorf("%s with %v: %v", name, vars, err)
			}
		}
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
		"/h/.gradle/gradle.properties", "/h/.npmrc", "/h/.netrc", "/h/.gem/credentials", "/h/.local/share/gem/credentials", "/h/.composer/auth.json", "/h/.config/composer/auth.json",
		"/h/.nuget/NuGet/NuGet.Config", "/h/.conan2/remotes.json", "/h/.cpanel/x", "/h/.pause", "/h/.bash_history", "/root/x", "/home/x", "/etc/machine-id"}
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
		"bad limit":       {"limits: any", "limits: {wall: 0s, cpu: any, memory: any, pids: any, file_size: any, open_files: any, output: any, scratch: any}", "wall: 0s is not more than nothing"},
		"bad network":     {"network: any", "network: {alow: [x]}", `unknown key "alow"`},
		"empty network":   {"network: any", "network: {allow: []}", "allow is empty"},
		"star":            {"devices: any", `devices: ["*"]`, "write any"},
		"device":          {"devices: any", "devices: [/etc/passwd]", "is not below /dev"},
		"two documents":   {"limits: any\n", "limits: any\n---\nname: x\n", "more than one document"},
		"wrong example":   {"limits: any\n", "limits: any\nexamples:\n  - {path: /x, rights: r--}\n", "line 11: example: /x has {read,write,execute}, and not {read}"},
		"bad example":     {"limits: any\n", "limits: any\nexamples: [{path: /x, rihgts: r--}]\n", `unknown key "rihgts"`},
		"unknown in one":  {"limits: any\n", "limits: any\nexamples: [{path: $cache/x, rights: r--}]\n", `no path is configured as "cache"`},
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

func BenchmarkOperator(b *testing.B) {
	for b.Loop() {
		if _, err := Operator("hardened", map[string]string{"workspace": "/w"}); err != nil {
			b.Fatal(err)
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

// TestIfPresentFollowsTheHost: a line with if_present takes away what is there, by its
// real name, and says nothing of what is not.
func TestIfPresentFollowsTheHost(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(dir+"/real", nil, 0o755), os.Symlink("real", dir+"/link"), os.Symlink("nowhere", dir+"/dangling")); err != nil {
		t.Fatal(err)
	}
	write := func(rights string) string {
		list := ""
		for _, name := range []string{"link", "dangling", "missing", "real/below"} {
			list += fmt.Sprintf("  - {path: %s/%s, rights: %q, if_present: true, reason: r}\n", dir, name, rights)
		}
		file := dir + "/own.yaml"
		text := "name: own\nreason: r\npaths:\n  - {path: /, rights: rwx, reason: r}\n" + list +
			"network: any\nunix_sockets: any\ndevices: any\nsyscalls: any\nenv: any\nlimits: any\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	p, err := Operator(write("---"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]sp.Rights{"/": sp.Read | sp.Write | sp.Execute, dir + "/real": 0}, p.Paths); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := Operator(write("r--"), nil); err == nil || !strings.Contains(err.Error(), `line 5: "`+dir+`/link": if_present takes a path away`) {
		t.Errorf("a grant that depends on the host: %v", err)
	}
}

// TestOperatorsListPorts: what the operator does not expose stays closed, and leaving
// the network alone leaves the ports alone.
func TestOperatorsListPorts(t *testing.T) {
	wanted := sp.Network{Expose: []string{"8080:8080", "3000:80"}}
	for network, want := range map[string][]string{
		"none":                              nil,
		"any":                               wanted.Expose,
		"{allow: [a.example]}":              nil,
		"{expose: none}":                    nil,
		"{expose: any}":                     wanted.Expose,
		"{expose: [8080]}":                  {"8080:8080"},
		`{expose: ["3000:80", "80:3000"]}`:  {"3000:80"},
		"{allow: [a.example], expose: any}": wanted.Expose,
	} {
		p, err := operatorWith(t, network)
		if err != nil {
			t.Errorf("%s: %v", network, err)
			continue
		}
		got := sp.Intersect(sp.Profile{Network: wanted}, p).Network
		if d := cmp.Diff(sp.Intersect(sp.Profile{Network: sp.Network{Expose: want}}, sp.Top()).Network, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", network, d)
		}
	}
	for _, network := range []string{"{expose: [0]}", "{expose: 80}", "{expose: [http]}", "{}", "{allow: [], expose: [80]}", "{expose: ['80:1', '80:2']}", "{expose: ['*']}"} {
		if _, err := operatorWith(t, network); err == nil {
			t.Errorf("%s is accepted", network)
		}
	}
}

func operatorWith(t *testing.T, network string) (sp.Profile, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := "name: mine\nreason: a test\npaths: any\nnetwork: " + network + "\nunix_sockets: any\ndevices: any\nsyscalls: any\nenv: any\nlimits: any\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Operator(file, nil)
}

// The profile in the document loads from a file of its name, its examples hold, and it
// names every key that there is.
func TestDocumentedProfileLoads(t *testing.T) {
	doc, err := os.ReadFile("../docs/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "```yaml\nname: review\n")
	text, _, closed := strings.Cut(text, "```\n")
	if !ok || !closed {
		t.Fatal("docs/profiles.md has no profile called review")
	}
	text = "name: review\n" + text
	dir := t.TempDir()
	for _, name := range []string{"build", "deploy"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "review.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Operator(file, map[string]string{"workspace": dir})
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Rights(filepath.Join(dir, "deploy", "key")); r != 0 {
		t.Errorf("deploy has %v", r)
	}
	known := reflect.TypeFor[operatorFile]()
	for i := range known.NumField() {
		key := known.Field(i).Tag.Get("yaml")
		if !strings.Contains(text, "\n"+key+":") && key != "name" {
			t.Errorf("docs/profiles.md does not show %s", key)
		}
		if !strings.Contains(string(doc), "| `"+key+"` |") {
			t.Errorf("docs/profiles.md does not explain %s", key)
		}
	}
}

// Every shipped profile can be begun with, under a name of one's own.
func TestSourceLoadsAgain(t *testing.T) {
	dir := t.TempDir()
	vars := map[string]string{"workspace": dir}
	for _, name := range OperatorNames() {
		text, err := Source(name, "mine")
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "mine.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		shipped, err := Operator(name, vars)
		if err != nil {
			t.Fatal(err)
		}
		if mine, err := Operator(file, vars); err != nil || mine.Digest() != shipped.Digest() {
			t.Errorf("%s as mine.yaml: %v, digest %s, want %s", name, err, mine.Digest(), shipped.Digest())
		}
	}
	for _, bad := range []string{"", "a/b", "a.yaml", "a b", "a\nreason: x"} {
		if _, err := Source("hardened", bad); err == nil {
			t.Errorf("a profile can be called %q", bad)
		}
	}
}
