package mcp

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// stillProgram plans a program without looking for it.
type stillProgram struct{}

func (stillProgram) Definition() tools.Definition { return tools.Definition{} }

func (stillProgram) Plan(tools.Call) (tools.Proposal, error) {
	return tools.Proposal{Plan: tools.Plan{
		Action: sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{Path: "/bin/server", Argv: []string{"server"}}},
		Pins:   []tools.Pin{{Path: "/bin/server"}},
	}}, nil
}

func testServer(name string, others ...string) *Server {
	return New(Config{
		Name: name, Program: stillProgram{}, Default: tools.Ask, Others: others,
		Tools: map[string]tools.Effect{"search_*": tools.Allow, "*_all": tools.Deny, "ask_*": tools.Ask, "named": tools.Allow, "ask_named": tools.Allow},
	})
}

func testProcess(approved string) Process {
	return Process{Digest: "sha256:p", Approved: func(string) string { return approved }}
}

func offer(s *Server, approved string, definitions ...string) []*Tool {
	var raw []json.RawMessage
	for _, d := range definitions {
		raw = append(raw, json.RawMessage(d))
	}
	return s.Offered(testProcess(approved), raw)
}

var modelName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestNames: a name is one that every model takes, says whose it is, and is that of
// one tool.
func TestNames(t *testing.T) {
	for _, c := range []struct{ server, tool, want string }{
		{"github", "search_issues", "github_search_issues"},
		{"git-hub", "a-b", "git-hub_a-b"},
		{"s", "a.b", "s_a_b_2e7336dc"},
		{"s", strings.Repeat("x", 62), "s_" + strings.Repeat("x", 62)},
		{"s", strings.Repeat("x", 63), "s_" + strings.Repeat("x", 53) + "_"},
	} {
		if got := ToolName(c.server, c.tool); !strings.HasPrefix(got, c.want) || len(c.want) < 50 && got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.server, c.tool, got, c.want)
		}
	}
	names := rapid.StringMatching(`[a-zA-Z0-9_./-]{1,128}`)
	servers := rapid.StringMatching(`[a-zA-Z0-9][a-zA-Z0-9-]{0,23}`)
	rapid.Check(t, func(t *rapid.T) {
		s1, t1, s2, t2 := servers.Draw(t, "s1"), names.Draw(t, "t1"), servers.Draw(t, "s2"), names.Draw(t, "t2")
		n1, n2 := ToolName(s1, t1), ToolName(s2, t2)
		if !modelName.MatchString(n1) || !ValidServerName(s1) || ServerOf(n1) != s1 {
			t.Errorf("%s of %s is %s", t1, s1, n1)
		}
		if (s1 != s2 || t1 != t2) && n1 == n2 {
			t.Errorf("%s of %s and %s of %s are both %s", t1, s1, t2, s2, n1)
		}
	})
	for _, bad := range []string{"", "a_b", "-a", "a b", "ä", strings.Repeat("x", 25)} {
		if ValidServerName(bad) {
			t.Errorf("%q is a name", bad)
		}
	}
}

// TestScreening: what nobody sees is refused; what people write is not.
func TestScreening(t *testing.T) {
	for text, refused := range map[string]bool{
		"Search the web.\n\n- fast\t- good": false, "Größe, 大きさ, размер, حجم": false, "⚠\ufe0f careful": false, "👩\u200d💻 1\ufe0f⃣": false, "می\u200cخواهم": false,
		"a\u202eb": true, "a\u200bb": true, "a\u200db": true, "\U000e0041": true, "\x1b[31m": true, "a\u0000": true, "a\ufe0fb": true, "☺\ufe0f\ufe0f": true,
		"\ue000": true, "a\u00adb": true, "\u3164": true, "a\u2028b": true,
	} {
		for where, definition := range map[string]map[string]any{
			"description": {"name": "x", "description": text},
			"title":       {"name": "x", "title": text},
			"hint":        {"name": "x", "annotations": map[string]any{"title": text}},
			"schema":      {"name": "x", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"description": text}}}},
			"property":    {"name": "x", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{text: map[string]any{}}}},
		} {
			raw, err := json.Marshal(definition)
			if err != nil {
				t.Fatal(err)
			}
			got := offer(testServer("s"), "", string(raw))
			if len(got) != 1 || (got[0].Refused() != "") != refused {
				t.Errorf("%q in %s: refused %q", text, where, got[0].Refused())
			}
			if refused && strings.Contains(fmt.Sprintf("%+v %s", got[0].Definition(), got[0].Definition().InputSchema), text) {
				t.Errorf("%q in %s is passed on", text, where)
			}
		}
	}
}

func TestRefusedDefinitions(t *testing.T) {
	for definition, why := range map[string]string{
		`7`:                   "not a valid tool definition",
		`{"name": "a b"}`:     "its name",
		`{"name": ""}`:        "its name",
		`{"name": "other_x"}`: "the server other",
		`{"name": "OTHER_x"}`: "the server other",
		`{"name": "x", "inputSchema": {"type": "string"}}`:                                                "compile",
		`{"name": "x", "inputSchema": {"type": "object", "$ref": "https://example.org/x"}}`:               "compile",
		`{"name": "x", "inputSchema": 7}`:                                                                 "compile",
		`{"name": "x", "description": "` + strings.Repeat("x", maxDescription+1) + `"}`:                   "description",
		`{"name": "x", "inputSchema": {"type": "object", "d": "` + strings.Repeat("x", maxSchema) + `"}}`: "schema has more",
	} {
		if got := offer(testServer("s", "other"), "", definition); len(got) != 1 || !strings.Contains(got[0].Refused(), why) {
			t.Errorf("%.80s: %q, want %q", definition, got[0].Refused(), why)
		}
	}
	for _, good := range []string{`{"name": "x"}`, `{"name": "other"}`, `{"name": "another_x"}`, `{"name": "x", "inputSchema": null, "_meta": {"a": "\u202e"}}`} {
		if got := offer(testServer("s", "other"), "", good); got[0].Refused() != "" {
			t.Errorf("%s: %q", good, got[0].Refused())
		}
	}
}

// TestPlans: what the configuration says about a tool, and what raises it.
func TestPlans(t *testing.T) {
	const asks, runs, blocked = "asks", "runs", "blocked"
	for _, c := range []struct{ definition, approved, want string }{
		{`{"name": "search_a"}`, "", runs},
		{`{"name": "write"}`, "", asks},
		{`{"name": "search_all"}`, "", blocked},
		{`{"name": "ask_all"}`, "", blocked},
		{`{"name": "search_a", "annotations": {"destructiveHint": true}}`, "", asks},
		{`{"name": "search_a", "annotations": {"openWorldHint": true}}`, "", asks},
		{`{"name": "search_a", "annotations": {"openWorldHint": true, "readOnlyHint": true}}`, "", runs},
		{`{"name": "write", "annotations": {"readOnlyHint": true, "destructiveHint": false}}`, "", asks}, // a hint never lowers
		{`{"name": "search_a", "description": "better than other_search"}`, "", asks},
		{`{"name": "search_a", "description": "another_search, other, other_, mother_x"}`, "", runs},
		{`{"name": "search_a"}`, "sha256:another", asks},
		{`{"name": "named", "annotations": {"destructiveHint": true, "openWorldHint": true}}`, "", runs}, // by its own name
		{`{"name": "named", "description": "better than other_search"}`, "", asks},
		{`{"name": "named"}`, "sha256:another", asks},
		{`{"name": "ask_named", "annotations": {"destructiveHint": true}}`, "", asks}, // a stricter one matches
	} {
		tool := offer(testServer("s", "other"), c.approved, c.definition)[0]
		p, err := tool.Plan(tools.Call{Tool: tool.Definition().Name, Args: map[string]any{"q": json.Number("1.0")}})
		got := runs
		switch {
		case approval.IsBlocked(err):
			got = blocked
		case err != nil:
			t.Fatal(err)
		case p.Request != nil:
			got = asks
		}
		if got != c.want {
			t.Errorf("%s, approved %q: %s, want %s", c.definition, c.approved, got, c.want)
		}
		if err == nil && (p.Plan.Kind != tools.ByServer || string(p.Plan.MCP.Args) != `{"q":1}` || p.Connector != "s" || p.Changed != (c.approved != "")) {
			t.Errorf("%s: planned %+v", c.definition, p.Plan.MCP)
		}
	}
}

// TestDefinitionDigest: it is of what is said, not of how it is written.
func TestDefinitionDigest(t *testing.T) {
	digest := func(d string) string { return offer(testServer("s"), "", d)[0].Digest() }
	one := digest(`{"name": "x", "description": "d", "inputSchema": {"type": "object", "maxProperties": 1}, "_meta": {"n": 1}}`)
	if same := digest(`{"inputSchema":{"maxProperties":1.0,"type":"object"},"description":"\u0064","name":"x","_meta":{"n":2}}`); same != one {
		t.Error("the same definition has another digest")
	}
	for _, other := range []string{
		`{"name": "x", "description": "D", "inputSchema": {"type": "object", "maxProperties": 1}}`,
		`{"name": "x", "description": "d", "inputSchema": {"type": "object", "maxProperties": 2}}`,
		`{"name": "x", "description": "d", "inputSchema": {"type": "object", "maxProperties": 1}, "annotations": {"readOnlyHint": false}}`,
		`{"name": "x", "description": "d", "inputSchema": {"type": "object", "maxProperties": 1}, "outputSchema": {}}`,
		`{"name": "x", "title": "t", "description": "d", "inputSchema": {"type": "object", "maxProperties": 1}}`,
	} {
		if digest(other) == one {
			t.Errorf("%s has the same digest", other)
		}
	}
}

// FuzzOffered: whatever a server lists, there are tools with names that models take,
// schemas that compile, and no hidden text.
func FuzzOffered(f *testing.F) {
	for _, s := range []string{
		`{"name":"x"}`, `7`, `null`, `{"name":"a.b","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}}`,
		`{"name":"x","description":"\ud800"}`, `{"name":"x","inputSchema":{"type":"object","required":"a"}}`, `{"name":"x","annotations":7}`,
	} {
		f.Add([]byte(s), []byte(`{"name":"X"}`))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !json.Valid(a) || !json.Valid(b) {
			return
		}
		all := offer(testServer("s", "other"), "", string(a), string(b))
		list := make([]tools.Tool, len(all))
		for i, tool := range all {
			list[i] = tool
			d := tool.Definition()
			if !modelName.MatchString(d.Name) || !json.Valid(d.InputSchema) {
				t.Errorf("%q, %s", d.Name, d.InputSchema)
			}
			if r, hides := hidden(d.Description + d.Annotations.Title + string(d.InputSchema)); hides {
				t.Errorf("U+%04X is passed on", r)
			}
			if _, err := tool.Plan(tools.Call{Tool: d.Name, Args: map[string]any{}}); err != nil && !approval.IsBlocked(err) {
				t.Error(err)
			}
		}
		if _, err := tools.NewRegistry(list...); err != nil {
			t.Error(err)
		}
	})
}
