package manifest

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// workspace is a directory with a file, a link out of it, and a secret.
func workspace(t testing.TB) (ws, secret string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, secret = filepath.Join(top, "ws"), filepath.Join(top, "token")
	for path, text := range map[string]string{filepath.Join(ws, "note.txt"): "note", filepath.Join(ws, ".env"): "hidden", secret: "s3cr3t"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(ws, "link")); err != nil {
		t.Fatal(err)
	}
	return ws, secret
}

// build makes the tool of a definition in a workspace that it may write.
func build(t testing.TB, s Spec, change ...func(*Config)) tools.Tool {
	t.Helper()
	ws, _ := workspace(t)
	const rx = sandboxprofile.Read | sandboxprofile.Execute
	c := Config{
		Spec: s, Dir: ws, Environ: []string{"PATH=/usr/bin:/bin"},
		Paths: tools.Paths{Rules: []tools.PathRule{{Name: "ws", Root: ws, Write: true}}, Hide: []string{".env"}},
		Profile: sandboxprofile.Profile{
			Paths: map[string]sandboxprofile.Rights{ws: rx | sandboxprofile.Write, "/usr": rx, "/bin": rx}, Hide: []string{".env"},
		},
	}
	for _, f := range change {
		f(&c)
	}
	tool, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// plan plans one call as the registry does: schema first.
func plan(t testing.TB, tool tools.Tool, args map[string]any) (tools.Proposal, error) {
	t.Helper()
	r, err := tools.NewRegistry(tool)
	if err != nil {
		t.Fatal(err)
	}
	return r.Plan(tools.Call{Tool: tool.Definition().Name, Args: args})
}

const echoSchema = `{"type": "object", "properties": {
	"text": {"type": "string"}, "more": {"type": "string"}, "n": {"type": "integer"}, "x": {"type": "number"}, "flag": {"type": "boolean"},
	"list": {"type": "array", "items": {"type": "string"}}, "level": {"enum": ["-v", "-q", 3]}, "def": {"type": "string", "default": "dflt"}}}`

func echo(t testing.TB, words ...string) Spec {
	return Spec{Name: "echo", Command: append([]string{"echo"}, words...), InputSchema: object(t, echoSchema)}
}

// TestArgv: every value is one word or part of one, absent ones take their word
// with them, and nothing is looked at twice.
func TestArgv(t *testing.T) {
	for _, c := range []struct {
		name    string
		words   []string
		allowed []string
		args    string
		want    []string // behind "echo"
		wantErr string
	}{
		{name: "one word, whatever is in it", words: []string{"{{text}}"}, args: `{"text": "a  b; $(id) 'q\" *\n\\"}`, want: []string{"a  b; $(id) 'q\" *\n\\"}},
		{name: "no second pass", words: []string{"{{text}}"}, args: `{"text": "{{more}} {{{{", "more": "m"}`, want: []string{"{{more}} {{{{"}},
		{name: "braces", words: []string{"{{{{.Names}}", "{{{{{{text}}"}, args: `{"text": "t"}`, want: []string{"{{.Names}}", "{{t"}},
		{name: "empty is a word", words: []string{"{{text}}"}, args: `{"text": ""}`, want: []string{""}},
		{name: "absent goes away with its word", words: []string{"a", "x={{text}}", "{{more}}", "b"}, args: `{}`, want: []string{"a", "b"}},
		{name: "absent in part", words: []string{"{{text}}/{{more}}"}, args: `{"text": "t"}`, want: nil},
		{name: "default", words: []string{"{{def}}"}, args: `{}`, want: []string{"dflt"}},
		{name: "condition on presence", words: []string{"{{text ? -o}}", "{{text}}"}, args: `{"text": "f"}`, want: []string{"-o", "f"}},
		{name: "condition absent", words: []string{"{{text ? -o}}", "{{text}}"}, args: `{}`, want: nil},
		{name: "condition false", words: []string{"{{flag ? --flag}}"}, args: `{"flag": false}`, want: nil},
		{name: "condition true", words: []string{"{{flag?--flag}}"}, args: `{"flag": true}`, want: []string{"--flag"}},
		{name: "spread", words: []string{"{{list...}}"}, args: `{"list": ["a b", "", "c"]}`, want: []string{"a b", "", "c"}},
		{name: "spread nothing", words: []string{"{{list...}}"}, args: `{"list": []}`, want: nil},
		{name: "spread absent", words: []string{"{{ list ... }}"}, args: `{}`, want: nil},
		{name: "numbers in decimal", words: []string{"{{n}}", "{{x}}", "x={{flag}}"}, args: `{"n": 1e3, "x": 2.50, "flag": false}`, want: []string{"1000", "2.5", "x=false"}},
		{name: "large numbers", words: []string{"{{n}}", "{{x}}"}, args: `{"n": 9007199254740993, "x": 1e300}`, want: []string{"9007199254740993", "1e+300"}},
		{name: "listed values may be options", words: []string{"{{level}}"}, args: `{"level": "-v"}`, want: []string{"-v"}},
		{name: "behind the end of options", words: []string{"--", "{{text}}", "{{list...}}"}, args: `{"text": "-rf", "list": ["--x"]}`, want: []string{"--", "-rf", "--x"}},
		{name: "declared", words: []string{"{{text}}"}, allowed: []string{"text"}, args: `{"text": "--all"}`, want: []string{"--all"}},
		{name: "inside a word", words: []string{"--name={{text}}"}, args: `{"text": "--all"}`, want: []string{"--name=--all"}},
		{name: "numeric short option", words: []string{"-n{{n}}"}, args: `{"n": 3}`, want: []string{"-n3"}},

		{name: "an option", words: []string{"{{text}}"}, args: `{"text": "--all"}`, wantErr: "argument text: begins with a dash"},
		{name: "a dash alone", words: []string{"{{text}}"}, args: `{"text": "-"}`, wantErr: "argument text: begins with a dash"},
		{name: "a negative number", words: []string{"{{n}}"}, args: `{"n": -5}`, wantErr: "argument n: begins with a dash"},
		{name: "an option among items", words: []string{"{{list...}}"}, args: `{"list": ["a", "-rf"]}`, wantErr: "argument list: begins with a dash"},
		{name: "an empty value before a dash", words: []string{"{{text}}-{{more}}"}, args: `{"text": "", "more": "rf"}`, wantErr: "begins with a dash"},
		{name: "two values make an option", words: []string{"{{text}}{{more}}"}, args: `{"text": "", "more": "-rf"}`, wantErr: "argument text, more: begins with a dash"},
		{name: "one of two is declared", words: []string{"{{text}}{{more}}"}, allowed: []string{"text"}, args: `{"text": "", "more": "-rf"}`, wantErr: "begins with a dash"},
		{name: "the end of options as a value", words: []string{"{{text}}", "{{more}}"}, args: `{"text": "--", "more": "-rf"}`, wantErr: "begins with a dash"},
		{name: "NUL", words: []string{"{{text}}"}, args: `{"text": "a\u0000b"}`, wantErr: "argument text: contains a NUL byte"},
		{name: "too long", words: []string{"x{{text}}"}, args: `{"text": "` + strings.Repeat("a", maxWord) + `"}`, wantErr: "becomes a word of 131072 bytes; at most 131071"},
		{name: "just not too long", words: []string{"{{text}}"}, args: `{"text": "` + strings.Repeat("a", maxWord) + `"}`, want: []string{strings.Repeat("a", maxWord)}},
		{name: "unknown", words: []string{"{{text}}"}, args: `{"txt": "a"}`, wantErr: "argument txt: unknown argument"},
		{name: "type", words: []string{"{{text}}"}, args: `{"text": ["a", "b"]}`, wantErr: "argument text: expected string, got array"},
		{name: "item type", words: []string{"{{list...}}"}, args: `{"list": [["a"]]}`, wantErr: "argument list/0: expected string, got array"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := echo(t, c.words...)
			s.OptionsAllowed = c.allowed
			p, err := plan(t, build(t, s), object(t, c.args))
			if c.wantErr != "" {
				var bad *tools.ArgumentError
				if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.wantErr) {
					t.Fatalf("error %v, want an *ArgumentError with %q", err, c.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := append([]string{"echo"}, c.want...)
			if diff := cmp.Diff(want, p.Plan.Action.Exec.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInvalidUTF8IsRefused(t *testing.T) {
	_, err := build(t, echo(t, "{{text}}")).Plan(tools.Call{Args: map[string]any{"text": "a\xff"}})
	if err == nil || !strings.Contains(err.Error(), "not valid UTF-8") {
		t.Errorf("error %v", err)
	}
}

// TestArgvProperty: whatever the values, each template of one argument gives
// exactly one word that ends in the value, and no word that begins with a dash.
func TestArgvProperty(t *testing.T) {
	tool := build(t, echo(t, "{{text}}", "x={{more}}", "{{list...}}"))
	rapid.Check(t, func(rt *rapid.T) {
		text, more := rapid.String().Draw(rt, "text"), rapid.String().Draw(rt, "more")
		list := rapid.SliceOf(rapid.String()).Draw(rt, "list")
		items := make([]any, len(list))
		for i := range list {
			items[i] = list[i]
		}
		p, err := tool.Plan(tools.Call{Args: map[string]any{"text": text, "more": more, "list": items}})
		all := append([]string{text, more}, list...)
		if slices.ContainsFunc(all, func(s string) bool { return strings.ContainsRune(s, 0) || !utf8.ValidString(s) }) {
			if err == nil {
				rt.Fatal("accepted what execve cannot pass")
			}
			return
		}
		if dash := slices.ContainsFunc(append([]string{text}, list...), func(s string) bool { return strings.HasPrefix(s, "-") }); dash != (err != nil) {
			rt.Fatalf("dash %v, error %v", dash, err)
		}
		if err != nil {
			return
		}
		want := append([]string{"echo", text, "x=" + more}, list...)
		if diff := cmp.Diff(want, p.Plan.Action.Exec.Argv); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func pathSpec(t testing.TB, format string) Spec {
	return Spec{Name: "cat", Command: []string{"cat", "{{path}}", "{{more...}}"}, InputSchema: object(t, `{"type": "object", "properties": {
		"path": {"type": "string", "format": "`+format+`"}, "more": {"type": "array", "items": {"type": "string", "format": "path"}}}}`)}
}

// TestANamedFileLeadsIntoNoDirectoryThatAsks: calls can turn a name while the program runs. The twins are calls
// that name no file, one that names a file which no call changes, and one that somebody is asked about.
func TestANamedFileLeadsIntoNoDirectoryThatAsks(t *testing.T) {
	for _, x := range []struct {
		name, format, args                string
		fixed                             bool
		withheld, unchanged, asked, drift bool
	}{
		{name: "none", format: "path", args: `{}`},
		{name: "read", format: "path", args: `{"path": "note.txt"}`, withheld: true, drift: true},
		{name: "an item", format: "path", args: `{"more": ["note.txt"]}`, withheld: true, drift: true},
		{name: "written", format: "writable-path", args: `{"path": "note.txt"}`, withheld: true, unchanged: true, drift: true},
		{name: "fixed", format: "path", args: `{"path": "note.txt"}`, fixed: true},
		{name: "asks", format: "path", args: `{"path": "sub/x"}`, withheld: true, asked: true, drift: true},
	} {
		var root, asking string
		tool := build(t, pathSpec(t, x.format), func(c *Config) {
			root = c.Paths.Rules[0].Root
			asking = root + "/sub"
			if err := os.MkdirAll(asking, 0o755); err != nil {
				t.Fatal(err)
			}
			c.Paths.Rules = append(c.Paths.Rules, tools.PathRule{Name: "sub", Root: asking, Write: true, ReadApproval: true, WriteApproval: true})
			c.AllPaths = c.Paths
			c.AllPaths.Rules = slices.Clone(c.Paths.Rules)
			for i := range c.AllPaths.Rules { // calls may change more than the tool may
				c.Paths.Rules[i].Write = c.Paths.Rules[i].Write && x.format == "writable-path"
				c.AllPaths.Rules[i].Write = !x.fixed
			}
		})
		p, err := plan(t, tool, object(t, x.args))
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		if slices.Contains(p.Withheld, asking) != x.withheld || slices.Contains(p.Unchanged, asking) != x.unchanged || (p.Request != nil) != x.asked {
			t.Errorf("%s: withheld %q, unchanged %q, %v", x.name, p.Withheld, p.Unchanged, p.Request)
		}
		note := root + "/note.txt"
		if x.asked {
			note = asking + "/x"
		}
		_ = os.Remove(note)
		if err := os.Symlink("elsewhere", note); err != nil {
			t.Fatal(err)
		}
		held := slices.ContainsFunc(p.Plan.Pins, func(pin tools.Pin) bool { return pin.Named == note && pin.Verify() != nil })
		if held != x.drift {
			t.Errorf("%s: that the name leads where it led is held: %v", x.name, held)
		}
	}
}

// TestPaths: an argument of format path is decided as the file tools decide, and
// the program gets the path that it leads to.
func TestPaths(t *testing.T) {
	readOnly := func(c *Config) {
		for path := range c.Profile.Paths {
			c.Profile.Paths[path] &^= sandboxprofile.Write
		}
	}
	asks := func(c *Config) { c.Paths.Rules[0].ReadApproval = true }
	for _, c := range []struct {
		name, format, args string
		change             func(*Config)
		want               []string // below the workspace
		blocked            string
		invalid            string
		asked              bool
	}{
		{name: "relative", format: "path", args: `{"path": "note.txt"}`, want: []string{"note.txt"}},
		{name: "with dots", format: "path", args: `{"path": "./sub/../note.txt"}`, want: []string{"note.txt"}},
		{name: "a dash is no option once it is a path", format: "path", args: `{"path": "-rf"}`, want: []string{"-rf"}},
		{name: "items", format: "path", args: `{"path": "a", "more": ["b", "c"]}`, want: []string{"a", "b", "c"}},
		{name: "written", format: "writable-path", args: `{"path": "new"}`, want: []string{"new"}},
		{name: "asked about", format: "path", args: `{"path": "note.txt"}`, change: asks, want: []string{"note.txt"}, asked: true},
		{name: "outside", format: "path", args: `{"path": "../token"}`, blocked: "outside the paths"},
		{name: "absolute", format: "path", args: `{"path": "/etc/passwd"}`, blocked: "outside the paths"},
		{name: "through a link", format: "path", args: `{"path": "link"}`, blocked: "outside the paths"},
		{name: "hidden", format: "path", args: `{"path": ".env"}`, blocked: "outside the paths"},
		{name: "an item outside", format: "path", args: `{"path": "a", "more": ["b", "/etc"]}`, blocked: "outside the paths"},
		{name: "read-only tool", format: "writable-path", args: `{"path": "new"}`, change: readOnly, blocked: "outside the paths that the tool cat may use"},
		{name: "NUL", format: "path", args: `{"path": "a\u0000"}`, invalid: "argument path: path contains a NUL byte"},
		{name: "long", format: "path", args: `{"path": "` + strings.Repeat("a", 4096) + `"}`, invalid: "argument path: path is 4096 bytes long"},
		{name: "item", format: "path", args: `{"path": "a", "more": ["b", ""]}`, invalid: "argument more/1: path is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*Config) {}
			}
			tool := build(t, pathSpec(t, c.format), c.change)
			p, err := plan(t, tool, object(t, c.args))
			var blocked *approval.Blocked
			var invalid *tools.ArgumentError
			switch {
			case c.blocked != "":
				if !errors.As(err, &blocked) || !strings.Contains(blocked.Reason, c.blocked) {
					t.Fatalf("error %v, want blocked: %q", err, c.blocked)
				}
				return
			case c.invalid != "":
				if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.invalid) {
					t.Fatalf("error %v, want %q", err, c.invalid)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			want := []string{"cat"}
			for _, rel := range c.want {
				want = append(want, p.Plan.Action.Exec.Dir+"/"+rel)
			}
			if diff := cmp.Diff(want, p.Plan.Action.Exec.Argv); diff != "" {
				t.Errorf("argv (-want +got):\n%s", diff)
			}
			var reached []string
			for _, e := range p.Reach.Elements {
				if e.Kind != approval.PathGlob || p.Reach.Left([]approval.Pattern{{Kind: e.Kind, Value: e.Name}}) == 0 {
					t.Errorf("a pattern for %+v would allow the call, whatever the tool is by then", e)
				}
				reached = append(reached, e.Name)
			}
			for i, pin := range p.Plan.Pins[len(p.Plan.Pins)-len(c.want):] {
				if pin.Path != want[i+1] && len(c.want) == 1 || pin.Verify() != nil {
					t.Errorf("that it leads to %s is not held: %+v", want[i+1], pin)
				}
			}
			if c.name == "written" { // and turned
				if err := os.Symlink("note.txt", want[1]); err != nil {
					t.Fatal(err)
				}
				if pin := p.Plan.Pins[len(p.Plan.Pins)-1]; pin.Verify() == nil {
					t.Errorf("a link that was turned goes unseen: %+v", pin)
				}
			}
			slices.Sort(reached)
			if paths := slices.Sorted(slices.Values(want[1:])); !slices.Equal(reached, paths) {
				t.Errorf("patterns see %q, want %q", reached, paths)
			}
			if (p.Request != nil) != c.asked {
				t.Errorf("request %v, want one: %v", p.Request, c.asked)
			}
		})
	}
}

func TestStandardInput(t *testing.T) {
	for _, c := range []struct{ stdin, args, want string }{
		{"", `{"text": "a"}`, ""},
		{"none", `{"text": "a"}`, ""},
		{"{{text}}", `{"text": "-a\nb"}`, "-a\nb"},
		{"{{text}}", `{}`, ""},
		{"json", `{"text": "a", "n": 9007199254740993}`, `{"def":"dflt","n":9007199254740993,"text":"a"}`},
	} {
		s := echo(t)
		s.Stdin = c.stdin
		p, err := plan(t, build(t, s), object(t, c.args))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(p.Plan.Action.Exec.Stdin); got != c.want {
			t.Errorf("stdin %q of %s: %q, want %q", c.stdin, c.args, got, c.want)
		}
	}
}

// TestAnAnswerSaysWhichCallsItCovers: where a definition has an answer remembered for some arguments, the
// question says that the others may be anything.
func TestAnAnswerSaysWhichCallsItCovers(t *testing.T) {
	for _, c := range []struct {
		payload []string
		want    string
	}{
		{nil, ""},
		{[]string{}, "every call of this tool that starts the same files, with any arguments"},
		{[]string{"text"}, "every call with the same text that starts the same files, with any other arguments"},
		{[]string{"more", "text"}, "every call with the same more, text that starts the same files, with any other arguments"},
		{slices.Sorted(maps.Keys(object(t, echoSchema)["properties"].(map[string]any))), ""},
	} {
		s := echo(t, "{{text}}")
		s.Approval = Approval{Required: true, Payload: c.payload}
		p, err := plan(t, build(t, s), object(t, `{"text": "a"}`))
		if err != nil {
			t.Fatal(err)
		}
		if p.Request.Covers != c.want {
			t.Errorf("payload %q: %q, want %q", c.payload, p.Request.Covers, c.want)
		}
	}
}

// TestRememberedAnswerIsAboutTheDefinition: each part of a definition, and the
// profile, changes the payload of one and the same call.
func TestRememberedAnswerIsAboutTheDefinition(t *testing.T) {
	base := func() Spec {
		s := echo(t, "{{text}}")
		s.Approval = Approval{Required: true, Payload: []string{"text"}}
		return s
	}
	ws, secret := workspace(t)
	in := func(c *Config) { // one workspace, so that only the definition differs
		c.Dir, c.Paths.Rules[0].Root = ws, ws
		c.Profile.Paths = map[string]sandboxprofile.Rights{ws: 7, "/usr": 5, "/bin": 5}
	}
	payload := func(s Spec, change ...func(*Config)) string {
		p, err := plan(t, build(t, s, append([]func(*Config){in}, change...)...), object(t, `{"text": "a", "n": 1}`))
		if err != nil {
			t.Fatal(err)
		}
		if p.Reach.NotWhole == "" {
			t.Error("an answer for the whole tool would be remembered")
		}
		b, err := json.Marshal(p.Request.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := payload(base())
	if again := payload(base()); again != first {
		t.Fatalf("the same definition, two payloads:\n%s\n%s", first, again)
	}
	for name, change := range map[string]func(*Spec){
		"command":     func(s *Spec) { s.Command = append(s.Command, "x") },
		"description": func(s *Spec) { s.Description = "other" },
		"schema":      func(s *Spec) { s.InputSchema["properties"].(map[string]any)["text"].(map[string]any)["maxLength"] = 5 },
		"options":     func(s *Spec) { s.OptionsAllowed = []string{"text"} },
		"stdin":       func(s *Spec) { s.Stdin = "json" },
		"output":      func(s *Spec) { s.JSONOutput = true },
		"secrets":     func(s *Spec) { s.Secrets = []Secret{{Name: "T", File: secret}} },
		"environment": func(s *Spec) { s.Env = map[string]string{"A": "b"} },
		"approval":    func(s *Spec) { s.Approval.Description = "do {{text}}" },
	} {
		s := base()
		change(&s)
		if payload(s) == first {
			t.Errorf("changing the %s keeps the remembered answer", name)
		}
	}
	online := func(c *Config) { c.Profile.Network.Mode = sandboxprofile.NetworkHost }
	if payload(base(), online) == first {
		t.Error("changing the network keeps the remembered answer")
	}
}

// TestDescriptionIsTheOperators: a value in it is quoted, cut and escaped, so that
// it cannot pass for the rest.
func TestDescriptionIsTheOperators(t *testing.T) {
	s := echo(t, "{{text}}")
	s.Approval = Approval{Required: true, Description: "Say {{text}} to {{more}} and {{list}}."}
	for _, c := range []struct{ args, want string }{
		{`{"text": "hi", "more": "ann"}`, "Say hi to ann and (none)."},
		{`{"text": "hi to bob. Approved", "more": "ann", "list": ["a", "b c"]}`, "Say 'hi to bob. Approved' to ann and a 'b c'."},
		{`{"text": "a\u001b[2J\u202eb\n", "more": ""}`, `Say 'a<U+001B>[2J<U+202E>b<U+000A>' to '' and (none).`},
		{`{"text": "` + strings.Repeat("a", 500) + `", "more": "x"}`, "Say " + strings.Repeat("a", 40) + " <420 more characters> " + strings.Repeat("a", 40) + " to x and (none)."},
	} {
		p, err := plan(t, build(t, s), object(t, c.args))
		if err != nil {
			t.Fatal(err)
		}
		if p.Request.Description != c.want {
			t.Errorf("description %q, want %q", p.Request.Description, c.want)
		}
	}
}

// TestSecretsAreNotInThePlan: the plan names the file and pins it; its content is
// in no part of what is shown, hashed or recorded.
func TestSecretsAreNotInThePlan(t *testing.T) {
	_, secret := workspace(t)
	s := echo(t, "{{text}}")
	s.Approval.Required = true
	s.Secrets = []Secret{{Name: "A", File: secret}, {Name: "B", File: secret, Env: true}, {Name: "C", File: secret}}
	p, err := plan(t, build(t, s), object(t, `{"text": "a"}`))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := p.Present(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal([]any{p.Plan, p.Request, shown})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(all), "s3cr3t") {
		t.Errorf("the secret is shown: %s", all)
	}
	// What it leaves in /tmp is in no other call's, nor what it finds there another's.
	if !p.Plan.Profile.Fresh {
		t.Error("a tool with secrets shares its sandbox with other calls")
	}
	plain := echo(t, "{{text}}")
	if without, err := plan(t, build(t, plain), object(t, `{"text": "a"}`)); err != nil || without.Plan.Profile.Fresh {
		t.Errorf("a tool without secrets: fresh %v, %v", without.Plan.Profile.Fresh, err)
	}
	want := []string{"A_FILE=/proc/self/fd/3", "C_FILE=/proc/self/fd/4", "PATH=/usr/bin:/bin"}
	if diff := cmp.Diff(want, p.Plan.Action.Exec.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	before := p.Plan.Digest()
	if err := os.WriteFile(secret, []byte("an0ther"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err = plan(t, build(t, s), object(t, `{"text": "a"}`)); err != nil || p.Plan.Digest() == before {
		t.Errorf("another secret, the same plan; error %v", err)
	}
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	if _, err = plan(t, build(t, s), object(t, `{"text": "a"}`)); !approval.IsBlocked(err) {
		t.Errorf("without the secret: %v, want blocked", err)
	}
}

func TestAnnotationsFollowTheProfile(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   tools.Annotations
	}{
		{func(c *Config) {}, tools.Annotations{DestructiveHint: true}},
		{func(c *Config) { c.Profile.Paths = map[string]sandboxprofile.Rights{"/usr": 5} }, tools.Annotations{ReadOnlyHint: true}},
		{func(c *Config) {
			c.Profile.Paths, c.Profile.Network.Mode = nil, sandboxprofile.NetworkHost
		}, tools.Annotations{DestructiveHint: true, OpenWorldHint: true}},
	} {
		if got := build(t, echo(t), c.change).Definition().Annotations; got != c.want {
			t.Errorf("annotations %+v, want %+v", got, c.want)
		}
	}
}
