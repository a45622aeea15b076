package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/profiles"
	sp "github.com/sandgate/sandgate/sandboxprofile"
)

func TestEveryShippedProfileLoads(t *testing.T) {
	for _, want := range []string{"read-only", "workspace-write", "hardened", "build"} {
		if _, err := Operator(want, map[string]string{"workspace": "/w"}); err != nil {
			t.Errorf("profile %s: %v", want, err)
		}
		if f := operatorExamples(t, want); len(f) < 3 {
			t.Errorf("profile %s has %d examples", want, len(f))
		}
	}
}

func operatorExamples(t *testing.T, name string) []operatorExample {
	t.Helper()
	b, err := profiles.Operator(name)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := parseDocument(b, name)
	if err != nil {
		t.Fatal(err)
	}
	var f operatorFile
	newDecoder(name).value(doc, reflect.ValueOf(&f).Elem(), "")
	return f.Examples
}

// TestExamplesHoldForEveryConfiguration: roots may lie in one another and in the
// system without a shipped profile ceasing to load.
func TestExamplesHoldForEveryConfiguration(t *testing.T) {
	for _, vars := range []map[string]string{nil, {"w": "/w"}, {"w": "/home/somebody", "inner": "/home/somebody/p"}, {"w": "/usr/src/p"}, {"w": "/"}, {"w": "/etc"}, {"w": "/opt/somewhere"}} {
		for _, name := range profiles.OperatorNames() {
			if _, err := Operator(name, vars); err != nil {
				t.Errorf("%s with %v: %v", name, vars, err)
			}
		}
	}
}

func TestShippedProfilesNarrow(t *testing.T) {
	system, err := profiles.Preset("system")
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
	p, err := parseOperator([]byte(complete), "mine.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sp.Top().Normalize(), p); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOperatorErrorsNameThePlace(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"missing section": {"network: any\n", "", "mine.yaml:1:1: network: missing; write `network: any` to leave it alone"},
		"unknown section": {"network: any", "netwrok: any", `mine.yaml:4:1: netwrok: unknown key "netwrok"; did you mean "network"?`},
		"unknown key":     {"paths: any", "paths:\n  - {path: /, right: r-x, reason: r}", `mine.yaml:4:15: paths[0].right: unknown key "right"; did you mean "rights"?`},
		"bad rights":      {"paths: any", "paths:\n  - {path: /, rights: rx, reason: r}", `mine.yaml:4:23: paths[0].rights: sandboxprofile: rights "rx"`},
		"no reason":       {"paths: any", "paths:\n  - {path: /, rights: r-x}", "mine.yaml:4:5: paths[0].reason: missing"},
		"empty reason":    {"paths: any", "paths:\n  - {path: /, rights: r-x, reason: ''}", `mine.yaml:4:36: paths[0].reason: "/" has no reason`},
		"relative path":   {"paths: any", "paths:\n  - {path: w, rights: r-x, reason: r}", `"w" is not absolute`},
		"unknown name":    {"paths: any", "paths:\n  - {path: $cache, rights: r-x, reason: r}", `no path is configured as "cache"`},
		"no list":         {"syscalls: any", "syscalls: ptrace", "mine.yaml:7:11: syscalls: expected none, any or a list"},
		"missing limit":   {"limits: any", "limits: {wall: 1m}", "mine.yaml:9:9: limits.cpu: missing; write `cpu: any` to leave it alone"},
		"bad limit":       {"limits: any", "limits: {wall: 0s, cpu: any, memory: any, pids: any, file_size: any, open_files: any, output: any, scratch: any}", "wall: 0s is not greater than zero"},
		"bad network":     {"network: any", "network: {alow: [x]}", `unknown key "alow"`},
		"empty network":   {"network: any", "network: {allow: []}", "allow is empty"},
		"star":            {"devices: any", `devices: ["*"]`, "write any"},
		"device":          {"devices: any", "devices: [/etc/passwd]", "is not below /dev"},
		"two documents":   {"limits: any\n", "limits: any\n---\nname: x\n", "mine.yaml:10:1: a second document starts here"},
		"wrong example":   {"limits: any\n", "limits: any\nexamples:\n  - {path: /x, rights: r--}\n", "mine.yaml:11:5: examples[0]: /x has {read,write,execute}, and not {read}"},
		"bad example":     {"limits: any\n", "limits: any\nexamples: [{path: /x, rihgts: r--}]\n", `unknown key "rihgts"`},
		"unknown in one":  {"limits: any\n", "limits: any\nexamples: [{path: $cache/x, rights: r--}]\n", `no path is configured as "cache"`},
		"alias":           {"network: any\nunix_sockets: any", "network: &a any\nunix_sockets: *a", "unix_sockets: aliases are not allowed"},
		"wrong name":      {"name: mine", "name: other", `name must be "mine"`},
		"bad pattern":     {"limits: any\n", "limits: any\nhide: [/etc]\n", "empty component"},
	} {
		text := strings.Replace(complete, c.from, c.to, 1)
		if _, err := parseOperator([]byte(text), "mine.yaml", nil); err == nil || !strings.Contains(err.Error(), c.want) {
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

func BenchmarkOperator(b *testing.B) {
	for b.Loop() {
		if _, err := Operator("hardened", map[string]string{"workspace": "/w"}); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParseOperator(f *testing.F) {
	f.Add([]byte(complete))
	for _, name := range profiles.OperatorNames() {
		b, err := profiles.Operator(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("- {path: /, rights: r-x}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseOperator(b, "mine.yaml", map[string]string{"w": "/w"})
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
	if _, err := Operator(write("r--"), nil); err == nil || !strings.Contains(err.Error(), `own.yaml:5:5: paths[1]: "`+dir+`/link": if_present removes a path`) {
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
	for _, name := range profiles.OperatorNames() {
		text, err := profiles.Source(name, "mine")
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
		if _, err := profiles.Source("hardened", bad); err == nil {
			t.Errorf("a profile can be called %q", bad)
		}
	}
}
