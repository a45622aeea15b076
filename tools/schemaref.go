package tools

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// maxSchemaSteps bounds how many subschemas one value may be held against. A
// schema can come from a tool server: one that refers to itself in place would
// exhaust the stack, and a chain of doubling references all time.
const maxSchemaSteps = 10_000

// checkReferences refuses a schema whose validation of a single value would not
// end, or not soon.
func checkReferences(raw json.RawMessage) error {
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return fmt.Errorf("tools: parse input schema: %w", err)
	}
	g := references{root: root, steps: map[string]int{}}
	return g.walk(root, "")
}

// references counts, for each subschema by its JSON pointer, the subschemas that
// its value is held against.
type references struct {
	root  any
	steps map[string]int // 0 while being counted
}

// walk counts every subschema at or below node, wherever it stands.
func (g *references) walk(node any, at string) error {
	switch node := node.(type) {
	case map[string]any:
		if _, err := g.count(node, at); err != nil {
			return err
		}
		for name, child := range node {
			if err := g.walk(child, at+"/"+escapePointer(name)); err != nil {
				return err
			}
		}
	case []any:
		for i, child := range node {
			if err := g.walk(child, at+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *references) count(node any, at string) (int, error) {
	object, ok := node.(map[string]any)
	if !ok {
		return 1, nil
	}
	if n, known := g.steps[at]; known {
		if n == 0 {
			return 0, fmt.Errorf("tools: input schema: %q refers to itself without going deeper", "#"+at)
		}
		return n, nil
	}
	g.steps[at] = 0
	total := 1
	for _, next := range g.inPlace(object, at) {
		n, err := g.count(next.node, next.at)
		if err != nil {
			return 0, err
		}
		if total += n; total > maxSchemaSteps {
			return 0, fmt.Errorf("tools: input schema: %q checks one value against more than %d subschemas", "#"+at, maxSchemaSteps)
		}
	}
	g.steps[at] = total
	return total, nil
}

type subschema struct {
	node any
	at   string
}

// inPlace lists the subschemas that apply to the same value as object does:
// JSON Schema 2020-12, core, section 10.2.
func (g *references) inPlace(object map[string]any, at string) []subschema {
	var list []subschema
	for _, keyword := range []string{"not", "if", "then", "else"} {
		if child, ok := object[keyword]; ok {
			list = append(list, subschema{child, at + "/" + keyword})
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		children, _ := object[keyword].([]any)
		for i, child := range children {
			list = append(list, subschema{child, at + "/" + keyword + "/" + strconv.Itoa(i)})
		}
	}
	for _, keyword := range []string{"dependentSchemas", "dependencies"} {
		children, _ := object[keyword].(map[string]any)
		for name, child := range children {
			list = append(list, subschema{child, at + "/" + keyword + "/" + escapePointer(name)})
		}
	}
	for _, keyword := range []string{"$ref", "$dynamicRef"} {
		if ref, ok := object[keyword].(string); ok {
			list = append(list, g.target(ref))
		}
	}
	return list
}

// target finds what a reference points to. One by name instead of by pointer is
// taken to mean the root, which is the strictest guess: it then counts as
// referring to everything.
func (g *references) target(ref string) subschema {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return subschema{g.root, ""}
	}
	node, at := g.root, ""
	for _, token := range strings.Split(pointer, "/") {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch parent := node.(type) {
		case map[string]any:
			node = parent[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(parent) {
				return subschema{g.root, ""}
			}
			node = parent[i]
		}
		at += "/" + token
	}
	return subschema{node, at}
}

func escapePointer(name string) string { return pointerEscapes.Replace(name) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
