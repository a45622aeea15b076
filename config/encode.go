package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/internal/units"
	"go.yaml.in/yaml/v3"
)

// Marshal is the whole configuration, defaults included, as a file that loads
// as an equal Config.
func (c *Config) Marshal() ([]byte, error) { return c.marshal(nil) }

// Explain is Marshal with a comment behind each value that says where it comes
// from: a position, or "default".
func (c *Config) Explain() ([]byte, error) {
	return c.marshal(func(n *yaml.Node, field string) {
		if len(n.Content) == 0 {
			n.LineComment = "# " + c.Origin(field)
		}
	})
}

// Origin says where a value comes from: "sandgate.yaml:3:5" or "default", and whose
// that file is if it is not the user's.
func (c *Config) Origin(field string) string {
	p, ok := c.Origins[field]
	switch {
	case !ok && c.Set("policy") && c.byPolicy(field):
		return "policy " + string(c.Policy) + ", " + c.Origin("policy")
	case !ok:
		return "default"
	}
	if t := c.TierOf(field); t == TierAdmin || t == TierWorkspace {
		return p.String() + " (" + string(t) + ")"
	}
	return p.String()
}

// TierOf says whose file a value comes from.
func (c *Config) TierOf(field string) Tier {
	p, ok := c.Origins[field]
	if !ok {
		return TierEmbedded
	}
	for _, s := range c.Sources {
		if s.Name == p.File {
			return s.Tier
		}
	}
	return TierEmbedded
}

func (c *Config) marshal(visit func(n *yaml.Node, field string)) ([]byte, error) {
	e := encoder{visit: visit}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(e.value(reflect.ValueOf(c).Elem(), "")); err != nil {
		return nil, fmt.Errorf("config: marshal: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// Plain is the configuration as JSON holds it: maps, slices, strings, numbers
// and booleans, under the keys of the file format.
func (c *Config) Plain() (map[string]any, error) {
	text, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	var v map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("config: bug: a marshalled configuration does not parse: %w", err)
	}
	return v, nil
}

// Fields calls f for each single value and each list, in the file format's
// order, with its path and where it comes from.
func (c *Config) Fields(f func(field, origin string)) {
	e := encoder{visit: func(n *yaml.Node, field string) {
		if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
			f(field, c.Origin(field))
		}
	}}
	e.value(reflect.ValueOf(c).Elem(), "")
}

// An encoder turns Go values into nodes; visit, if not nil, sees each.
type encoder struct {
	visit func(n *yaml.Node, field string)
}

func (e encoder) value(v reflect.Value, field string) *yaml.Node {
	n := e.node(v, field)
	if e.visit != nil && n != nil {
		e.visit(n, field)
	}
	return n
}

// node is nil for what the file format expresses by absence.
func (e encoder) node(v reflect.Value, field string) *yaml.Node {
	switch x := v.Interface().(type) {
	case time.Duration:
		return textNode(units.FormatDuration(x))
	case units.Size:
		return textNode(x.String())
	case hostrule.Rule:
		return textNode(x.String())
	case Port:
		return textNode(x.String())
	case Network:
		return e.network(x, field)
	case ShellDefault:
		if x.Confined {
			return textNode(confinedWord)
		}
	case map[string]any:
		return anyNode(x)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return e.node(v.Elem(), field)
	case reflect.Struct:
		return e.structure(v, field)
	case reflect.Slice:
		return e.slice(v, field)
	case reflect.Map:
		return e.mapping(v, field)
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	case reflect.String:
		return textNode(v.String())
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v.Int(), 10)}
}

func textNode(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if !plainText(s) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// plainText reports whether s can stand without quotes in every YAML loader.
func plainText(s string) bool {
	n := yaml.Node{Kind: yaml.ScalarNode, Value: s}
	return plainKey(s) && n.ShortTag() == "!!str" && boolWord(s) == "" && s[0] != '-'
}

func (e encoder) network(nw Network, field string) *yaml.Node {
	switch {
	case nw.Mode == NetworkAllow:
		return e.structure(reflect.ValueOf(networkList{nw.Allow, nw.Ask, nw.Services, nw.Expose}), field)
	case len(nw.Expose) > 0:
		return e.structure(reflect.ValueOf(exposeOnly{nw.Expose}), field)
	}
	return textNode(string(nw.Mode))
}

// structure leaves out keys that are not required and hold nothing where their
// absence means the same: in elements that have no defaults for them.
func (e encoder) structure(v reflect.Value, field string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	var skip []string
	if r, ok := v.Interface().(Rule); ok {
		skip = r.pointless()
	}
	for _, k := range keysOf(v.Type()) {
		f := v.FieldByIndex(k.index)
		if slices.Contains(skip, k.key) {
			continue
		}
		if f.IsZero() && k.need == "" && absentMeansZero(v.Type(), k) {
			continue
		}
		if inner := e.value(f, fieldKey(field, k.key)); inner != nil {
			n.Content = append(n.Content, textNode(k.key), inner)
		}
	}
	return n
}

// absentMeansZero reports whether leaving a key out reads as its zero value, and
// writing the zero value would not load or would say something else.
func absentMeansZero(t reflect.Type, k key) bool {
	return k.typ.Kind() == reflect.Pointer || t == reflect.TypeFor[Limits]() ||
		t == reflect.TypeFor[Rule]() && k.typ.Kind() != reflect.Bool || partOfTool(t) && k.typ.Kind() != reflect.Bool ||
		k.typ == reflect.TypeFor[map[string]any]()
}

// partOfTool reports whether t holds what a custom tool says: there nil is the
// whole, and an empty list is nothing.
func partOfTool(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[Tool](), reflect.TypeFor[ToolApproval](), reflect.TypeFor[ToolSandbox](), reflect.TypeFor[ToolEnv]():
		return true
	}
	return false
}

func (e encoder) slice(v reflect.Value, field string) *yaml.Node {
	name := nameField(v.Type().Elem())
	if name != nil {
		n := &yaml.Node{Kind: yaml.MappingNode, Style: flowIfEmpty(v.Len())}
		for i := range v.Len() {
			key := v.Index(i).FieldByIndex(name.Index).String()
			n.Content = append(n.Content, textNode(key), e.value(v.Index(i), fieldKey(field, key)))
		}
		return n
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: flowIfEmpty(v.Len())}
	for i := range v.Len() {
		n.Content = append(n.Content, e.value(v.Index(i), fieldIndex(field, i)))
	}
	return n
}

func flowIfEmpty(n int) yaml.Style {
	if n == 0 {
		return yaml.FlowStyle
	}
	return 0
}

func (e encoder) mapping(v reflect.Value, field string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Style: flowIfEmpty(v.Len())}
	names := make([]string, 0, v.Len())
	for _, k := range v.MapKeys() {
		names = append(names, k.String())
	}
	slices.Sort(names)
	for _, name := range names {
		inner := e.value(v.MapIndex(reflect.ValueOf(name)), fieldKey(field, name))
		n.Content = append(n.Content, textNode(name), inner)
	}
	return n
}

// anyNode is the node of a value as decoder.free makes them.
func anyNode(v any) *yaml.Node {
	switch x := v.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: flowIfEmpty(len(x))}
		for _, key := range slices.Sorted(maps.Keys(x)) {
			n.Content = append(n.Content, textNode(key), anyNode(x[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: flowIfEmpty(len(x))}
		for _, item := range x {
			n.Content = append(n.Content, anyNode(item))
		}
		return n
	case string:
		return textNode(x)
	}
	n := &yaml.Node{}
	if err := n.Encode(v); err != nil { // only numbers, booleans and nil are left
		panic(fmt.Sprintf("config: bug: %T does not encode: %v", v, err))
	}
	return n
}
