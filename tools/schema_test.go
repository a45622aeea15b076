package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const testSchema = `{
  "type": "object",
  "additionalProperties": false,
  "required": ["path"],
  "properties": {
    "path":   {"type": "string", "minLength": 1, "description": "The file."},
    "count":  {"type": "integer", "minimum": 1, "maximum": 10},
    "ratio":  {"type": "number"},
    "mode":   {"type": "string", "enum": ["fast", "slow"]},
    "name":   {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
    "either": {"type": ["string", "null"]},
    "flag":   {"type": "boolean"},
    "argv":   {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
    "deep":   {"type": "object", "required": ["a/b"], "properties": {"a/b": {"type": "integer"}}},
    "level":  {"enum": [1, 2.5, null]},
    "odd":    {"allOf": [{"multipleOf": 3}]},
    "pair":   {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}
  }
}`

// TestDefaultsAreOptional: generators list what has a default as required.
func TestDefaultsAreOptional(t *testing.T) {
	const object = `{"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string", "default": "x"}}}`
	in := func(outer string) string { return strings.ReplaceAll(outer, "OBJECT", object) }
	for _, c := range []struct{ schema, args, want string }{
		{object, `{"a": "1"}`, ""},
		{object, `{"b": "1"}`, "argument a: missing"},
		{object, `{"a": "1", "b": 2}`, "argument b: expected string, got integer"},
		{in(`{"type": "object", "properties": {"list": {"type": "array", "items": OBJECT}}}`), `{"list": [{"a": "1"}]}`, ""},
		{in(`{"type": "object", "properties": {"list": {"type": "array", "items": OBJECT}}}`), `{"list": [{}]}`, "argument list/0/a: missing"},
		{in(`{"type": "object", "$defs": {"o": OBJECT}, "properties": {"o": {"$ref": "#/$defs/o"}}}`), `{"o": {"a": "1"}}`, ""},
		{in(`{"type": "object", "properties": {"o": {"anyOf": [OBJECT, {"type": "null"}]}}}`), `{"o": {"a": "1"}}`, ""},
		{in(`{"type": "object", "properties": {"o": {"type": "object", "additionalProperties": OBJECT}}}`), `{"o": {"k": {"a": "1"}}}`, ""},
	} {
		s, err := CompileSchema(json.RawMessage(c.schema))
		if err != nil {
			t.Fatalf("%s: %v", c.schema, err)
		}
		args, _ := decodeArgs(t, c.args, true)
		checkFault(t, s.Validate(args), c.schema+" "+c.args, c.want, "")
	}
}

func TestValidate(t *testing.T) {
	schema, err := CompileSchema(json.RawMessage(testSchema))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want string // the whole error; "" for none
		hint string
	}{
		{`{"path": "a"}`, "", ""},
		{`{"path": "a", "count": 1, "ratio": 0.5, "mode": "fast", "name": "abc", "either": null, "flag": true, "argv": ["x"], "deep": {"a/b": 1}, "level": 2.5, "odd": 6, "pair": ["a", 1]}`, "", ""},
		{`{"path": "a", "count": 1.0}`, "", ""},
		{`{"path": "a", "ratio": 3}`, "", ""},
		{`{"path": "a", "level": 1.0}`, "", ""},
		{`{}`, "argument path: missing", "The file."},
		{`{"path": 7}`, "argument path: expected string, got integer", ""},
		{`{"path": 7.5}`, "argument path: expected string, got number", ""},
		{`{"path": null}`, "argument path: expected string, got null", ""},
		{`{"path": ["a"]}`, "argument path: expected string, got array", ""},
		{`{"path": {}}`, "argument path: expected string, got object", ""},
		{`{"path": ""}`, "argument path: is empty", ""},
		{`{"path": "a", "paht": 1}`, "argument paht: unknown argument", `did you mean "path"?`},
		{`{"path": "a", "xyzzy": 1}`, "argument xyzzy: unknown argument", "known arguments: argv, count, deep, either, flag, level, mode, name, odd, pair, path, ratio"},
		{`{"path": "a", "count": "1"}`, "argument count: expected integer, got string", ""},
		{`{"path": "a", "count": 1.5}`, "argument count: expected integer, got number", ""},
		{`{"path": "a", "count": 0}`, "argument count: is 0, must be at least 1", ""},
		{`{"path": "a", "count": 11}`, "argument count: is 11, must be at most 10", ""},
		{`{"path": "a", "count": 1e400}`, "argument count: number is out of range", ""},
		{`{"path": "a", "ratio": 1e999999999}`, "argument ratio: number is out of range", ""},
		{`{"path": "a", "mode": "quick"}`, `argument mode: is not one of ["fast","slow"]`, ""},
		{`{"path": "a", "name": "ABC"}`, `argument name: does not match "^[a-z]+$"`, ""},
		{`{"path": "a", "name": "abcde"}`, "argument name: has 5 characters, at most 4 allowed", ""},
		{`{"path": "a", "either": 1}`, "argument either: expected string or null, got integer", ""},
		{`{"path": "a", "flag": "yes"}`, "argument flag: expected boolean, got string", ""},
		{`{"path": "a", "argv": []}`, "argument argv: has 0 items, needs at least 1", ""},
		{`{"path": "a", "argv": ["a", "b", "c"]}`, "argument argv: has 3 items, at most 2 allowed", ""},
		{`{"path": "a", "argv": ["a", 1]}`, "argument argv/1: expected string, got integer", ""},
		{`{"path": "a", "deep": {}}`, "argument deep/a~1b: missing", ""},
		{`{"path": "a", "deep": {"a/b": "x"}}`, "argument deep/a~1b: expected integer, got string", ""},
		{`{"path": "a", "level": 3}`, "argument level: is not one of [1,2.5,null]", ""},
		{`{"path": "a", "odd": 4}`, `arguments: they do not satisfy the input schema at "/properties/odd/allOf/0" (multipleOf)`, ""},
		{`{"path": "a", "pair": [1]}`, `arguments: they do not satisfy the input schema at "/properties/pair/prefixItems/0" (type)`, ""},
	} {
		for _, useNumber := range []bool{false, true} {
			args, ok := decodeArgs(t, c.args, useNumber)
			if !ok {
				continue // a float64 cannot hold it: only json.Number gets here
			}
			checkFault(t, schema.Validate(args), c.args, c.want, c.hint)
		}
	}
	checkFault(t, schema.Validate(nil), "nil", "argument path: missing", "The file.")
}

func decodeArgs(t *testing.T, text string, useNumber bool) (map[string]any, bool) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	if useNumber {
		decoder.UseNumber()
	}
	var args map[string]any
	err := decoder.Decode(&args)
	if err != nil && useNumber {
		t.Fatalf("%s: %v", text, err)
	}
	return args, err == nil
}

func checkFault(t *testing.T, err error, args, want, hint string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		return
	}
	var a *ArgumentError
	if !errors.As(err, &a) || a.Error() != want || a.Hint != hint {
		t.Errorf("%s: %v (%+v); want %q, hint %q", args, err, a, want, hint)
	}
}

func TestValidateDoesNotRepeatValues(t *testing.T) {
	schema, err := CompileSchema(json.RawMessage(testSchema))
	if err != nil {
		t.Fatal(err)
	}
	const secret = "hunter2"
	for _, args := range []map[string]any{
		{"path": []any{secret}},
		{"path": "a", "mode": secret},
		{"path": "a", "name": secret},
		{"path": "a", "odd": 4.0, "either": secret},
		{"path": "a", "pair": []any{1.0, secret}},
	} {
		if err := schema.Validate(args); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v: %v; want an error without the value", args, err)
		}
	}
	long := map[string]any{"path": "a", strings.Repeat("é", 1000): 1}
	if err := schema.Validate(long); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long unknown name: %v", err)
	}
}

func TestCompileSchemaRefuses(t *testing.T) {
	doubling := `"d0": {"type": "string"}`
	for i := 1; i < 40; i++ {
		doubling += fmt.Sprintf(`, "d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]}`, i, i-1, i-1)
	}
	for _, c := range []struct{ schema, want string }{
		{``, "parse"},
		{`{`, "parse"},
		{`{}`, "must be"},
		{`{"type": "string"}`, "must be"},
		{`{"type": "object", "properties": {"a": {"pattern": "("}}}`, "compile"},
		{`{"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}`, "cannot resolve remote"},
		{`{"type": "object", "$ref": "#"}`, "refers to itself"},
		{`{"type": "object", "properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}}`, "refers to itself"},
		{`{"type": "object", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}`, "refers to itself"},
		{`{"type": "object", "$defs": {` + doubling + `}, "properties": {"a": {"$ref": "#/$defs/d39"}}}`, "more than"},
	} {
		if _, err := CompileSchema(json.RawMessage(c.schema)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("CompileSchema(%.80s) = %v; want an error with %q", c.schema, err, c.want)
		}
	}
}

// A tree refers to itself as well, but goes deeper each time.
func TestCompileSchemaTakesRecursionThatGoesDeeper(t *testing.T) {
	schema, err := CompileSchema(json.RawMessage(`{
		"type": "object",
		"properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": {"$ref": "#/$defs/name"}},
		"$defs": {"name": {"type": "string"}}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	args, _ := decodeArgs(t, `{"children": [{"name": "x", "children": [{"name": 1}]}]}`, false)
	if err := schema.Validate(args); err == nil || !strings.Contains(err.Error(), "type") {
		t.Errorf("a wrong type three levels down: %v", err)
	}
	args, _ = decodeArgs(t, `{"children": [{"name": "x", "children": [{"name": "y"}]}]}`, false)
	if err := schema.Validate(args); err != nil {
		t.Errorf("a sound tree: %v", err)
	}
}

// FuzzValidate: whatever the arguments, the answer is nil or an ArgumentError,
// and the words that explain agree with the validator that decides.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		`{"path":"a"}`, `{}`, `null`, `{"path":1e9999}`, `{"argv":[[[]]]}`, `{"path":"a","level":null}`, `{"path":"a","count":1e2}`,
		`{"path":"\u0000","deep":{"a/b":0}}`, `{"path":"a","pair":["",1,2,"x"]}`, `{"path":"a","odd":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	schema, err := CompileSchema(json.RawMessage(testSchema))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		decoder := json.NewDecoder(strings.NewReader(string(raw)))
		decoder.UseNumber()
		var args map[string]any
		if decoder.Decode(&args) != nil {
			return
		}
		err := schema.Validate(args)
		var a *ArgumentError
		if err != nil && !errors.As(err, &a) {
			t.Fatalf("%s: %v is no ArgumentError", raw, err)
		}
		plain, perr := plainNumbers(args, "")
		if perr != nil || args == nil {
			return
		}
		if fault := faultIn(schema.resolved.Schema(), plain, ""); fault != nil && err == nil {
			t.Fatalf("%s: the validator is content, and yet: %v", raw, fault)
		}
	})
}
