package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/units"
	"go.yaml.in/yaml/v3"
)

// A decoder fills a Config from YAML nodes and collects problems instead of
// stopping at the first.
type decoder struct {
	file     string
	problems []Problem
	origins  map[string]Position
	// bad holds the fields with a problem, and those that a misspelt key was
	// probably meant to be: no further problems of their values are reported.
	bad map[string]bool
}

func newDecoder(file string) *decoder {
	return &decoder{file: file, origins: map[string]Position{}, bad: map[string]bool{}}
}

// A nodeDecoder reads itself; the others are read by their Go type.
type nodeDecoder interface {
	decodeNode(d *decoder, n *yaml.Node, field string)
}

// A defaulter is an element of a list or map that has defaults of its own.
type defaulter interface{ setDefaults() }

// An enum is a string type with a closed set of words.
type enum interface{ Values() []string }

var (
	durationType = reflect.TypeFor[time.Duration]()
	sizeType     = reflect.TypeFor[units.Size]()
)

func (d *decoder) position(n *yaml.Node) Position { return Position{d.file, n.Line, n.Column} }

func (d *decoder) problem(n *yaml.Node, field, text, hint string) {
	d.problems = append(d.problems, Problem{d.position(n), field, text, hint})
	d.bad[field] = true
}

// root reads a whole document; nil is an empty one.
func (d *decoder) root(doc *yaml.Node, c *Config) {
	c.Origins = d.origins
	if doc != nil {
		d.value(doc, reflect.ValueOf(c).Elem(), "")
		delete(d.origins, "")
	}
}

// value reads n into v, which is addressable.
func (d *decoder) value(n *yaml.Node, v reflect.Value, field string) {
	if !d.plain(n, field) {
		return
	}
	if _, ok := d.origins[field]; !ok {
		d.origins[field] = d.position(n)
	}
	if c, ok := v.Addr().Interface().(nodeDecoder); ok {
		c.decodeNode(d, n, field)
		return
	}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.unmarshal(n, t, field)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), field)
	case reflect.Struct:
		d.structure(n, v, field)
	case reflect.Slice:
		d.slice(n, v, field)
	case reflect.Map:
		d.mapping(n, v, field)
	default:
		d.scalar(n, v, field)
	}
}

// plain refuses what makes a file mean something else than it shows: aliases
// (which can also grow without bound), anchors, tags; and empty values.
func (d *decoder) plain(n *yaml.Node, field string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.problem(n, field, "aliases are not allowed", "write the value out")
	case n.Anchor != "":
		d.problem(n, field, "anchors are not allowed", "write the value where it is used")
	case n.Style&yaml.TaggedStyle != 0:
		d.problem(n, field, "tags are not allowed", "remove "+quote(n.Tag))
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		d.problem(n, field, "the value is empty", "remove the key, or give it a value")
	default:
		return true
	}
	return false
}

// describe names what n is, for "expected ..., got ...".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	word := map[string]string{
		"!!str": "the text", "!!bool": "the boolean", "!!int": "the number",
		"!!float": "the number", "!!timestamp": "the date",
	}[n.ShortTag()]
	return strings.TrimSpace(word + " " + quote(n.Value))
}

// wrongType reports n, which is not what field takes.
func (d *decoder) wrongType(n *yaml.Node, field, want, hint string) {
	d.problem(n, field, "expected "+want+", got "+describe(n), hint)
}

// An entry is one key of a mapping.
type entry struct {
	key   *yaml.Node
	value *yaml.Node
	field string
}

// entries lists the keys of a mapping, without those that are not plain text or
// that repeat an earlier one.
func (d *decoder) entries(n *yaml.Node, field, want string) []entry {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, field, want, "")
		return nil
	}
	var list []entry
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		e := entry{n.Content[i], n.Content[i+1], ""}
		if !d.plainKey(e.key, field) {
			continue
		}
		e.field = fieldKey(field, e.key.Value)
		if first := seen[e.key.Value]; first != nil {
			d.problem(e.key, e.field, fmt.Sprintf("duplicate key %s, first on line %d",
				quote(e.key.Value), first.Line), "remove one of the two")
			continue
		}
		seen[e.key.Value] = e.key
		if e.value.Kind != yaml.ScalarNode && e.value.Style&yaml.FlowStyle == 0 {
			d.origins[e.field] = d.position(e.key)
		}
		list = append(list, e)
	}
	return list
}

func (d *decoder) plainKey(key *yaml.Node, field string) bool {
	if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
		d.problem(key, field, "merge keys are not allowed", "write the values out")
		return false
	}
	if !d.plain(key, field) {
		return false
	}
	if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
		d.wrongType(key, field, "a key", quoteHint(key))
		return false
	}
	return true
}

// structure reads a mapping with a fixed set of keys.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, field string) {
	known := keysOf(v.Type())
	present := map[string]bool{}
	for _, e := range d.entries(n, field, "a mapping") {
		f, ok := known.find(e.key.Value)
		if !ok {
			present[d.unknownKey(e, v.Type(), field)] = true
			continue
		}
		present[f.key] = true
		d.value(e.value, v.FieldByIndex(f.index), e.field)
		if f.positive && !d.bad[e.field] && reflect.Indirect(v.FieldByIndex(f.index)).Int() <= 0 {
			d.problem(e.value, e.field, "the limit must be greater than zero", "remove the key for the default")
		}
	}
	for _, f := range known {
		if f.need != "" && !present[f.key] && n.Kind == yaml.MappingNode {
			d.problem(n, fieldKey(field, f.key), "missing", f.absent())
		}
	}
}

// absent says what to do about a missing key.
func (k key) absent() string {
	if k.need == anyWord {
		return "write `" + k.key + ": any` to leave it alone"
	}
	return "add `" + k.key + ":`"
}

// unknownKey reports a key, and returns the one that was probably meant.
func (d *decoder) unknownKey(e entry, t reflect.Type, field string) string {
	names := keysOf(t).names()
	meant := suggest(e.key.Value, names)
	hint := didYouMean(e.key.Value, names)
	if homes := homesOf(e.key.Value); len(homes) > 0 && (meant == "" || editDistance(e.key.Value, meant) > 1) {
		hint = "it belongs in " + strings.Join(homes, " or ")
	}
	d.problem(e.key, e.field, "unknown key "+quote(e.key.Value), hint)
	d.bad[fieldKey(field, meant)] = true
	return meant
}

// slice reads a list, or a mapping from names to structures that keeps its order.
func (d *decoder) slice(n *yaml.Node, v reflect.Value, field string) {
	if nameField(v.Type().Elem()) != nil {
		d.named(n, v, field)
		return
	}
	if n.Kind != yaml.SequenceNode {
		hint := ""
		if n.Kind == yaml.ScalarNode {
			hint = "write it in brackets: [" + n.Value + "]"
		}
		d.wrongType(n, field, "a list", hint)
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, len(n.Content)))
	for i, item := range n.Content {
		v.Set(reflect.Append(v, d.element(item, d.position(item), v.Type().Elem(), fieldIndex(field, i))))
	}
}

func (d *decoder) named(n *yaml.Node, v reflect.Value, field string) {
	list := d.entries(n, field, "a mapping from names")
	v.Set(reflect.MakeSlice(v.Type(), 0, len(list)))
	for _, e := range list {
		item := d.element(e.value, d.position(e.key), v.Type().Elem(), e.field)
		item.FieldByIndex(nameField(v.Type().Elem()).Index).SetString(e.key.Value)
		v.Set(reflect.Append(v, item))
	}
}

// element makes a value of type t, with its defaults, and reads n into it.
func (d *decoder) element(n *yaml.Node, pos Position, t reflect.Type, field string) reflect.Value {
	v := reflect.New(t)
	if def, ok := v.Interface().(defaulter); ok {
		def.setDefaults()
	}
	if f := roleField(t, "position"); f != nil {
		v.Elem().FieldByIndex(f.Index).Set(reflect.ValueOf(pos))
	}
	d.value(n, v.Elem(), field)
	return v.Elem()
}

// mapping reads a mapping with free keys.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, field string) {
	if v.Type() == reflect.TypeFor[map[string]any]() {
		if n.Kind != yaml.MappingNode {
			d.wrongType(n, field, "a mapping", "")
			return
		}
		v.Set(reflect.ValueOf(d.free(n, field)))
		return
	}
	list := d.entries(n, field, "a mapping")
	v.Set(reflect.MakeMapWithSize(v.Type(), len(list)))
	for _, e := range list {
		item := d.element(e.value, d.position(e.value), v.Type().Elem(), e.field)
		v.SetMapIndex(reflect.ValueOf(e.key.Value), item)
	}
}

// free reads a value of any shape, as JSON would hold it.
func (d *decoder) free(n *yaml.Node, field string) any {
	if isScalar(n, "!!null") || !d.plain(n, field) {
		return nil
	}
	if _, ok := d.origins[field]; !ok {
		d.origins[field] = d.position(n)
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for _, e := range d.entries(n, field, "a mapping") {
			m[e.key.Value] = d.free(e.value, e.field)
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			list = append(list, d.free(item, fieldIndex(field, i)))
		}
		return list
	}
	return d.freeScalar(n, field)
}

func (d *decoder) freeScalar(n *yaml.Node, field string) any {
	var v any
	switch n.ShortTag() {
	case "!!str":
		return n.Value
	case "!!bool", "!!int", "!!float":
		if err := n.Decode(&v); err == nil && jsonNumber(v) {
			return v
		}
	}
	d.problem(n, field, "expected a JSON value, got "+describe(n), quoteHint(n))
	return nil
}

// A key describes one field of a struct as the file format sees it.
type key struct {
	key      string
	index    []int
	typ      reflect.Type
	need     string // "required", "any" where that word leaves it alone, or ""
	positive bool   // a number, a size or a duration of which zero is none
}

type keys []key

// keysOf lists the keys of a struct type in its order.
func keysOf(t reflect.Type) keys {
	var list keys
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" && name != "-" {
			number := f.Type.Kind() == reflect.Int64 || f.Type == reflect.PointerTo(durationType)
			list = append(list, key{name, f.Index, f.Type, f.Tag.Get("need"), number && f.Tag.Get("zero") == ""})
		}
	}
	return list
}

func (ks keys) find(name string) (key, bool) {
	i := slices.IndexFunc(ks, func(k key) bool { return k.key == name })
	if i < 0 {
		return key{}, false
	}
	return ks[i], true
}

func (ks keys) names() []string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = k.key
	}
	return names
}

func roleField(t reflect.Type, role string) *reflect.StructField {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("role") == role {
			return &f
		}
	}
	return nil
}

func nameField(t reflect.Type) *reflect.StructField { return roleField(t, "name") }

// homesOf lists the sections that have a key of this name, the general ones first.
func homesOf(name string) []string {
	homes := map[string]bool{}
	walkKeys(reflect.TypeFor[Config](), "", func(path string, _ key) {
		if rest, ok := strings.CutSuffix(path, "."+name); ok {
			homes[rest] = true
		}
	})
	return slices.SortedFunc(maps.Keys(homes), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}

// walkKeys calls f for every key of the file format. In paths, "*" stands for a
// name and "[]" for an index: "sandbox.paths.*.root", "shell.rules[].pattern".
func walkKeys(t reflect.Type, path string, f func(path string, k key)) {
	for _, k := range keysOf(t) {
		at := k.key
		if path != "" {
			at = path + "." + k.key
		}
		f(at, k)
		switch inner := k.typ; {
		case inner.Kind() == reflect.Slice && nameField(inner.Elem()) != nil:
			walkKeys(inner.Elem(), at+".*", f)
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() == reflect.Struct:
			walkKeys(inner.Elem(), at+"[]", f)
		case inner.Kind() == reflect.Pointer && inner.Elem().Kind() == reflect.Struct:
			walkKeys(inner.Elem(), at, f)
		case inner.Kind() == reflect.Struct:
			walkKeys(inner, at, f)
		}
	}
}
