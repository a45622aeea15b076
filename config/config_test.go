package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"
	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/internal/hostrule"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testEnv is an Env whose directories are below a new temporary one: work, which
// is the current directory and has a cache directory and a file in it, and home.
func testEnv(t testing.TB) Env {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(top, "work")
	for _, dir := range []string{"work/cache", "work/src/inner", "home/notes"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(work, "file.txt"), "text")
	if err := os.Symlink("src", filepath.Join(work, "link")); err != nil {
		t.Fatal(err)
	}
	return Env{
		Cwd: work, Home: filepath.Join(top, "home"),
		Presets:  []string{"system", "git", "go", "node", "python", "rust", "java"},
		Profiles: []string{"hardened", "default"}, ReservedTools: []string{"shell"},
		CheckPattern: func(p string) error {
			if strings.Contains(p, "..") {
				return errors.New(`".." is not allowed`)
			}
			return nil
		},
	}
}

func hostRules(texts ...string) []hostrule.Rule {
	nw, err := AllowHosts(texts...)
	if err != nil {
		panic(err)
	}
	return nw.Allow
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func parse(env Env, text string) (*Config, error) {
	return Parse([]byte(text), filepath.Join(env.Cwd, FileName), env)
}

// problemsOf is the problems of an *Error; any other error fails the test.
func problemsOf(t testing.TB, err error) []Problem {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v (%T), want a *config.Error", err, err)
	}
	return e.Problems
}

func example(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleHasNoProblem(t *testing.T) {
	if _, err := parse(testEnv(t), example(t)); err != nil {
		t.Error(err)
	}
}

// decodeOnly reads text without the checks that look at the whole.
func decodeOnly(t testing.TB, text string) *Config {
	t.Helper()
	c, d := defaults(), newDecoder(FileName)
	doc, err := parseDocument([]byte(text), FileName)
	if err != nil {
		t.Fatal(err)
	}
	d.root(doc, c)
	if len(d.problems) > 0 {
		t.Fatalf("problems: %v", d.problems)
	}
	return c
}

func TestExampleIsDecodedWhole(t *testing.T) {
	got := decodeOnly(t, example(t))
	want := defaults()
	want.Sandbox.Paths = []Path{
		{Name: "workspace", Root: ".", Mode: ReadWrite, WriteApproval: true, Suffixes: []string{}},
		{Name: "cache", Root: "./cache", Mode: ReadWrite},
	}
	want.Sandbox.Presets = []string{"system", "git"}
	want.Sandbox.Limits.Pids = 512
	want.Sandbox.Env = EnvVars{Allow: []string{"PATH", "HOME", "LANG", "TERM", "TZ"}, Set: map[string]string{}}
	want.Sandbox.Profile = "hardened"
	want.Shell.Rules = []Rule{
		{Pattern: "git status", Allowed: true},
		{Pattern: "git commit", Allowed: true, Approval: true, Description: "Create a commit"},
		{Pattern: "rm", Approval: true, Reason: "use the trash tool"},
		{Pattern: "pytest", Allowed: true, SandboxPaths: []string{"workspace"}, Match: []string{"pytest -q"}, NoMatch: []string{"pytester"}},
	}
	want.Tools = []Tool{{
		Name: "lint", Description: "Run the linter", Command: []string{"golangci-lint", "run", "{{path}}"}, Stdout: StdoutText,
		InputSchema: map[string]any{
			"type": "object", "required": []any{"path"},
			"properties": map[string]any{"path": map[string]any{"type": "string"}},
		},
		Approval: ToolApproval{Required: true, Payload: []string{"path"}, Description: "Lint {{path}}"},
		Sandbox:  ToolSandbox{Paths: map[string]Mode{"workspace": ReadOnly}, Network: Network{Mode: NetworkNone}},
	}}
	want.MCP.Servers = []MCPServer{{
		Name: "github", Command: []string{"github-mcp"},
		Network:  Network{Mode: NetworkAllow, Allow: hostRules("api.github.com:443")},
		Approval: MCPApproval{Default: Ask, Tools: map[string]Effect{"search_*": Allow}},
	}}
	want.Approval.Store = StoreBbolt
	if diff := cmp.Diff(want, got, ignorePositions()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func ignorePositions() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreTypes(Position{}),
		cmpopts.EquateComparable(hostrule.Rule{}),
		cmpopts.IgnoreFields(Config{}, "Origins", "Notices", "File", "Digest", "Sources", "Unused", "Floor", "ByPolicy"),
	}
}

// equalValues compares what configurations mean: an empty list is as good as none.
func equalValues() cmp.Option { return cmp.Options{ignorePositions(), cmpopts.EquateEmpty()} }

func TestGolden(t *testing.T) {
	for _, kind := range []string{"good", "bad"} {
		files, err := filepath.Glob("testdata/" + kind + "/*.txtar")
		if err != nil || len(files) == 0 {
			t.Fatalf("no golden files for %s: %v", kind, err)
		}
		for _, file := range files {
			t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) { golden(t, file, kind == "good") })
		}
	}
}

// golden loads the first part of an archive and compares the outcome with the
// second: the explained configuration and its notices, or the problems.
func golden(t *testing.T, file string, good bool) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := testEnv(t)
	c, err := parse(env, string(archive.Files[0].Data))
	if (err == nil) != good {
		t.Errorf("got error %v, want success %v", err, good)
	}
	got := strings.ReplaceAll(outcome(t, c, err), filepath.Dir(env.Cwd), "$TOP")
	if *update {
		archive.Files = []txtar.File{archive.Files[0], {Name: "outcome", Data: []byte(got)}}
		if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func outcome(t *testing.T, c *Config, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	text, err := c.Explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Notices {
		text = append(text, "notice: "+n.String()+"\n"...)
	}
	return string(text)
}

func TestEveryGoldenConfigurationLoadsAgainEqual(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		env := testEnv(t)
		c, err := parse(env, string(archive.Files[0].Data))
		if err != nil {
			t.Fatal(err)
		}
		reload(t, c, env)
	}
}

// reload checks that a Config marshals and loads again equal.
func reload(t testing.TB, c *Config, env Env) {
	t.Helper()
	text, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := parse(env, string(text))
	if err != nil {
		t.Fatalf("does not load again: %v\n%s", err, text)
	}
	if diff := cmp.Diff(c, again, equalValues()); diff != "" {
		t.Errorf("loads again otherwise (-first +second):\n%s\n%s", diff, text)
	}
}

// A keyAt is a key of the file format in a text.
type keyAt struct {
	key          string
	siblings     []string
	line, column int
}

// keysIn lists the fixed keys of a decoded text: not names, and nothing inside
// of a tool's input schema.
func keysIn(t *testing.T, text string) []keyAt {
	t.Helper()
	known := map[string]bool{}
	for path := range texts() {
		known[path] = true
	}
	known["network.allow"], known["network.ask"] = true, true
	doc, err := parseDocument([]byte(text), FileName)
	if err != nil {
		t.Fatal(err)
	}
	var found []keyAt
	collectKeys(doc, "", known, &found)
	return found
}

func collectKeys(n *yaml.Node, path string, known map[string]bool, found *[]keyAt) {
	for i, item := range n.Content {
		if n.Kind == yaml.SequenceNode {
			collectKeys(item, path+"[]", known, found)
		}
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			continue
		}
		at := strings.TrimPrefix(path+"."+item.Value, ".")
		if strings.HasSuffix(path, "network") {
			at = "network." + item.Value
		}
		if known[at] {
			*found = append(*found, keyAt{item.Value, siblings(at, known), item.Line, item.Column})
		} else {
			at = path + ".*"
		}
		if !strings.HasSuffix(at, "input_schema") {
			collectKeys(n.Content[i+1], at, known, found)
		}
	}
}

func siblings(at string, known map[string]bool) []string {
	var list []string
	parent := at[:strings.LastIndex(at, ".")+1]
	for path := range known {
		if rest, ok := strings.CutPrefix(path, parent); ok && !strings.ContainsAny(rest, ".[") {
			list = append(list, rest)
		}
	}
	return list
}

// misspellings are those of the keyboard: a letter left out, swapped, doubled,
// replaced, and another convention for words.
func misspellings(k keyAt) []string {
	var list []string
	add := func(s string) {
		if s != "" && s != k.key && !slices.Contains(k.siblings, s) && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	for i := range k.key {
		before, after := k.key[:i], k.key[i+1:]
		if len(k.key) > 3 {
			add(before + after)
			add(before + "x" + after)
		}
		add(before + k.key[i:i+1] + k.key[i:])
		if i+1 < len(k.key) {
			add(before + k.key[i+1:i+2] + k.key[i:i+1] + k.key[i+2:])
		}
	}
	add(k.key + "s")
	add(strings.ToUpper(k.key))
	add(strings.ReplaceAll(k.key, "_", "-"))
	add(strings.ReplaceAll(k.key, "_", ""))
	return list
}

func replaceAt(text string, k keyAt, with string) string {
	lines := strings.SplitAfter(text, "\n")
	line := lines[k.line-1]
	lines[k.line-1] = line[:k.column-1] + with + line[k.column-1+len(k.key):]
	return strings.Join(lines, "")
}

func TestEachMisspeltKeyIsNamedWithItsPlaceAndCorrection(t *testing.T) {
	env, text := testEnv(t), example(t)
	tried := 0
	for _, k := range keysIn(t, text) {
		for _, wrong := range misspellings(k) {
			tried++
			_, err := parse(env, replaceAt(text, k, wrong))
			want := Position{filepath.Join(env.Cwd, FileName), k.line, k.column}
			if !slices.ContainsFunc(problemsOf(t, err), func(p Problem) bool {
				return p.Position == want && p.Text == "unknown key "+quote(wrong) && p.Hint == "did you mean "+quote(k.key)+"?"
			}) {
				t.Errorf("%q for %q at %v: got\n%v", wrong, k.key, want, err)
			}
		}
	}
	if tried < 500 {
		t.Errorf("only %d misspellings tried", tried)
	}
}

func TestMisspeltKeyCausesNoFollowingProblems(t *testing.T) {
	for _, tc := range []struct{ name, text string }{
		{"required key", "sandbox: {paths: {w: {rooot: .}}}"},
		{"referenced section", "sandbox: {pathss: {w: {root: .}}}\nshell: {rules: [{pattern: ls, sandbox_paths: [w]}]}"},
		{"referenced entry", "sandbox: {paths: 3}\nshell: {rules: [{pattern: ls, sandbox_paths: [w]}]}"},
		{"pattern", "shell: {rules: [{patern: ls}, {pattern: ls -l}]}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(testEnv(t), tc.text)
			if problems := problemsOf(t, err); len(problems) != 1 {
				t.Errorf("got %d problems, want the first only:\n%v", len(problems), err)
			}
		})
	}
}

func TestDefaultIsTheWorkspaceAlone(t *testing.T) {
	env := testEnv(t)
	got, err := Default(env.Cwd)
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Sandbox.Paths = []Path{{Name: "workspace", Root: env.Cwd, Mode: ReadWrite, WriteApproval: true}}
	if diff := cmp.Diff(want, got, ignorePositions()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got.Approval.Timeout != 5*time.Minute || !got.Sandbox.RequireOSSandbox || got.Shell.Network.Mode != NetworkNone {
		t.Errorf("the defaults are not the careful ones: %+v", got)
	}
}

func TestDefaultRefusesAWorkspaceThatIsNone(t *testing.T) {
	env := testEnv(t)
	for path, want := range map[string]string{
		"absent":   "no such file or directory",
		"file.txt": "is not a directory",
	} {
		_, err := Default(filepath.Join(env.Cwd, path))
		problems := problemsOf(t, err)
		if len(problems) != 1 || problems[0].Field != "sandbox.paths.workspace.root" || !strings.Contains(problems[0].Text, want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}

func TestAFileWithoutPathsMeansTheWorkspaceAndNotItsOwnDirectory(t *testing.T) {
	env := testEnv(t)
	file := filepath.Join(env.Home, FileName)
	c, err := Parse([]byte("version: 1\n"), file, env)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Sandbox.Paths[0].Root; got != env.Cwd {
		t.Errorf("root is %q, want the current directory %q", got, env.Cwd)
	}
	c, err = Parse([]byte("sandbox: {paths: {n: {root: notes}}}\n"), file, env)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Sandbox.Paths[0].Root, filepath.Join(env.Home, "notes"); got != want {
		t.Errorf("root is %q, want %q", got, want)
	}
}

// TestInitSeesTheProject: what lies in the workspace gives the registries and the checks
// of its package managers, and nothing else is listed.
func TestInitSeesTheProject(t *testing.T) {
	env := testEnv(t)
	for _, c := range []struct {
		files        []string
		hosts, rules []string
	}{
		{nil, nil, nil},
		{[]string{"README.md", "main.c"}, nil, nil},
		{[]string{"package.json"}, []string{"registry.npmjs.org:443"}, []string{"npm test"}},
		{[]string{"go.mod"}, []string{"proxy.golang.org:443", "sum.golang.org:443"}, []string{"go vet", "go test"}},
		{[]string{"pyproject.toml"}, []string{"pypi.org:443"}, []string{"pytest"}},
		{[]string{"Cargo.toml"}, []string{"index.crates.io:443"}, []string{"cargo test"}},
		{[]string{"pom.xml"}, []string{"repo.maven.apache.org:443"}, []string{"mvn test"}},
		{[]string{"Makefile"}, nil, []string{"make"}},
		{[]string{"go.mod", "package.json"}, []string{"proxy.golang.org:443", "registry.npmjs.org:443"}, []string{"go test", "npm test"}},
	} {
		cfg, err := parse(env, string(Init("", c.files...)))
		if err != nil {
			t.Errorf("%v: %v", c.files, err)
			continue
		}
		n := cfg.Shell.Network
		if listed := len(c.hosts) > 0; n.Ask != listed || len(n.Allow) < len(c.hosts) || !listed && len(n.Allow) > 0 {
			t.Errorf("%v: the network is %+v", c.files, n)
		}
		for _, host := range c.hosts {
			if !slices.Contains(n.Hosts(), host) {
				t.Errorf("%v: %s is not listed: %v", c.files, host, n.Allow)
			}
		}
		for _, rule := range c.rules {
			if !slices.ContainsFunc(cfg.Shell.Rules, func(r Rule) bool { return r.Pattern == rule && r.Allowed && !r.Approval }) {
				t.Errorf("%v: no rule allows %s", c.files, rule)
			}
		}
		if len(c.rules) == 0 && slices.ContainsFunc(cfg.Shell.Rules, func(r Rule) bool { return !r.ReadOnly && r.Allowed && !r.Approval }) {
			t.Errorf("%v: a command is allowed that nothing stands for", c.files)
		}
	}
}

func TestInitLoadsWhereItIsWritten(t *testing.T) {
	env := testEnv(t)
	odd := filepath.Join(env.Cwd, `a: "b" #c`)
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	for workspace, want := range map[string]string{"": env.Cwd, ".": env.Cwd, "src": filepath.Join(env.Cwd, "src"), odd: odd} {
		c, err := parse(env, string(Init(workspace)))
		if err != nil {
			t.Errorf("Init(%q): %v", workspace, err)
			continue
		}
		if got := c.Sandbox.Paths[0].Root; got != want {
			t.Errorf("Init(%q) has root %q, want %q", workspace, got, want)
		}
	}
}
