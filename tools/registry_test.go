package tools

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
)

type fakeTool struct {
	def     Definition
	planned *Call
}

func (f fakeTool) Definition() Definition { return f.def }

func (f fakeTool) Plan(c Call) (Proposal, error) {
	if f.planned != nil {
		*f.planned = c
	}
	return Proposal{Plan: Plan{Tool: f.def.Name}, Request: &approval.Request{ToolName: c.Tool}}, nil
}

func fake(name, schema string) fakeTool {
	return fakeTool{def: Definition{Name: name, InputSchema: json.RawMessage(schema)}}
}

const anyObject = `{"type": "object"}`

func TestRegistryPlansWhatIsValid(t *testing.T) {
	var got Call
	tool := fake("read_file", `{"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}}`)
	tool.planned = &got
	r, err := NewRegistry(fake("zeta", anyObject), tool)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.Plan(Call{Tool: "read_file", Args: map[string]any{"path": "a"}})
	if err != nil || p.Plan.Tool != "read_file" || got.String("path") != "a" {
		t.Errorf("a valid call: %+v, %v; the tool saw %+v", p, err, got)
	}
	got = Call{}
	var a *ArgumentError
	if _, err := r.Plan(Call{Tool: "read_file", Args: map[string]any{"path": 1.0}}); !errors.As(err, &a) || got.Tool != "" {
		t.Errorf("a call with a wrong type: %v; the tool saw %+v", err, got)
	}
}

func TestRegistrySuggestsATool(t *testing.T) {
	r, err := NewRegistry(fake("read_file", anyObject), fake("write_file", anyObject), fake("shell", anyObject))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, hint string }{
		{"raed_file", `did you mean "read_file"?`},
		{"write-file", `did you mean "write_file"?`},
		{"Shell", `did you mean "shell"?`},
		{"teleport", "known tools: read_file, shell, write_file"},
		{"", "known tools: read_file, shell, write_file"},
		{strings.Repeat("x", 100_000), "known tools: read_file, shell, write_file"},
	} {
		_, err := r.Plan(Call{Tool: c.name})
		var unknown *UnknownToolError
		if !errors.As(err, &unknown) || unknown.Hint() != c.hint || len(err.Error()) > 100 {
			t.Errorf("%.20q: %v; want the hint %q", c.name, err, c.hint)
		}
		if _, err := r.Definition(c.name); !errors.As(err, &unknown) {
			t.Errorf("Definition(%.20q): %v", c.name, err)
		}
	}
}

func TestRegistryDigestIsThatOfTheDefinitions(t *testing.T) {
	digest := func(list ...Tool) string {
		t.Helper()
		r, err := NewRegistry(list...)
		if err != nil {
			t.Fatal(err)
		}
		return r.Digest()
	}
	a, b := fake("a", anyObject), fake("b", anyObject)
	first := digest(a, b)
	if digest(b, a) != first {
		t.Error("the order of registration changes the digest")
	}
	if !strings.HasPrefix(first, "sha256:") || len(first) != len("sha256:")+64 {
		t.Errorf("digest %q", first)
	}
	described, annotated, narrowed := b, b, fake("b", `{"type": "object", "required": ["x"]}`)
	described.def.Description = "changed"
	annotated.def.Annotations.ReadOnlyHint = true
	seen := map[string]string{"same": first}
	for name, list := range map[string][]Tool{
		"fewer": {a}, "none": {}, "described": {a, described}, "annotated": {a, annotated}, "narrowed": {a, narrowed},
	} {
		d := digest(list...)
		for other, have := range seen {
			if have == d {
				t.Errorf("%s and %s have one digest", name, other)
			}
		}
		seen[name] = d
	}
}

func TestRegistryRefuses(t *testing.T) {
	for _, c := range []struct {
		list []Tool
		want string
	}{
		{[]Tool{fake("a", anyObject), fake("a", anyObject)}, "another tool"},
		{[]Tool{fake("", anyObject)}, "a name is"},
		{[]Tool{fake("a b", anyObject)}, "a name is"},
		{[]Tool{fake("a\n", anyObject)}, "a name is"},
		{[]Tool{fake(strings.Repeat("a", 65), anyObject)}, "a name is"},
		{[]Tool{fake("a", `{"type": "string"}`)}, "must be"},
	} {
		if _, err := NewRegistry(c.list...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want an error with %q", c.list, err, c.want)
		}
	}
}

func TestRegistryListsSortedDefinitions(t *testing.T) {
	r, err := NewRegistry(fake("b", anyObject), fake("c", anyObject), fake("a", anyObject))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range r.Definitions() {
		names = append(names, d.Name)
	}
	if strings.Join(names, " ") != "a b c" {
		t.Errorf("definitions of %q", names)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "ab", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3},
	} {
		if got := editDistance(c.a, c.b); got != c.want || editDistance(c.b, c.a) != got {
			t.Errorf("editDistance(%q, %q) = %d, want %d, both ways", c.a, c.b, got, c.want)
		}
	}
}

func TestCallArguments(t *testing.T) {
	c := Call{Args: map[string]any{
		"s": "x", "b": true, "int": 3, "int64": int64(4), "float": 5.0, "number": json.Number("6"), "exp": json.Number("7e0"),
		"fraction": 1.5, "huge": 1e30, "hugeNumber": json.Number("1e30"), "list": []any{"a", "b"},
	}}
	if c.String("s") != "x" || c.String("b") != "" || c.String("absent") != "" {
		t.Error("String")
	}
	if !c.Bool("b") || c.Bool("s") || c.Bool("absent") {
		t.Error("Bool")
	}
	for name, want := range map[string]int64{
		"int": 3, "int64": 4, "float": 5, "number": 6, "exp": 7, "fraction": -1, "huge": -1, "hugeNumber": -1, "s": -1, "absent": -1,
	} {
		if got := c.Int(name, -1); got != want {
			t.Errorf("Int(%q) = %d, want %d", name, got, want)
		}
	}
	if got := c.Strings("list"); len(got) != 2 || got[0] != "a" || got[1] != "b" || c.Strings("s") != nil {
		t.Errorf("Strings = %q", got)
	}
}

func TestAwareShowsAToolToApproval(t *testing.T) {
	var aware approval.Aware = Aware{fake("a", anyObject)}
	request, err := aware.CheckApproval(approval.Context{ToolName: "a"})
	if err != nil || request == nil || request.ToolName != "a" {
		t.Errorf("CheckApproval = %+v, %v", request, err)
	}
}

func TestPlanDigestCoversThePlan(t *testing.T) {
	plan := Plan{Tool: "a", Pins: []Pin{{Path: "/x", Inode: 1}}}
	same := Plan{Tool: "a", Pins: []Pin{{Path: "/x", Inode: 1}}}
	if plan.Digest() != same.Digest() {
		t.Error("equal plans have different digests")
	}
	same.Pins[0].ChangeTime = 1
	if plan.Digest() == same.Digest() {
		t.Error("a pin is not part of the digest")
	}
}
