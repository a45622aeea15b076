package config

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"
)

func resolveSchema(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// instance is a YAML text as an editor's validator sees it.
func instance(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaDescribesEveryKeyAndNoOther(t *testing.T) {
	described := texts()
	walkKeys(reflect.TypeFor[Config](), "", func(path string, _ key) {
		if described[path] == "" {
			t.Errorf("%s has no description", path)
		}
		delete(described, path)
	})
	for path := range described {
		t.Errorf("%s is described and is no key", path)
	}
}

func TestSchemaAcceptsTheExampleAndRejectsEachMisspeltKey(t *testing.T) {
	schema, text := resolveSchema(t), example(t)
	if err := schema.Validate(instance(t, text)); err != nil {
		t.Fatalf("the example: %v", err)
	}
	for _, k := range keysIn(t, text) {
		wrong := misspellings(k)[0]
		if err := schema.Validate(instance(t, replaceAt(text, k, wrong))); err == nil {
			t.Errorf("%q for %q on line %d is accepted", wrong, k.key, k.line)
		}
	}
}

func TestSchemaAgreesWithTheLoaderOnTypes(t *testing.T) {
	schema, env := resolveSchema(t), testEnv(t)
	for _, tc := range []struct {
		text string
		good bool
	}{
		{"version: 1", true},
		{"version: 0", false},
		{"sandbox: {paths: {w: {root: .}}}", true},
		{"sandbox: {paths: {w: {mode: rw}}}", false},
		{"sandbox: {paths: {'a b': {root: .}}}", false},
		{"sandbox: {presets: system}", false},
		{"sandbox: {require_os_sandbox: 'true'}", false},
		{"sandbox: {limits: {memory: 4GiB, output: 1000, timeout: 1m30s}}", true},
		{"sandbox: {limits: {memory: 4GiBB}}", false},
		{"sandbox: {limits: {memory: 0}}", false},
		{"sandbox: {limits: {timeout: 90}}", false},
		{"sandbox: {limits: {pids: '7'}}", false},
		{"shell: {network: none}", true},
		{"shell: {network: all}", false},
		{"shell: {network: {ask: true}}", false},
		{"shell: {network: {}}", false},
		{"shell: {network: {expose: [8080, '3000:8080', '0:1024']}}", true},
		{"shell: {network: {expose: [8080], allow: [example.org]}}", true},
		{"shell: {network: {expose: [8080], ask: true}}", false},
		{"shell: {network: {expose: 8080}}", false},
		{"shell: {network: {expose: [0]}}", false},
		{"shell: {network: {expose: ['8080:']}}", false},
		{"shell: {network: {expose: [true]}}", false},
		{"shell: {rules: [{pattern: ls}]}", true},
		{"shell: {rules: [{approval: true}]}", false},
		{"shell: {rules: [ls]}", false},
		{"approval: {mode: strict, deny_cache: 0s}", true},
		{"approval: {mode: yolo}", false},
		{"approval: {unknown_tools: []}", false},
	} {
		_, loadErr := parse(env, tc.text)
		schemaErr := schema.Validate(instance(t, tc.text))
		if (loadErr == nil) != tc.good || (schemaErr == nil) != tc.good {
			t.Errorf("%s: want good=%v, the loader says %v, the schema %v", tc.text, tc.good, loadErr, schemaErr)
		}
	}
}
