package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Schema is a tool's compiled input schema (JSON Schema 2020-12 or draft 7).
// It is safe for concurrent use.
type Schema struct {
	resolved *jsonschema.Resolved
}

// CompileSchema compiles an input schema. It fails if the schema is not valid,
// does not describe an object, refers to another document, or refers to itself
// without ever going deeper into the arguments, which no validation would end.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("tools: parse input schema: %w", err)
	}
	if schema.Type != "object" {
		return nil, errors.New(`tools: input schema: its type must be "object"`)
	}
	if err := checkReferences(raw); err != nil {
		return nil, err
	}
	defaultsAreOptional(&schema)
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, fmt.Errorf("tools: compile input schema: %w", err)
	}
	return &Schema{resolved: resolved}, nil
}

// defaultsAreOptional takes members with a default out of what an object requires. Some
// generators describe arguments as they are after defaults were filled in, and list
// those as required; the program itself fills them in. It only goes where less to
// require is more to accept: not below "not", "if" and "oneOf".
func defaultsAreOptional(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool {
		p := s.Properties[name]
		return p != nil && p.Default != nil
	})
	for _, m := range []map[string]*jsonschema.Schema{s.Properties, s.PatternProperties, s.Defs, s.Definitions, s.DependentSchemas} {
		for _, sub := range m {
			defaultsAreOptional(sub)
		}
	}
	lists := [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.PrefixItems, s.ItemsArray, {s.Items, s.AdditionalItems, s.AdditionalProperties, s.Then, s.Else}}
	for _, list := range lists {
		for _, sub := range list {
			defaultsAreOptional(sub)
		}
	}
}

// Validate checks args against the schema. Its error is an *ArgumentError that names the first
// argument at fault and never repeats a value: values may be long, secret, or meant to deceive
// the reader.
func (s *Schema) Validate(args map[string]any) error {
	plain, err := plainNumbers(args, "")
	if err != nil {
		return err
	}
	object, _ := plain.(map[string]any)
	if object == nil {
		object = map[string]any{} // arguments left out are no arguments
	}
	if err := s.resolved.Validate(object); err != nil {
		return explain(s.resolved.Schema(), object, err)
	}
	return nil
}

// plainNumbers gives v with every json.Number as an int64 or a float64. The
// validator takes a json.Number for a string, and one like 1e999999999 would
// have it compute that number.
func plainNumbers(v any, at string) (any, error) {
	switch v := v.(type) {
	case json.Number:
		return plainNumber(v, at)
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, value := range v {
			plain, err := plainNumbers(value, join(at, name))
			if err != nil {
				return nil, err
			}
			object[name] = plain
		}
		return object, nil
	case []any:
		array := make([]any, len(v))
		for i, value := range v {
			plain, err := plainNumbers(value, join(at, strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			array[i] = plain
		}
		return array, nil
	}
	return v, nil
}

func plainNumber(n json.Number, at string) (any, error) {
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, &ArgumentError{Field: at, Reason: "number is out of range"}
	}
	return f, nil
}

// explain turns the validator's error into one that names the argument. The
// validator has decided; this only finds words, and falls back to naming the
// keyword where the schema uses more than the common ones.
func explain(schema *jsonschema.Schema, args map[string]any, err error) error {
	if fault := faultIn(schema, args, ""); fault != nil {
		return fault
	}
	return &ArgumentError{Reason: "they do not satisfy the input schema" + failedKeyword(err)}
}

// failedKeyword finds where in the schema the validator stopped. Its message is
// a chain "validating PLACE: validating PLACE: KEYWORD: text with values".
func failedKeyword(err error) string {
	m := regexp.MustCompile(`^(?:validating ([^:]{1,200}): )+(?:([a-zA-Z]+)(?:\[[^]]*\])?: )?`).FindStringSubmatch(err.Error())
	switch {
	case m == nil:
		return ""
	case m[2] == "":
		return " at " + strconv.Quote(m[1])
	}
	return fmt.Sprintf(" at %q (%s)", m[1], m[2])
}

// faultIn finds the first violation of a common keyword, in a fixed order.
func faultIn(schema *jsonschema.Schema, v any, at string) *ArgumentError {
	if schema == nil {
		return nil
	}
	if fault := typeFault(schema, v, at); fault != nil {
		return fault
	}
	switch v := v.(type) {
	case map[string]any:
		return objectFault(schema, v, at)
	case []any:
		return arrayFault(schema, v, at)
	case string:
		return stringFault(schema, v, at)
	case nil, bool:
		return enumFault(schema, v, at)
	}
	return numberFault(schema, v, at)
}

func typeFault(schema *jsonschema.Schema, v any, at string) *ArgumentError {
	want := schema.Types
	if schema.Type != "" {
		want = []string{schema.Type}
	}
	got := typeOf(v)
	if len(want) == 0 || slices.Contains(want, got) || got == "integer" && slices.Contains(want, "number") {
		return nil
	}
	return &ArgumentError{Field: at, Reason: fmt.Sprintf("expected %s, got %s", strings.Join(want, " or "), got)}
}

// typeOf names the JSON type of v; a number without a fraction is an integer.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v == math.Trunc(v) {
			return "integer"
		}
		return "number"
	case int, int64:
		return "integer"
	}
	return fmt.Sprintf("%T", v)
}

func objectFault(schema *jsonschema.Schema, object map[string]any, at string) *ArgumentError {
	names := slices.Sorted(maps.Keys(object))
	if additionalForbidden(schema) {
		for _, name := range names {
			if _, known := schema.Properties[name]; !known {
				return unknownFault(schema, name, at)
			}
		}
	}
	for _, name := range schema.Required {
		if _, ok := object[name]; !ok {
			return &ArgumentError{Field: join(at, name), Reason: "missing", Hint: description(schema.Properties[name])}
		}
	}
	for _, name := range names {
		if fault := faultIn(schema.Properties[name], object[name], join(at, name)); fault != nil {
			return fault
		}
	}
	return nil
}

// additionalForbidden reports `additionalProperties: false`, which the library
// reads as {"not": {}}, where no pattern lets other names in.
func additionalForbidden(schema *jsonschema.Schema) bool {
	a := schema.AdditionalProperties
	if a == nil || a.Not == nil || len(schema.PatternProperties) > 0 {
		return false
	}
	not, err := json.Marshal(a.Not)
	return err == nil && (string(not) == "{}" || string(not) == "true")
}

func unknownFault(schema *jsonschema.Schema, name, at string) *ArgumentError {
	known := slices.Sorted(maps.Keys(schema.Properties))
	fault := &ArgumentError{Field: join(at, clip(name)), Reason: "unknown argument"}
	switch meant := Nearest(name, known); {
	case meant != "":
		fault.Hint = fmt.Sprintf("did you mean %q?", meant)
	case len(known) > 0:
		fault.Hint = "known arguments: " + strings.Join(known, ", ")
	default:
		fault.Hint = "no arguments are allowed here"
	}
	return fault
}

func arrayFault(schema *jsonschema.Schema, array []any, at string) *ArgumentError {
	if schema.MinItems != nil && len(array) < *schema.MinItems {
		return &ArgumentError{Field: at, Reason: fmt.Sprintf("has %d items, needs at least %d", len(array), *schema.MinItems)}
	}
	if schema.MaxItems != nil && len(array) > *schema.MaxItems {
		return &ArgumentError{Field: at, Reason: fmt.Sprintf("has %d items, at most %d allowed", len(array), *schema.MaxItems)}
	}
	if schema.PrefixItems != nil {
		return nil // Items then speaks of the rest only; the validator's words must do
	}
	for i, item := range array {
		if fault := faultIn(schema.Items, item, join(at, strconv.Itoa(i))); fault != nil {
			return fault
		}
	}
	return nil
}

func stringFault(schema *jsonschema.Schema, s, at string) *ArgumentError {
	if fault := enumFault(schema, s, at); fault != nil {
		return fault
	}
	n := len([]rune(s))
	switch {
	case schema.MinLength != nil && n < *schema.MinLength && n == 0:
		return &ArgumentError{Field: at, Reason: "is empty"}
	case schema.MinLength != nil && n < *schema.MinLength:
		return &ArgumentError{Field: at, Reason: fmt.Sprintf("has %d characters, needs at least %d", n, *schema.MinLength)}
	case schema.MaxLength != nil && n > *schema.MaxLength:
		return &ArgumentError{Field: at, Reason: fmt.Sprintf("has %d characters, at most %d allowed", n, *schema.MaxLength)}
	case schema.Pattern != "":
		if ok, err := regexp.MatchString(schema.Pattern, s); err == nil && !ok {
			return &ArgumentError{Field: at, Reason: fmt.Sprintf("does not match %q", schema.Pattern)}
		}
	}
	return nil
}

func numberFault(schema *jsonschema.Schema, v any, at string) *ArgumentError {
	if fault := enumFault(schema, v, at); fault != nil {
		return fault
	}
	n, ok := number(v)
	switch {
	case !ok:
		return nil
	case schema.Minimum != nil && n < *schema.Minimum:
		return &ArgumentError{Field: at, Reason: fmt.Sprintf("is %s, must be at least %s", decimal(n), decimal(*schema.Minimum))}
	case schema.Maximum != nil && n > *schema.Maximum:
		return &ArgumentError{Field: at, Reason: fmt.Sprintf("is %s, must be at most %s", decimal(n), decimal(*schema.Maximum))}
	}
	return nil
}

// decimal writes a bound as a person would: 8388608, not 8.388608e+06.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func enumFault(schema *jsonschema.Schema, v any, at string) *ArgumentError {
	if schema.Enum == nil || slices.ContainsFunc(schema.Enum, func(e any) bool { return sameScalar(e, v) }) {
		return nil
	}
	words, err := json.Marshal(schema.Enum)
	if err != nil {
		return &ArgumentError{Field: at, Reason: "is not an allowed value"}
	}
	return &ArgumentError{Field: at, Reason: "is not one of " + string(words)}
}

// sameScalar compares two JSON scalars, numbers by value.
func sameScalar(a, b any) bool {
	x, xok := number(a)
	y, yok := number(b)
	if xok || yok {
		return xok && yok && x == y
	}
	switch a.(type) {
	case nil, bool, string:
		return a == b
	}
	return false
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case int:
		return float64(v), true
	}
	return 0, false
}

// join appends a name to a JSON pointer (RFC 6901).
func join(at, name string) string {
	if at == "" {
		return escapePointer(name)
	}
	return at + "/" + escapePointer(name)
}

func description(schema *jsonschema.Schema) string {
	if schema == nil {
		return ""
	}
	return schema.Description
}

// clip bounds a name that an agent chose.
func clip(name string) string {
	const limit = 64
	if len(name) <= limit {
		return name
	}
	return strings.ToValidUTF8(name[:limit], "") + "..."
}
