package tools

import (
	"encoding/json"
	"math"
)

// String is the argument name, or "" if it is absent. The input schema has
// already checked its type.
func (c Call) String(name string) string {
	s, _ := c.Args[name].(string)
	return s
}

// Bool is the argument name, or false if it is absent.
func (c Call) Bool(name string) bool {
	b, _ := c.Args[name].(bool)
	return b
}

// Int is the argument name, or fallback if it is absent or no integer that fits.
// However a decoder spells a number, the value is the same.
func (c Call) Int(name string, fallback int64) int64 {
	switch n := c.Args[name].(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<63 {
			return int64(n)
		}
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i
		}
		if f, err := n.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
			return int64(f)
		}
	}
	return fallback
}

// Strings is the argument name, an array of strings, or nil if it is absent.
func (c Call) Strings(name string) []string {
	items, _ := c.Args[name].([]any)
	var list []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			list = append(list, s)
		}
	}
	return list
}
