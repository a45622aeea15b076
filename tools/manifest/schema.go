package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// A role says what the value of a schema keyword holds.
type role uint8

const (
	plainValue    role = iota + 1
	oneSchema          // a schema
	schemaList         // an array of schemas
	schemaMap          // schemas by name
	propertyNames      // names of properties
)

// keywords are those of JSON Schema 2020-12 that are kept when arguments are
// validated, and the annotations that a model reads. Any other would be ignored in
// silence: a constraint without effect.
func keywords() map[string]role {
	return map[string]role{
		"$schema": plainValue, "$id": plainValue, "$ref": plainValue, "$anchor": plainValue, "$comment": plainValue, "$defs": schemaMap,
		"title": plainValue, "description": plainValue, "default": plainValue, "examples": plainValue,
		"deprecated": plainValue, "readOnly": plainValue, "writeOnly": plainValue, "format": plainValue,
		"type": plainValue, "enum": plainValue, "const": plainValue,
		"multipleOf": plainValue, "minimum": plainValue, "maximum": plainValue, "exclusiveMinimum": plainValue, "exclusiveMaximum": plainValue,
		"minLength": plainValue, "maxLength": plainValue, "pattern": plainValue,
		"minItems": plainValue, "maxItems": plainValue, "uniqueItems": plainValue, "minContains": plainValue, "maxContains": plainValue,
		"prefixItems": schemaList, "items": oneSchema, "contains": oneSchema, "unevaluatedItems": oneSchema,
		"minProperties": plainValue, "maxProperties": plainValue, "required": propertyNames, "dependentRequired": plainValue,
		"properties": schemaMap, "patternProperties": schemaMap, "additionalProperties": oneSchema,
		"propertyNames": oneSchema, "dependentSchemas": schemaMap, "unevaluatedProperties": oneSchema,
		"allOf": schemaList, "anyOf": schemaList, "oneOf": schemaList, "not": oneSchema, "if": oneSchema, "then": oneSchema, "else": oneSchema,
	}
}

// schema checks the input schema: that it is one, that each keyword in it is
// kept, and that something can satisfy it.
func (c *checker) schema() {
	const field = "input_schema"
	if t, ok := c.spec.InputSchema["type"]; ok && t != "object" {
		c.fault(field+".type", "the schema of a tool's arguments must be an object", "write type: object")
		return
	}
	before := len(c.faults)
	c.subschema(field, c.spec.InputSchema, 0)
	if len(c.faults) > before {
		return
	}
	raw, err := c.spec.schema()
	if err == nil {
		_, err = tools.CompileSchema(raw)
	}
	if err != nil {
		c.fault(field, "not a JSON Schema: "+strings.TrimPrefix(err.Error(), "tools: "), "")
		return
	}
	c.examples()
}

// maxSchemaDepth bounds the nesting of a schema.
const maxSchemaDepth = 64

func (c *checker) subschema(field string, schema map[string]any, depth int) {
	if depth > maxSchemaDepth {
		c.fault(field, "the schema is too deep", "")
		return
	}
	known := keywords()
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		at, value := field+"."+name, schema[name]
		switch known[name] {
		case plainValue, propertyNames:
		case oneSchema:
			c.child(at, value, depth)
		case schemaList:
			list, _ := value.([]any)
			for i, v := range list {
				c.child(index(at, i), v, depth)
			}
		case schemaMap:
			named, _ := value.(map[string]any)
			for _, k := range slices.Sorted(maps.Keys(named)) {
				c.child(at+"."+k, named[k], depth)
			}
		default:
			c.unknownKeyword(at, name)
		}
	}
	c.format(field, schema, depth)
	c.contradictions(field, schema)
}

func (c *checker) child(field string, v any, depth int) {
	if schema, ok := v.(map[string]any); ok {
		c.subschema(field, schema, depth+1)
	}
}

func (c *checker) unknownKeyword(field, name string) {
	hint := "remove it: nothing would check it"
	if meant := tools.Nearest(name, slices.Sorted(maps.Keys(keywords()))); meant != "" {
		hint = fmt.Sprintf("did you mean %q?", meant)
	}
	c.fault(field, fmt.Sprintf("%q is not a supported keyword of JSON Schema 2020-12", name), hint)
}

// format admits the two formats that mean something here, where they are looked for.
func (c *checker) format(field string, schema map[string]any, depth int) {
	format, given := schema["format"]
	if !given {
		return
	}
	_, isPath := pathFormat(schema)
	rest, argument := strings.CutPrefix(field, "input_schema.properties.")
	top := argument && depth == 1
	items, array := strings.CutSuffix(rest, ".items")
	item := argument && depth == 2 && array && c.spec.property(items)["items"] != nil // and not a member of that name
	switch {
	case !isPath:
		c.fault(field+".format", fmt.Sprintf("the format %v is not supported", format), "use path, writable-path, or a pattern")
	case !top && !item:
		c.fault(field+".format", "a path format is supported only for arguments and items of an array", "make it a separate argument")
	case !slices.Equal(typesOf(schema), []string{"string"}):
		c.fault(field+".format", "a path must be a string", "write type: string")
	}
}

// contradictions finds what no value satisfies.
func (c *checker) contradictions(field string, schema map[string]any) {
	never := func(key, text string) { c.fault(field+"."+key, "no value can satisfy this: "+text, "") }
	for _, pair := range [][2]string{
		{"minimum", "maximum"}, {"exclusiveMinimum", "maximum"}, {"minimum", "exclusiveMaximum"}, {"minLength", "maxLength"},
		{"minItems", "maxItems"}, {"minProperties", "maxProperties"}, {"minContains", "maxContains"},
	} {
		low, haveLow := float(schema[pair[0]])
		high, haveHigh := float(schema[pair[1]])
		exclusive := strings.HasPrefix(pair[0], "exclusive") || strings.HasPrefix(pair[1], "exclusive")
		if haveLow && haveHigh && (low > high || exclusive && low == high) {
			never(pair[0], fmt.Sprintf("%s is %v and %s is %v", pair[0], schema[pair[0]], pair[1], schema[pair[1]]))
		}
	}
	c.types(field, schema)
	c.enum(field, schema)
	closed := schema["additionalProperties"] == false || field == "input_schema" && schema["additionalProperties"] == nil && !c.spec.extends()
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	for i, v := range required {
		name, _ := v.(string)
		if _, ok := properties[name]; !ok && closed && schema["patternProperties"] == nil {
			hint := "add it to properties"
			if meant := tools.Nearest(name, slices.Sorted(maps.Keys(properties))); meant != "" {
				hint = fmt.Sprintf("did you mean %q?", meant)
			}
			c.fault(index(field+".required", i), fmt.Sprintf("no value can satisfy this: %q is required, and that property is not allowed", name), hint)
		}
	}
}

// types checks the names of types, which the validator takes as they come.
func (c *checker) types(field string, schema map[string]any) {
	known := []string{"string", "integer", "number", "boolean", "array", "object", "null"}
	for _, name := range typesOf(schema) {
		if slices.Contains(known, name) {
			continue
		}
		hint := "use one of " + strings.Join(known, ", ")
		if meant := tools.Nearest(name, known); meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		c.fault(field+".type", fmt.Sprintf("no value can satisfy this: %q is not a type", name), hint)
	}
}

// enum checks that some listed value has the type that is asked for.
func (c *checker) enum(field string, schema map[string]any) {
	list, given := schema["enum"].([]any)
	if !given {
		return
	}
	if len(list) == 0 {
		c.fault(field+".enum", "no value can satisfy this: the list is empty", "")
	}
	for i, v := range list {
		if !matchesType(schema, v) {
			c.fault(index(field+".enum", i), fmt.Sprintf("the value is not of type %v", schema["type"]), "quote it, or change the type")
		}
	}
}

// matchesType asks the validator, so that there is one opinion on types.
func matchesType(schema map[string]any, v any) bool {
	if schema["type"] == nil {
		return true
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"v": map[string]any{"type": schema["type"]}}})
	if err != nil {
		return true
	}
	compiled, err := tools.CompileSchema(raw)
	return err != nil || compiled.Validate(map[string]any{"v": v}) == nil
}

// examples checks each example of an argument against its schema: a model
// follows them.
func (c *checker) examples() {
	properties, _ := c.spec.InputSchema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		list, _ := c.spec.property(name)["examples"].([]any)
		for i, v := range list {
			raw, err := json.Marshal(map[string]any{"type": "object", "$defs": c.spec.InputSchema["$defs"], "properties": map[string]any{name: properties[name]}})
			if err != nil {
				continue // not reached: the whole schema was marshalled before
			}
			compiled, err := tools.CompileSchema(raw)
			if err == nil {
				err = compiled.Validate(map[string]any{name: v})
			}
			if err != nil {
				c.fault(index("input_schema.properties."+name+".examples", i), "the example is not valid: "+err.Error(), "")
			}
		}
	}
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
