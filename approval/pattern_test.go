package approval

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func argv(words ...string) Element { return Element{Kind: ArgvPrefix, Words: words} }

func TestPatternsCover(t *testing.T) {
	file := func(name string) Element { return Element{Kind: PathGlob, Name: name} }
	host := func(name string) Element { return Element{Kind: Host, Name: name} }
	for _, tt := range []struct {
		p    Pattern
		yes  []Element
		no   []Element
		text string
	}{
		{Pattern{ArgvPrefix, "go test"},
			[]Element{argv("go", "test"), argv("go", "test", "./..."), argv("go", "test", "$x")},
			[]Element{argv("go"), argv("go", "testing"), argv("go", "-C", "x", "test"), argv("gotest"), argv("go test"), argv(), file("go test")},
			`every command that begins with "go test"`},
		{Pattern{PathGlob, "/w/notes/*"},
			[]Element{file("/w/notes/a"), file("/w/notes/a.md"), file("/w/notes/.env")},
			[]Element{file("/w/notes"), file("/w/notes/deep/a"), file("/w/notes2/a"), file("w/notes/a"), file("/w/notes/../a"), file("/w/notes/*")},
			"every file in /w/notes"},
		{Pattern{PathGlob, "/w/notes/*.md"}, []Element{file("/w/notes/a.md"), file("/w/notes/a.b.md")},
			[]Element{file("/w/notes/a.mdx"), file("/w/notes/.md"), file("/w/notes/md"), file("/w/notes/d/a.md")}, "every .md file in /w/notes"},
		{Pattern{PathGlob, "/w/notes/**"}, []Element{file("/w/notes/a"), file("/w/notes/deep/er/a.md")},
			[]Element{file("/w/notes"), file("/w/note/a")}, "every file in and below /w/notes"},
		{Pattern{PathGlob, "/w/notes/**/*.md"}, []Element{file("/w/notes/a.md"), file("/w/notes/deep/er/a.md")},
			[]Element{file("/w/notes/a.txt"), file("/w/a.md")}, "every .md file in and below /w/notes"},
		{Pattern{PathGlob, "/w/a"}, []Element{file("/w/a")}, []Element{file("/w/a/b"), file("/w/ab")}, "the file /w/a"},
		{Pattern{Host, "api.example.org:443"}, []Element{host("api.example.org:443")},
			[]Element{host("api.example.org:80"), host("xapi.example.org:443"), host("x.api.example.org:443")}, "the host api.example.org:443"},
		{Pattern{Host, "*.example.org:443"}, []Element{host("api.example.org:443"), host("a.b.example.org:443")},
			[]Element{host("example.org:443"), host("badexample.org:443"), host("api.example.org:8443")}, "every host whose name ends in .example.org:443"},
	} {
		if err := tt.p.Check(); err != nil {
			t.Errorf("%s: %v", tt.p, err)
		}
		if got := tt.p.Text(); got != tt.text {
			t.Errorf("%s in words: %q, want %q", tt.p, got, tt.text)
		}
		for _, e := range tt.yes {
			if !tt.p.covers(e) {
				t.Errorf("%s does not cover %+v", tt.p, e)
			}
		}
		for _, e := range tt.no {
			if tt.p.covers(e) {
				t.Errorf("%s covers %+v", tt.p, e)
			}
		}
	}
}

func TestWidePatternsAreRefused(t *testing.T) {
	for _, p := range []Pattern{
		{ArgvPrefix, ""}, {ArgvPrefix, "git"}, {ArgvPrefix, "git -c core.pager=x log"}, {ArgvPrefix, "sudo"}, {ArgvPrefix, "sudo apt update"},
		{ArgvPrefix, "env"}, {ArgvPrefix, "env FOO=1 make test"}, {ArgvPrefix, "xargs rm"}, {ArgvPrefix, "find"}, {ArgvPrefix, "find /w -name x"},
		{ArgvPrefix, "bash"}, {ArgvPrefix, "sh -c ls"}, {ArgvPrefix, "/bin/bash x.sh"}, {ArgvPrefix, "python3"}, {ArgvPrefix, "python3.11 -c 1"},
		{ArgvPrefix, "python3 -m http.server"}, {ArgvPrefix, "node"}, {ArgvPrefix, "npm"}, {ArgvPrefix, "npm run"}, {ArgvPrefix, "npx cowsay"},
		{ArgvPrefix, "docker run alpine"}, {ArgvPrefix, "ssh host ls"}, {ArgvPrefix, "make"}, {ArgvPrefix, "make -f x"}, {ArgvPrefix, "rm"}, {ArgvPrefix, "rm -rf"},
		{ArgvPrefix, "curl"}, {ArgvPrefix, "eval x"}, {ArgvPrefix, "timeout 5 go test"}, {ArgvPrefix, "go  test"}, {ArgvPrefix, " go test"}, {ArgvPrefix, "go test "},
		{ArgvPrefix, "go 'test'"}, {ArgvPrefix, "go test; rm x"}, {ArgvPrefix, "go *"}, {ArgvPrefix, "go $x"}, {ArgvPrefix, "go\ttest"}, {ArgvPrefix, "go te\u200bst"},
		{ArgvPrefix, "a b c d e f g h i"}, {ArgvPrefix, strings.Repeat("x", maxPattern+1)},
		{PathGlob, "*"}, {PathGlob, "/**"}, {PathGlob, "/*"}, {PathGlob, "/home/**"}, {PathGlob, "notes/*"}, {PathGlob, "/w/../etc/*"}, {PathGlob, "/w/n/"},
		{PathGlob, "/w/*/x"}, {PathGlob, "/w/n/**/x"}, {PathGlob, "/w/n/**/*"}, {PathGlob, "/w/n/a*"}, {PathGlob, "/w/n/*.*"}, {PathGlob, "/w/n/*."},
		{PathGlob, "/w/n/?"}, {PathGlob, "/w/n/[ab]"}, {PathGlob, ""},
		{Host, "*"}, {Host, "*:443"}, {Host, "*.com:443"}, {Host, "example.org"}, {Host, "example.org:https"}, {Host, "Example.org:443"}, {Host, "ex*.org:443"},
		{Host, "a..b:1"}, {Host, ":443"}, {Host, "еxample.org:443"}, {Host, "*..example.org:443"},
		{"", "x"}, {"tool", "*"},
	} {
		if p.Check() == nil {
			t.Errorf("%q %q may be remembered", p.Kind, p.Value)
		}
	}
	for _, p := range []Pattern{
		{ArgvPrefix, "go test"}, {ArgvPrefix, "git commit"}, {ArgvPrefix, "npm run lint"}, {ArgvPrefix, "python3 tools/gen.py"}, {ArgvPrefix, "make test"},
		{ArgvPrefix, "ls"}, {ArgvPrefix, "rm build"}, {ArgvPrefix, "golangci-lint run"},
	} {
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestNarrowPrefix(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./...": "go test", "npm run lint -- --fix": "npm run lint", "ls -l x": "ls", "git commit -m x": "git commit", "git -C x log": "",
		"python3 x.py y": "python3 x.py", "python3 -c x": "", "sudo ls": "", "make": "", "rm -r x": "", "find . -name x": "",
	} {
		if got := strings.Join(NarrowPrefix(strings.Fields(command)), " "); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

// TestStandingPrefix: what is proposed for good is no wider than what is proposed for a
// session, and word for word, or nothing, where the words name what is done harm to.
func TestStandingPrefix(t *testing.T) {
	for command, want := range map[string]string{ // "=" before what is exact
		"go test ./...": "go test", "ls -l x": "ls", "git commit -m x": "git commit", "python3 x.py y": "python3 x.py", "gh issue list -L 3": "gh issue list",
		"rm -rf x": "=rm -rf x", "git push origin main": "=git push origin main", "git stash drop": "=git stash drop", "gh pr merge 1": "=gh pr merge 1",
		"/usr/bin/git push": "=/usr/bin/git push", "touch x": "=touch x",
		"npm run lint": "", "go run ./x": "", "git config a b": "", "curl https://example.org": "", "tar xf x": "", "openssl x509": "",
		"sudo ls": "", "python3 -c x": "", "gh pr": "", "git": "", "": "", "torsocks git push": "", "python3.11": "", "linux32 ls": "",
	} {
		words := strings.Fields(command)
		prefix, exact := StandingPrefix(words)
		got := strings.Join(prefix, " ")
		if exact {
			got = "=" + got
		}
		if got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
		if narrow := NarrowPrefix(words); !exact && prefix != nil && !slices.Equal(prefix, narrow) {
			t.Errorf("%q: %q for good, %q for a session", command, prefix, narrow)
		}
	}
}

// A pattern covers what it says by its text, for elements made at random.
func TestCoveringAgreesWithAReading(t *testing.T) {
	word := rapid.SampledFrom([]string{"go", "test", "./x", "-v", "a b", "*"})
	part := rapid.SampledFrom([]string{"a", "b.md", "c.txt", ".d"})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 0, 6).Draw(t, "words")
		for _, p := range argv(words...).covering() {
			want := strings.Split(p.Value, " ")
			if len(want) > len(words) || !slices.Equal(want, words[:len(want)]) {
				t.Fatalf("%s covers %q", p, words)
			}
		}
		name := "/" + path.Join(rapid.SliceOfN(part, 1, 5).Draw(t, "parts")...)
		for _, p := range (Element{Kind: PathGlob, Name: name}).covering() {
			if !readGlob(p.Value, name) {
				t.Fatalf("%s covers %s", p, name)
			}
		}
	})
}

// readGlob is the meaning of a path pattern in other words: with path.Match.
func readGlob(glob, name string) bool {
	dir, last := path.Split(glob)
	base, deep := strings.CutSuffix(strings.TrimSuffix(dir, "/"), "/**")
	if last == "**" {
		base, deep, last = strings.TrimSuffix(dir, "/"), true, "*"
	}
	ok, err := path.Match(last, path.Base(name))
	in := path.Dir(name) == base || base == "" && path.Dir(name) == "/"
	return err == nil && ok && (in || deep && strings.HasPrefix(name, base+"/"))
}

func FuzzPattern(f *testing.F) {
	for _, kind := range []PatternKind{ArgvPrefix, PathGlob, Host} {
		for _, v := range []string{"go test", "/w/n/*.md", "/w/n/**", "*.example.org:443", "", "*", "git", "a\x00b", "/w//n/*", "\xff"} {
			f.Add(string(kind), v)
		}
	}
	f.Fuzz(func(t *testing.T, kind, value string) {
		p := Pattern{PatternKind(kind), value}
		if p.Check() != nil {
			return
		}
		if text := p.Text(); text != EscapeLine(text) || len(text) == 0 {
			t.Errorf("%q is shown as %q", value, text)
		}
		// What may be remembered must be found again under some element.
		var e Element
		switch p.Kind {
		case ArgvPrefix:
			e = argv(strings.Split(value, " ")...)
		case PathGlob:
			name := strings.NewReplacer("/**/*.", "/x/y.", "/*.", "/y.", "/**", "/x/y", "/*", "/y").Replace(value)
			e = Element{Kind: PathGlob, Name: name}
		case Host:
			e = Element{Kind: Host, Name: strings.Replace(value, "*.", "x.", 1)}
		}
		if !p.covers(e) {
			t.Errorf("%s may be remembered and covers not even %+v", p, e)
		}
	})
}

func shellCall(lines ...string) Call {
	c := writeCall().with(func(c *Call) {
		c.ToolName, c.Request.ToolName = "shell", "shell"
		c.Request.Payload = map[string]any{"command": strings.Join(lines, " && ")}
		c.Request.Description = strings.Join(lines, " && ")
	})
	for _, l := range lines {
		c.Reach.Elements = append(c.Reach.Elements, argv(strings.Fields(l)...))
	}
	return c
}

func prefix(value string) *Pattern { return &Pattern{ArgvPrefix, value} }

func TestRememberedPatterns(t *testing.T) {
	t.Run("an allow covers what begins alike, and every part of it", bubble(func(t *testing.T) {
		c := NewController(Options{})
		askAndAnswer(t, c, shellCall("go test ./a"), Answer{Allow: true, Scope: Agent, Pattern: prefix("go test")}).granted(t)
		for command, want := range map[string]Effect{"go test ./b": Allow, "go vet": Ask, "go": Ask, "go test; rm": Ask} {
			if v := c.Check(shellCall(command)); v.Effect != want {
				t.Errorf("%q: %+v", command, v)
			}
		}
		if v := c.Check(shellCall("go test ./b", "rm x")); v.Effect != Ask {
			t.Errorf("half of a line: %+v", v)
		}
		askAndAnswer(t, c, shellCall("npm run lint"), Answer{Allow: true, Scope: Session, Pattern: prefix("npm run lint")}).granted(t)
		v := c.Check(shellCall("go test ./b", "npm run lint"))
		if v.Effect != Allow || v.Scope != Agent || len(strings.Fields(v.Rule)) != 2 {
			t.Errorf("both halves, by two answers: %+v", v)
		}
		for name, other := range map[string]func(*Call){
			"tool":      func(c *Call) { c.ToolName, c.Request.ToolName = "run", "run" },
			"connector": func(c *Call) { c.Connector = "elsewhere" },
			"agent":     func(c *Call) { c.Agent = "stranger" },
			"reach":     func(c *Call) { c.Reach = Reach{} },
			"last word": func(c *Call) { c.Reach.Left = func([]Pattern) int { return 1 } },
		} {
			if v := c.Check(shellCall("go test ./b").with(other)); v.Effect != Ask {
				t.Errorf("another %s: %+v", name, v)
			}
		}
	}))
	t.Run("a deny needs one part, in every mode, and no request", bubble(func(t *testing.T) {
		c := NewController(Options{Mode: ApproveAll})
		deny := Answer{Scope: Global, Pattern: prefix("git push"), Reject: RejectSoft}
		q, err := c.question(shellCall("git push"))
		if err != nil {
			t.Fatal(err)
		}
		deny.Approver = "uid 1000"
		if err := c.remember(q, deny, Decision{ID: "d"}); err != nil {
			t.Fatal(err)
		}
		for _, call := range []Call{
			shellCall("git push origin"), shellCall("ls", "git push"), shellCall("git push").with(func(c *Call) { c.Request = nil }),
		} {
			if v := c.Check(call); v.Effect != Deny || v.Source != SourceRememberedDeny {
				t.Errorf("%v: %+v", call.Reach.Elements, v)
			}
		}
		if v := c.Check(shellCall("git pull")); v.Effect != Allow {
			t.Errorf("another command: %+v", v)
		}
	}))
	t.Run("the answer says why not", bubble(func(t *testing.T) {
		c := NewController(Options{})
		result := decideLater(t.Context(), c, shellCall("go test ./a"))
		id := onlyPending(t, c).ID
		for text, a := range map[string]Answer{
			"too wide":         {Allow: true, Scope: Session, Pattern: prefix("go")},
			"does not cover":   {Allow: true, Scope: Session, Pattern: prefix("go vet")},
			"does not match":   {Scope: Session, Pattern: prefix("go vet")},
			"needs the scope":  {Allow: true, Pattern: prefix("go test")},
			"want argv_prefix": {Allow: true, Scope: Session, Pattern: &Pattern{"regexp", ".*"}},
		} {
			a.Approver = "uid 1000"
			if _, err := c.Answer(id, a); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%+v: %v, want %q", a, err, text)
			}
		}
		mustAnswer(t, c, id, Answer{Allow: true})
		(<-result).granted(t)
	}))
	t.Run("others that wait are decided", bubble(func(t *testing.T) {
		c := NewController(Options{})
		one, two := decideLater(t.Context(), c, shellCall("go test ./a")), decideLater(t.Context(), c, shellCall("go test ./b"))
		other := decideLater(t.Context(), c, shellCall("go vet"))
		mustAnswer(t, c, c.Pending()[0].ID, Answer{Allow: true, Scope: Session, Pattern: prefix("go test")})
		(<-one).granted(t)
		if d := (<-two).granted(t); d.Source != SourceRememberedAllow {
			t.Errorf("%+v", d)
		}
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{})
		(<-other).denied(t)
	}))
}

func TestOffersSayWhatTheyWouldHaveDecided(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		for i := range maxMatched + 3 {
			askAndAnswer(t, c, shellCall(fmt.Sprint("go test ./", i)), Answer{Allow: true}).granted(t)
		}
		askAndAnswer(t, c, shellCall("go vet"), Answer{Allow: true}).granted(t)
		call := shellCall("go test ./x", "ls").with(func(c *Call) {
			c.Reach.Offers = func() []Pattern {
				return []Pattern{{ArgvPrefix, "go"}, {ArgvPrefix, "go test"}, {ArgvPrefix, "go build"}, {ArgvPrefix, "ls"}}
			}
		})
		result := decideLater(t.Context(), c, call)
		id := onlyPending(t, c).ID
		if offers := onlyPending(t, c).Offers; offers != nil {
			t.Errorf("a list has offers: %v", offers)
		}
		shown, err := c.Show(t.Context(), id)
		if err != nil || len(shown.Offers) != 3 || shown.Offers[2].Kind != WholeTool {
			t.Fatalf("offers %+v, %v: want those that are narrow and fit", shown.Offers, err)
		}
		o := shown.Offers[0]
		if o.Value != "go test" || o.Whole || len(o.Matched) != maxMatched || o.Unshown != 3 || o.Matched[0] != "go test ./12" {
			t.Errorf("%+v", o)
		}
		p, preview, err := c.Preview(t.Context(), id, nil, prefix("go test ./x"))
		if err != nil || preview.Text == "" || len(preview.Matched) != 0 || p.ID != id {
			t.Errorf("preview %+v, %v", preview, err)
		}
		if _, _, err := c.Preview(t.Context(), id, nil, prefix("go")); err == nil {
			t.Error("a pattern that is too wide can be previewed")
		}
		mustAnswer(t, c, id, Answer{})
		(<-result).denied(t)
	})(t)
}

func TestHistoryIsBounded(t *testing.T) {
	s := newSession("", PromptRate{}, time.Time{})
	for i := range 3 * maxHistory {
		call := shellCall(fmt.Sprint("n", i))
		s.note(&question{call: call})
	}
	past := s.pastCalls()
	if len(past) != maxHistory || past[0].description != fmt.Sprint("n", 3*maxHistory-1) || past[maxHistory-1].description != fmt.Sprint("n", 2*maxHistory) {
		t.Errorf("%d calls, from %q to %q", len(past), past[0].description, past[len(past)-1].description)
	}
}

// TestPatternsAreToldFromOurWords: a directory whose name goes on as a sentence of ours is quoted
// at the end of it, and no word is part of a pattern that looks like another. The twins are plain.
func TestPatternsAreToldFromOurWords(t *testing.T) {
	for p, want := range map[Pattern]string{
		{PathGlob, "/w/docs, as long as you look on,/**"}: `every file in and below "/w/docs, as long as you look on,"`,
		{PathGlob, "/w/docs/**"}:                          `every file in and below /w/docs`,
		{PathGlob, "/w/a/*.md in w"}:                      `every ".md in w" file in /w/a`,
		{ArgvPrefix, `ls" and all else`}:                  `every command that begins with "ls\" and all else"`,
		{ArgvPrefix, "./\u0441\u043e\u0440"}:              `every command that begins with "./<U+0441><U+043E><U+0440>"`,
		{Host, "*.example.org:443"}:                       `every host whose name ends in .example.org:443`,
		{WholeTool, "x, once"}:                            `every call, whatever its arguments, of the tool "x, once"`,
	} {
		if got := p.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, word := range []string{"id\u2019", "\u2013n", "./\u0441\u043e\u0440", "\u0430pple"} {
		if (Pattern{ArgvPrefix, word}).Check() == nil || len(prefixesOf([]string{"ls", word})) != 1 {
			t.Errorf("%q is part of a pattern", word)
		}
	}
	for _, word := range []string{"id", "\u00e9t\u00e9", "\u043f\u0440\u0438\u0432\u0435\u0442"} {
		if (Pattern{ArgvPrefix, word}).Check() != nil || len(prefixesOf([]string{"ls", word})) != 2 {
			t.Errorf("%q is part of none", word)
		}
	}
}

// TestLongTextsKeepTheirEnd: what is cut is the middle, and is counted.
func TestLongTextsKeepTheirEnd(t *testing.T) {
	long := "git -c " + strings.Repeat("a", 300) + " push --force \u2019x"
	if got := Brief(long, 40, EscapeName); got != `"git -c aaaaaaaaaaaaa" <283 more characters> "aaaa push --force <U+2019>x"` {
		t.Errorf("%q", got)
	}
	if short := strings.Repeat("a", 60); Brief(short, 40, EscapeName) != short { // what says so is as long
		t.Error("a short text is cut")
	}
}
