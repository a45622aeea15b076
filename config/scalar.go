package config

import (
	"encoding"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/units"
	"go.yaml.in/yaml/v3"
)

// scalar reads a single value by the Go type of v.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, field string) {
	switch {
	case v.Type() == durationType:
		d.duration(n, v, field)
	case v.Type() == sizeType:
		d.size(n, v, field)
	case v.Kind() == reflect.Bool:
		d.boolean(n, v, field)
	case v.Kind() == reflect.String:
		d.text(n, v, field)
	default:
		d.integer(n, v, field)
	}
}

func isScalar(n *yaml.Node, tags ...string) bool {
	return n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag())
}

// quoteHint tells how to write n so that it is text: a program called `true`, a
// version 1.10.
func quoteHint(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return "put it in quotes: " + quote(n.Value)
}

func (d *decoder) text(n *yaml.Node, v reflect.Value, field string) {
	words := []string(nil)
	if e, ok := v.Interface().(enum); ok {
		words = e.Values()
	}
	switch {
	case words != nil && n.Kind == yaml.ScalarNode && !slices.Contains(words, n.Value):
		d.problem(n, field, quote(n.Value)+" is not allowed here", didYouMean(n.Value, words))
	case words != nil && n.Kind != yaml.ScalarNode:
		d.wrongType(n, field, "one of "+strings.Join(words, ", "), "")
	case !isScalar(n, "!!str"):
		d.wrongType(n, field, "text", quoteHint(n))
	default:
		v.SetString(n.Value)
	}
}

// unmarshal reads a value that reads itself from text.
func (d *decoder) unmarshal(n *yaml.Node, t encoding.TextUnmarshaler, field string) {
	if !isScalar(n, "!!str") {
		d.wrongType(n, field, "text", quoteHint(n))
	} else if err := t.UnmarshalText([]byte(n.Value)); err != nil {
		text := err.Error()
		if !strings.HasPrefix(text, quote(n.Value)) {
			text = quote(n.Value) + ": " + text
		}
		d.problem(n, field, text, "")
	}
}

// boolWords were booleans in YAML 1.1 and are not in YAML 1.2: two loaders
// would read them differently, so they are refused with a hint.
func boolWord(word string) string {
	switch strings.ToLower(word) {
	case "yes", "y", "on", "true":
		return "true"
	case "no", "n", "off", "false":
		return "false"
	}
	return ""
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, field string) {
	if isScalar(n, "!!bool") && (n.Value == "true" || n.Value == "false") {
		v.SetBool(n.Value == "true")
		return
	}
	hint := "write true or false"
	if word := boolWord(n.Value); n.Kind == yaml.ScalarNode && word != "" {
		hint = "write " + word + ", without quotes"
	} else if n.Kind == yaml.ScalarNode {
		if s := suggest(n.Value, []string{"true", "false"}); s != "" {
			hint = "did you mean " + s + "?"
		}
	}
	d.wrongType(n, field, "true or false", hint)
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, field string) {
	var i int64
	if isScalar(n, "!!float") && strings.Trim(n.Value, "0123456789") == "" {
		d.problem(n, field, quote(n.Value)+" is too large", "")
		return
	}
	if !isScalar(n, "!!int") {
		hint := ""
		if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
			hint = "remove the quotes"
		}
		d.wrongType(n, field, "a whole number", hint)
		return
	}
	if err := n.Decode(&i); err != nil {
		d.problem(n, field, quote(n.Value)+" is too large", "")
		return
	}
	v.SetInt(i)
}

func (d *decoder) duration(n *yaml.Node, v reflect.Value, field string) {
	if !isScalar(n, "!!str", "!!int", "!!float") {
		d.wrongType(n, field, "a duration", "write a number and a unit, such as 90s or 2m")
		return
	}
	t, err := units.ParseDuration(n.Value)
	if err != nil {
		d.problem(n, field, err.Error(), "")
		return
	}
	v.SetInt(int64(t))
}

func (d *decoder) size(n *yaml.Node, v reflect.Value, field string) {
	if !isScalar(n, "!!str", "!!int", "!!float") {
		d.wrongType(n, field, "a size", "write a number and a unit, such as 512MiB")
		return
	}
	s, err := units.ParseSize(n.Value)
	if err != nil {
		d.problem(n, field, err.Error(), "")
		return
	}
	v.SetInt(int64(s))
}

// jsonNumber is false for what YAML can hold as a number and JSON cannot.
func jsonNumber(v any) bool {
	f, ok := v.(float64)
	return !ok || !math.IsNaN(f) && !math.IsInf(f, 0)
}
