package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	jsonschema "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/tools"
)

const definitionsConfig = `
sandbox: {paths: {workspace: {root: .}}}
tools:
  lint:
    description: Run the linter on one directory.
    command: [golangci-lint, run, "{{path}}", "{{flags...}}"]
    input_schema:
      type: object
      required: [path]
      properties:
        path: {type: string, format: path, description: The directory., examples: [src]}
        flags: {type: array, items: {enum: [-v, --fix]}, description: Options.}
`

// definitions are what tools.list says: every built-in tool, and a custom one.
func definitions(t *testing.T) []tools.Definition {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	file := filepath.Join(dir, "sandgate.yaml")
	if err := os.WriteFile(file, []byte(definitionsConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := settings.Load(file, "")
	if err != nil {
		t.Fatal(err)
	}
	registry, _, err := assemble.Tools(cfg, nil, assemble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return registry.Definitions()
}

// TestDefinitionsAreGoodForMCP: MCP's tools/list can pass the definitions on as
// they are. Names are those that model providers take; each input schema is JSON
// Schema 2020-12 by another implementation than ours; each argument is described,
// and each example in a schema is valid.
func TestDefinitionsAreGoodForMCP(t *testing.T) {
	name := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for _, d := range definitions(t) {
		t.Run(d.Name, func(t *testing.T) {
			if !name.MatchString(d.Name) {
				t.Errorf("the name does not match %s", name)
			}
			if len(d.Description) < 20 || !strings.HasSuffix(strings.TrimSpace(d.Description), ".") {
				t.Errorf("the description says too little: %q", d.Description)
			}
			if d.Annotations.ReadOnlyHint && d.Annotations.DestructiveHint {
				t.Errorf("it cannot be both: %+v", d.Annotations)
			}
			schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.InputSchema))
			if err != nil {
				t.Fatal(err)
			}
			compileSchema(t, d.Name, schema)
			object, _ := schema.(map[string]any)
			if object["type"] != "object" || object["additionalProperties"] != false {
				t.Errorf("the schema is not of a closed object: %s", d.InputSchema)
			}
			checkProperties(t, d.Name, object)
		})
	}
}

// compileSchema holds a schema against the meta-schema of its draft.
func compileSchema(t *testing.T, name string, schema any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("mem:///"+name, schema); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("mem:///" + name)
	if err != nil {
		t.Fatalf("not JSON Schema 2020-12: %v", err)
	}
	return compiled
}

// checkProperties looks at every argument, those inside arrays and objects too.
func checkProperties(t *testing.T, at string, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		property, _ := p.(map[string]any)
		field := at + "." + name
		if text, _ := property["description"].(string); len(text) < 5 {
			t.Errorf("%s has no description", field)
		}
		examples, _ := property["examples"].([]any)
		for i, example := range examples {
			if err := compileSchema(t, field, property).Validate(example); err != nil {
				t.Errorf("%s: example %d: %v", field, i, err)
			}
		}
		checkProperties(t, field, property)
		if items, ok := property["items"].(map[string]any); ok {
			checkProperties(t, field+"[]", items)
		}
	}
}

// TestNamesOfToolsAreReserved: a custom tool cannot pass for a built-in one.
// TestShippedSchemasCompile: a supervisor compiles a schema when its tool is first
// called, and takes it on trust until then.
func TestShippedSchemasCompile(t *testing.T) {
	for _, d := range definitions(t) {
		if _, err := tools.CompileSchema(d.InputSchema); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
}

func TestNamesOfToolsAreReserved(t *testing.T) {
	reserved := assemble.ReservedTools()
	for _, d := range definitions(t) {
		if d.Name != "lint" && !slices.Contains(reserved, d.Name) {
			t.Errorf("the built-in tool %s is not in reservedTools", d.Name)
		}
	}
}

// TestDefinitionsMarshalAsMCPSpellsThem pins the member names of tools/list.
func TestDefinitionsMarshalAsMCPSpellsThem(t *testing.T) {
	for _, d := range definitions(t) {
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(b, &members); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"name", "description", "inputSchema", "annotations"} {
			if members[want] == nil {
				t.Errorf("%s: no member %s in %s", d.Name, want, b)
			}
		}
		annotations, _ := members["annotations"].(map[string]any)
		for _, want := range []string{"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"} {
			if _, ok := annotations[want].(bool); !ok {
				t.Errorf("%s: no annotation %s", d.Name, want)
			}
		}
	}
}
