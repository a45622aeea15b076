package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/internal/must"
)

// Schema is the JSON Schema (draft 2020-12) of the file format, for editors. It
// says what keys and types there are; that paths exist and that rules make sense
// together is for Load to say.
func Schema() []byte {
	g := generator{texts(), defaultValues()}
	root := g.structure(reflect.TypeFor[Config](), "")
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = FileName
	root.Description = "Configuration of sandgate, which controls what an AI agent does on a machine."
	raw, err := json.Marshal(root)
	if err != nil {
		panic(fmt.Sprintf("config: bug: the schema does not marshal: %v", err))
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		panic(fmt.Sprintf("config: bug: the schema is not JSON: %v", err))
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// defaultValues holds the default of each single value and list, by field path.
func defaultValues() map[string]any {
	plain, err := defaults().Plain()
	if err != nil {
		panic(err.Error())
	}
	values := map[string]any{}
	flatten(plain, "", values)
	return values
}

func flatten(m map[string]any, path string, into map[string]any) {
	for key, v := range m {
		at := fieldKey(path, key)
		if inner, ok := v.(map[string]any); ok && len(inner) > 0 {
			flatten(inner, at, into)
			continue
		}
		into[at] = v
	}
}

// A generator turns the struct types of a Config into a schema.
type generator struct {
	texts    map[string]string
	defaults map[string]any
}

// texts describe the purpose of each key, by its path.
func texts() map[string]string {
	list := map[string]string{}
	for _, r := range rows() {
		list[r.key] = r.text
	}
	walkKeys(reflect.TypeFor[Config](), "", func(path string, k key) {
		if _, inner, ok := strings.Cut(path, ".limits."); ok && list[path] == "" {
			list[path] = list["sandbox.limits."+inner]
		}
	})
	return list
}

func (g generator) structure(t reflect.Type, path string) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: never(),
	}
	for _, k := range keysOf(t) {
		at := strings.TrimPrefix(path+"."+k.key, ".")
		inner := g.typ(k.typ, at)
		inner.Description = g.texts[at]
		if v, ok := g.defaults[at]; ok {
			inner.Default = must.JSON(v)
		}
		s.Properties[k.key] = inner
		s.PropertyOrder = append(s.PropertyOrder, k.key)
		if k.need != "" {
			s.Required = append(s.Required, k.key)
		}
	}
	return s
}

// never is the schema that nothing satisfies.
func never() *jsonschema.Schema { return &jsonschema.Schema{Not: &jsonschema.Schema{}} }

func (g generator) typ(t reflect.Type, path string) *jsonschema.Schema {
	switch t {
	case durationType:
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, Examples: []any{"90s", "2m"}}
	case sizeType:
		return &jsonschema.Schema{
			Types: []string{"string", "integer"}, Pattern: `^[0-9]+ ?(B|[KMGT]iB|[KMGT]B?|kB)?$`,
			Minimum: new(1.0), Examples: []any{"512MiB", "4GiB"},
		}
	case reflect.TypeFor[hostrule.Rule]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[Network]():
		return networkSchema()
	case reflect.TypeFor[ShellDefault]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{wordsSchema([]string{confinedWord}), g.structure(t, path)}}
	}
	if e, ok := reflect.Zero(t).Interface().(enum); ok {
		return wordsSchema(e.Values())
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.typ(t.Elem(), path)
	case reflect.Struct:
		return g.structure(t, path)
	case reflect.Slice:
		return g.list(t.Elem(), path)
	case reflect.Map:
		return g.mapping(t.Elem(), path)
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	}
	return &jsonschema.Schema{Type: "integer", Minimum: new(1.0)}
}

func wordsSchema(words []string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

func networkSchema() *jsonschema.Schema {
	list := generator{}.structure(reflect.TypeFor[networkList](), "")
	list.Properties["allow"].Description = `Hosts: "example.org", "example.org:443", "*.example.org" or an address.`
	list.Properties["ask"].Description = "Ask the operator about hosts that are not listed."
	list.Properties["services"].Description = "Services of this machine that sandboxes can use by name, each \"127.0.0.1:PORT\", \"[::1]:PORT\" or \"unix:/PATH\". " +
		"Programs connect to NAME:PORT through the proxy; a Unix socket is at port 80."
	list.Properties["services"].PropertyNames = &jsonschema.Schema{Pattern: serviceName().String()}
	list.Properties["expose"] = exposeSchema()
	list.AnyOf = []*jsonschema.Schema{{Required: []string{"allow"}}, {
		Required: []string{"expose"},
		Not:      &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Required: []string{"ask"}}, {Required: []string{"services"}}}},
	}}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		wordsSchema([]string{string(NetworkNone), string(NetworkHost)}), list,
	}}
}

func exposeSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "array",
		Description: "TCP ports in the sandbox to which other programs of this user can connect on this machine's loopback: 8080, or \"HOST:INSIDE\". " +
			"HOST 0 is any free port, reported in the result. Without allow, the sandbox cannot connect to anything.",
		Items: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: new(1.0), Maximum: new(65535.0)},
			{Type: "string", Pattern: `^(([0-9]{1,5}:)?[1-9][0-9]{0,4})$`},
		}},
	}
}

func (g generator) list(elem reflect.Type, path string) *jsonschema.Schema {
	if nameField(elem) == nil {
		return &jsonschema.Schema{Type: "array", Items: g.typ(elem, path+"[]")}
	}
	return &jsonschema.Schema{
		Type:                 "object",
		PropertyNames:        &jsonschema.Schema{Pattern: identifier().String()},
		AdditionalProperties: g.typ(elem, path+".*"),
	}
}

func (g generator) mapping(elem reflect.Type, path string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object"}
	if elem.Kind() != reflect.Interface {
		s.AdditionalProperties = g.typ(elem, path+".*")
	}
	return s
}
