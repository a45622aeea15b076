package manifest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func faults(s Spec) []string {
	var list []string
	for _, f := range s.Check() {
		list = append(list, f.Error())
	}
	return list
}

// TestCheckTemplates: what is wrong with a definition is said where it is written.
func TestCheckTemplates(t *testing.T) {
	for _, c := range []struct {
		name  string
		words []string
		want  []string
	}{
		{"good", []string{"{{text}}", "-n{{n}}", "--x={{more}}", "{{list...}}", "{{flag ? --f}}", "{{level}}"}, nil},
		{"unknown", []string{"{{txet}}"}, []string{`command[1]: the tool has no argument "txet"; did you mean "text"?`}},
		{"not closed", []string{"{{text"}, []string{`command[1]: "{{text" has no closing braces; {{{{ stands for two braces`}},
		{"nested", []string{"{{a{{text}}}}"}, []string{`command[1]: a placeholder inside a placeholder: "{{a{{text"; {{{{ stands for two braces`}},
		{"no name", []string{"{{ }}"}, []string{`command[1]: "" is not an argument's name; {{{{ stands for two braces`}},
		{"go template", []string{"{{.Names}}"}, []string{`command[1]: ".Names" is not an argument's name; {{{{ stands for two braces`}},
		{"array as a word", []string{"{{list}}"}, []string{`command[1]: the argument "list" is an array, but this is one word; write {{list...}} for one word each`}},
		{"spread of a text", []string{"{{text...}}"}, []string{`command[1]: the argument "text" is not an array, so ... does not apply; write {{text}}, or give it type: array`}},
		{"spread in a word", []string{"x={{list...}}"}, []string{`command[1]: "list" is only part of a word; write it as a separate word`}},
		{"condition in a word", []string{"x{{text ? y}}"}, []string{`command[1]: "text" is only part of a word; write it as a separate word`}},
		{"empty condition", []string{"{{text ? }}"}, []string{`command[1]: "{{text ?}}": the text after the question mark is missing; {{{{ stands for two braces`}},
		{"option's name", []string{"--{{text}}"}, []string{`command[1]: the argument "text" would be part of the option's name; write --name={{text}}, or two words, or list it in options_allowed`}},
		{"cluster", []string{"-v{{text}}"}, []string{`command[1]: the argument "text" would be part of the option's name; write --name={{text}}, or two words, or list it in options_allowed`}},
		{"long option", []string{"--no{{n}}"}, []string{`command[1]: the argument "n" would be part of the option's name; write --name={{n}}, or two words, or list it in options_allowed`}},
		{"behind the end of options", []string{"--", "--{{text}}"}, nil},
		{"zero byte", []string{"a\x00"}, []string{"command[1]: the word contains a zero byte"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, faults(echo(t, c.words...))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckProgram(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"echo", "a b"}, ""},
		{nil, "command: the command is empty"},
		{[]string{""}, "command: the command is empty"},
		{[]string{"golangci-lint run"}, `command[0]: "golangci-lint run" has a space`},
		{[]string{"{{text}}"}, "command[0]: the program cannot come from an argument"},
	} {
		got := strings.Join(faults(Spec{Name: "x", Command: c.words}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q: %q, want %q", c.words, got, c.want)
		}
	}
}

// TestCheckSchema: a schema that nothing satisfies, or with a constraint that
// nobody would keep, does not load.
func TestCheckSchema(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"good", echoSchema, ""},
		{"empty", `{}`, ""},
		{"annotations", `{"properties": {"a": {"type": "string", "title": "A", "description": "d", "examples": ["x"], "deprecated": true}}}`, ""},
		{"references", `{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}`, ""},
		{"no object", `{"type": "string"}`, "input_schema.type: the schema of a tool's arguments must be an object"},
		{"bad type", `{"properties": {"a": {"type": "strin"}}}`, `input_schema.properties.a.type: no value can satisfy this: "strin" is not a type; did you mean "string"?`},
		{"bad pattern", `{"properties": {"a": {"type": "string", "pattern": "("}}}`, "input_schema: not a JSON Schema"},
		{"bad default", `{"properties": {"a": {"type": "string", "default": 3}}}`, "input_schema: not a JSON Schema"},
		{"bad example", `{"properties": {"a": {"type": "string", "examples": ["x", 3]}}}`, "input_schema.properties.a.examples[1]: the example is not valid: argument a: expected string, got integer"},
		{"unknown keyword", `{"properties": {"a": {"type": "string", "maxLenght": 3}}}`, `input_schema.properties.a.maxLenght: "maxLenght" is not a supported keyword of JSON Schema 2020-12; did you mean "maxLength"?`},
		{"unknown deeper", `{"properties": {"a": {"type": "array", "items": {"anyOf": [{"tpye": "string"}]}}}}`, `input_schema.properties.a.items.anyOf[0].tpye:`},
		{"unknown format", `{"properties": {"a": {"type": "string", "format": "email"}}}`, "input_schema.properties.a.format: the format email is not supported"},
		{"format too deep", `{"properties": {"a": {"type": "object", "properties": {"b": {"type": "string", "format": "path"}}}}}`, "input_schema.properties.a.properties.b.format: a path format is supported only for arguments"},
		{"format of a member called items", `{"properties": {"a": {"type": "object", "properties": {"items": {"type": "string", "format": "path"}}}}}`, "input_schema.properties.a.properties.items.format: a path format is supported only for arguments"},
		{"format of a condition called items", `{"properties": {"a": {"type": "object", "dependentSchemas": {"items": {"type": "string", "format": "path"}}}}}`, "a path format is supported only for arguments"},
		{"format on a number", `{"properties": {"a": {"type": "integer", "format": "path"}}}`, "a path must be a string"},
		{"bounds", `{"properties": {"a": {"type": "integer", "minimum": 5, "maximum": 4}}}`, "input_schema.properties.a.minimum: no value can satisfy this: minimum is 5 and maximum is 4"},
		{"exclusive bounds", `{"properties": {"a": {"type": "number", "exclusiveMinimum": 4, "maximum": 4}}}`, "no value can satisfy this"},
		{"equal bounds", `{"properties": {"a": {"type": "integer", "minimum": 4, "maximum": 4}}}`, ""},
		{"lengths", `{"properties": {"a": {"type": "string", "minLength": 5, "maxLength": 4}}}`, "no value can satisfy this"},
		{"empty enum", `{"properties": {"a": {"enum": []}}}`, "input_schema.properties.a.enum: no value can satisfy this: the list is empty"},
		{"enum of another type", `{"properties": {"a": {"type": "string", "enum": ["x", 3]}}}`, "input_schema.properties.a.enum[1]: the value is not of type string"},
		{"required and absent", `{"required": ["pth"], "properties": {"path": {"type": "string"}}}`, `input_schema.required[0]: no value can satisfy this: "pth" is required, and that property is not allowed; did you mean "path"?`},
		{"required and open", `{"required": ["b"], "additionalProperties": true, "properties": {"a": {"type": "string"}}}`, ""},
		{"itself", `{"allOf": [{"$ref": "#"}]}`, "refers to itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(faults(Spec{Name: "x", Command: []string{"x"}, InputSchema: plain(t, c.schema)}), "\n")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("faults %q, want %q", got, c.want)
			}
		})
	}
}

func TestCheckTheRest(t *testing.T) {
	s := echo(t)
	s.Stdin, s.OptionsAllowed = "{{list}}", []string{"txt"}
	s.Approval = Approval{Payload: []string{"size"}, Description: "{{nothing}} {{list...}}"}
	want := []string{
		`stdin: the argument "list" can be an object or an array, which cannot be a word; give it a type: string, integer, number or boolean; or pass the arguments with stdin: json`,
		`approval.description: the tool has no argument "nothing"; add it to input_schema.properties`,
		`approval.description: a description can contain only values; write {{list}}`,
		`approval.payload[0]: the tool has no argument "size"; add it to input_schema.properties`,
		`options_allowed[0]: the tool has no argument "txt"; did you mean "text"?`,
	}
	if diff := cmp.Diff(want, faults(s)); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	for _, stdin := range []string{"text", "{{text}} more", "{{text", "{{text ? a}}"} {
		s := echo(t)
		if s.Stdin = stdin; len(s.Check()) != 1 {
			t.Errorf("stdin %q: %v, want one fault", stdin, s.Check())
		}
	}
}

// FuzzTemplate: a template parses or says why not; filled with values that have
// braces, it has the values as they are.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "{{a}}", "x={{a}}", "{{{{", "{{{{a}}", "{{a{{b}}}}", "{{a...}}", "{{a ? b}}", "{{a", "}}", "{{ a }}b{{c}}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseTemplate(text)
		if err != nil {
			return
		}
		const value = "{{a}}{{{{"
		got, ok := parsed.fill(func(string) (string, bool) { return value, true })
		if !ok {
			t.Fatalf("%q: not filled", text)
		}
		if n := len(parsed.args()); strings.Count(got, value) < n {
			t.Errorf("%q filled is %q: fewer than %d values", text, got, n)
		}
		if len(parsed.args()) == 0 && strings.ReplaceAll(text, "{{{{", "{{") != got {
			t.Errorf("%q without placeholders is %q", text, got)
		}
	})
}

// plain is an object with numbers as a configuration has them.
func plain(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
