package present

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

var now = time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC)

func request(change func(*protocol.Approval)) *protocol.Approval {
	a := &protocol.Approval{
		ID: "req-1", SessionID: "s-1", Agent: "coder", Tool: "shell", Description: "Execute: go test",
		Payload:      map[string]any{"command": "go test"},
		Presentation: &approval.Presentation{Type: approval.Command, Content: "go test", Metadata: map[string]any{"reason": "a person is asked", "size": 7}},
		Details: map[string]string{
			"rule": "shell.default", "may write": "/w", "network": "proxied", "reaches": "pypi.org:443", "and never sees": ".env, id_rsa",
			"uses at most": "wall 2m0s", "warnings": "One thing.", "note": "of a tool", "something longer": "x", "program": "/bin/sh", "directory": "/w", "plan": "sha256:0",
		},
		Connector: "github", Cause: "unknown_tool", Deferred: true,
		Patterns:       []approval.Offer{{Kind: approval.ArgvPrefix, Value: "go test", Text: "every command that begins with \"go test\""}},
		BatchRemaining: []string{"shell git push", "shell git tag"}, PlanDigest: "sha256:0",
		Created: now.Add(-65 * time.Second), Expires: now.Add(3 * time.Minute),
	}
	if change != nil {
		change(a)
	}
	return a
}

func TestText(t *testing.T) {
	want := `  writes      /w
  network     listed hosts
  secrets     hidden
  undo        not of what is sent
shell: Execute: go test
  agent       coder (session s-1)
  from        github
  deferred    the agent does not wait; it must call again after the answer
  careful     One thing.
  note        of a tool
  also        something longer: x
  | go test
  asked by    rule shell.default: cause unknown_tool: a person is asked
  then        shell git push
              shell git tag
  runs        /bin/sh in /w
  may write   /w
  network     to listed hosts only, through the proxy
  hidden      .env, id_rsa
  reaches     pypi.org:443
  limits      wall 2m0s
  plan        sha256:0
  request     req-1
  pattern     every command that begins with "go test": argv_prefix=go test
  asked       1:05 ago; 3:00 left to answer
`
	if got := Text(request(nil), now, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestEssence is the beginning of the text, without what only lengthens a question.
func TestEssence(t *testing.T) {
	essence, text := Essence(request(nil)), Text(request(nil), now, false)
	if !strings.HasPrefix(text, essence) || !strings.HasSuffix(essence, "shell git tag\n") || strings.Contains(essence, "limits") {
		t.Error(essence)
	}
}

// TestWhatIsUnusualStandsOpen: in the fold of the page is what is said about every call, and
// nothing else. Each name of a draft has a line of its own, which no name can make.
func TestWhatIsUnusualStandsOpen(t *testing.T) {
	sheet := Facts(request(func(a *protocol.Approval) {
		a.Details = map[string]string{
			"class": "workspace: changes files", "ceiling": "c", "remembered": "r", "directory": "/w",
			"caution": "not all files are held", "draft": "allow keeps it", "changes": "~ a\n+ readme<U+000A>  - src\u2028- b\n", "review": "on a draft", "of tomorrow": "x",
		}
	}))
	var first, folded []string
	for _, f := range sheet.First {
		first = append(first, f.Label+"="+f.Text)
	}
	for _, f := range sheet.Deciding {
		folded = append(folded, f.Label)
	}
	for _, want := range []string{"careful=not all files are held", "draft=allow keeps it", "review=on a draft", "of tomorrow=x", "changes=~ a", "changes=+ readme<U+000A>  - src<U+2028>- b"} {
		if !slices.Contains(first, want) {
			t.Errorf("no %q in %q", want, first)
		}
	}
	if want := []string{"asked by", "ceiling", "class", "directory", "remembered"}; !slices.Equal(folded, want) {
		t.Errorf("folded away: %q, want %q", folded, want)
	}
	same := Facts(request(func(a *protocol.Approval) { a.Details["class"], a.Details["ceiling"] = "workspace: w", "workspace: w" }))
	if named := func(label string) bool {
		return slices.ContainsFunc(same.Deciding, func(f Fact) bool { return f.Label == label })
	}; named("class") || !named("ceiling") {
		t.Errorf("a class that the ceiling repeats: %+v", same.Deciding)
	}
}

// TestWhatItCanDoComesFirst: the effect of a call stands above the command, whatever that
// says, and what is asked about besides below it.
func TestWhatItCanDoComesFirst(t *testing.T) {
	for class, first := range map[string]string{"read: reads files": "  writes      nothing\n  network     none\n", "workspace: changes files": "  writes      /w\n", "beyond: reaches": "  writes      /w\n", "": "  writes      /w\n"} {
		text := Essence(request(func(a *protocol.Approval) { a.Details["class"] = class }))
		effect, command, rest := strings.Index(text, first), strings.Index(text, "  | go test"), strings.Index(text, "  asked by")
		if effect != 0 || command < effect || rest < command {
			t.Errorf("%s:\n%s", class, text)
		}
	}
}

// TestFit: no line is wider than it may be, nothing is lost, and no line begins
// where none did, but behind the margin.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab \né日🙂\u0301काᄀ\u1161🏽🇩"))).Draw(t, "text")
		width := rapid.IntRange(12, 30).Draw(t, "width")
		var back strings.Builder
		for i, line := range Fit(text, width) {
			if max(ansi.StringWidth(line), ansi.StringWidthWc(line)) > width {
				t.Fatalf("%q is wider than %d", line, width)
			}
			rest, continued := strings.CutPrefix(line, "  ┆ ")
			if i > 0 && !continued {
				back.WriteByte('\n')
			}
			back.WriteString(rest)
		}
		if got, want := back.String(), strings.TrimSuffix(text, "\n"); got != want {
			t.Fatalf("%q became %q", want, got)
		}
	})
}

// TestFullTextIsWithinReach: what was cut for display is all there on request.
func TestFullTextIsWithinReach(t *testing.T) {
	shown, metadata := approval.Truncate(strings.Repeat("echo fine\n", 300)+"rm -rf ~\n", 200, 16<<10)
	a := request(func(a *protocol.Approval) {
		a.Presentation = &approval.Presentation{Type: approval.Command, Content: shown, Metadata: metadata}
	})
	if got := Text(a, now, false); strings.Contains(got, "rm -rf") || !strings.Contains(got, "101 more lines, 1009 bytes not shown") || !IsCut(a) {
		t.Error(got)
	}
	if got := Text(a, now, true); !strings.Contains(got, "  | rm -rf ~\n") || strings.Contains(got, "not shown") {
		t.Error(got)
	}
}

// TestHosts: names of hosts that are not what they look like are spelt out, and
// those that are need no word.
func TestHosts(t *testing.T) {
	for text, want := range map[string]string{
		"curl https://p\u0430ypal.com/x":               "the host p<U+0430>ypal.com is xn--pypal-4ve.com on the network",
		"git clone git@g\u0456thub.com:a/b":            "the host g<U+0456>thub.com is xn--gthub-n2e.com on the network",
		"curl xn--80ak6aa92e.com":                      "the host xn--80ak6aa92e.com reads as <U+0430><U+0440><U+0440><U+04CF><U+0435>.com",
		"https://user:pw@\u6771\u4eac.jp:8443/":        "the host \u6771\u4eac.jp is xn--1lqs71d.jp on the network",
		"curl https://example.com/p\u0430th a@b.c //x": "",
		"cat \u0444\u0430\u0439\u043b.txt":             "",
		"https://xn--\x00.com xn--":                    "",
	} {
		a := request(func(a *protocol.Approval) {
			a.Details, a.Payload = nil, map[string]any{"list": []any{map[string]any{"command": text}}}
		})
		first := Facts(a).First
		var got string
		for _, f := range first {
			if f.Label == Careful {
				got += f.Text
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestManyHostsAreCounted(t *testing.T) {
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, "http://p\u0430y%d.com ", i)
	}
	got := remarks(request(func(a *protocol.Approval) { a.Payload = map[string]any{"command": b.String()} }))
	if len(got) != maxRemarks+1 || got[maxRemarks] != "and 6 more hosts with misleading names" {
		t.Errorf("%q", got)
	}
}

// TestMarkdownCannotBeLeft: no text ends the code block before our fence does.
func TestMarkdownCannotBeLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("`~ \na"))).Draw(t, "text")
		got := Markdown(request(func(a *protocol.Approval) { a.Presentation.Content = text }), now, false)
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		fence := strings.TrimSuffix(lines[0], "text")
		inside := strings.Join(lines[1:len(lines)-1], "\n")
		if lines[len(lines)-1] != fence || strings.Trim(fence, "`") != "" || strings.Contains(inside, fence) {
			t.Fatalf("%q", got)
		}
	})
}

// TestBlanksLoseNothing: what stands between the runs is all there, and short runs
// stay as they are.
func TestBlanksLoseNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var line, want string
		for range rapid.IntRange(0, 6).Draw(rt, "parts") {
			word := rapid.StringMatching(`[a-z<>]{1,5}`).Draw(rt, "word")
			n := rapid.SampledFrom([]int{1, maxSpaces, maxSpaces + 1, 300}).Draw(rt, "spaces")
			line += word + strings.Repeat(" ", n)
			if n > maxSpaces {
				want += word + fmt.Sprintf(" <%d spaces> ", n)
			} else {
				want += word + strings.Repeat(" ", n)
			}
		}
		if got := Blanks(line); got != want {
			rt.Fatalf("%q:\n got %q\nwant %q", line, got, want)
		}
	})
}

// FuzzText puts one string wherever text comes from outside. No control or
// invisible character gets out, and only our own words begin a line.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "ls\n  agent      root\n| x", "a\x1b[2J\x1b]0;t\a\r\n\tb\u202ec\u200bd\x9b1me\xff", "```\nx", "//p\u0430y.com@xn--a"} {
		f.Add(seed)
	}
	labels := []string{"from", "deferred", "pattern", "problem", "note", "runs", "replaces", "agent", "asked by", Careful, "may write", "network", "writes", "secrets", "undo", "hidden", "then", "plan", "request", "asked", "|"}
	f.Fuzz(func(t *testing.T, s string) {
		a := request(func(a *protocol.Approval) {
			a.ID, a.SessionID, a.Agent, a.Tool, a.Description = protocol.ApprovalID(s), protocol.SessionID(s), s, protocol.ToolName(s), s
			a.Payload = map[string]any{s: s}
			a.Details = map[string]string{"rule": s, "may write": s, "network": s, "and never sees": s, "warnings": s}
			a.Presentation = &approval.Presentation{Type: approval.Text, Content: s, Metadata: map[string]any{"full_content": s, "error": s, "note": s, "replaces": s, "reason": s}}
			a.BatchRemaining, a.PlanDigest = []string{s}, s
			a.Connector, a.Cause, a.Rule, a.Patterns = s, s, s, []approval.Offer{{Kind: approval.PatternKind(s), Value: s, Text: s}}
		})
		text := Text(a, now, true)
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
				t.Fatalf("%q", line)
			}
			label, ok := strings.CutPrefix(line, "  ")
			if i != len(Strip(a)) && (!ok || !slices.ContainsFunc(labels, func(l string) bool { return strings.HasPrefix(label, l) })) {
				t.Fatalf("line %d is not ours: %q", i, line)
			}
		}
	})
}

// TestDiffPartsAreWhatTheyAre: after the first hunk's head no line of a file is the name of one,
// or looks like what sandgate says of a draft's files.
func TestDiffPartsAreWhatTheyAre(t *testing.T) {
	var r DiffReader
	for _, c := range []struct {
		line string
		want DiffPart
	}{
		{"--- a/x", DiffFile}, {"+++ b/x", DiffFile}, {"@@ -1,3 +1,3 @@", DiffPlace}, {" same", DiffContext},
		{"--- a comment of SQL", DiffRemoved}, {"+++ b/innocent", DiffAdded}, {"-old", DiffRemoved}, {"+new", DiffAdded},
		{"@@ -9 +9 @@", DiffPlace}, {"+++ b/other", DiffAdded}, {"", DiffContext}, {`\ No newline at end of file`, DiffContext},
		{"* ~ app.py  (mode 644 now, 755 in the draft)", DiffOurs}, {"@@ -1 +1 @@", DiffPlace}, {" * ~ docs/x", DiffContext}, {"+* ~ docs/x", DiffAdded}, {"-* ~ docs/x", DiffRemoved},
	} {
		if got := r.Line(c.line); got != c.want {
			t.Errorf("%q: %v, want %v", c.line, got, c.want)
		}
	}
}

// TestSameJSON: an edit that changed anything is an edit, and one that did not is none.
func TestSameJSON(t *testing.T) {
	for _, same := range [][2]string{
		{`{"a":1,"b":[true,null]}`, "{ \"b\": [true, null],\n\"a\": 1}"},
		{`{"n":9007199254740993}`, `{"n": 9007199254740993}`},
		{`"\u00e9\u202e"`, "\"\u00e9\\u202E\""},
		{`"\ud800"`, ` "\ud800" `},
	} {
		if !SameJSON([]byte(same[0]), []byte(same[1])) {
			t.Errorf("an edit: %s %s", same[0], same[1])
		}
	}
	for _, other := range [][2]string{
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`},
		{`0.1`, `0.1000000000000000000000001`},
		{`1e400`, `2e400`},
		{`"\ud800"`, `"\ud801"`},
		{`"\ud800"`, `"\ufffd"`},
		{`{"a":1}`, `{"a":"1"}`},
		{`{"a":1}`, `{"a":1} {"a":1}`},
		{`{"a":1}`, `{"a":1`},
		{`oops`, `oops`},
	} {
		if SameJSON([]byte(other[0]), []byte(other[1])) {
			t.Errorf("no edit: %s %s", other[0], other[1])
		}
	}
}

// TestWhatLooksLikeAMarkIsSaid: on every screen, among what speaks against a call.
func TestWhatLooksLikeAMarkIsSaid(t *testing.T) {
	a := protocol.Approval{Agent: "a", Tool: "shell", Description: "x", Presentation: &approval.Presentation{Type: approval.Command, Content: "make <270 spaces> x", Metadata: map[string]any{approval.Literal: "<270 spaces>"}}}
	want := `"<270 spaces>" is part of the text, not a mark by sandgate`
	if text := Essence(&a); !strings.Contains(text, Careful+"     "+want) {
		t.Errorf("%s", text)
	}
	if !slices.Contains(Facts(&a).First, Fact{Careful, want}) {
		t.Errorf("%+v", Facts(&a).First)
	}
	delete(a.Presentation.Metadata, approval.Literal)
	if text := Essence(&a); strings.Contains(text, "itself") {
		t.Errorf("%s", text)
	}
}
