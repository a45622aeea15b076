package approval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a payload. It is far beyond what a tool needs
// and stops a map that contains itself.
const maxDepth = 200

// Canonical writes v as canonical JSON: two values are deeply equal exactly when
// their canonical JSON is the same text. Object keys are sorted; numbers are
// compared by their exact decimal value (1, 1.0 and 1e0 are equal, integers of
// any size are kept exact); strings and keys byte for byte, as what is executed or
// names a file has no normal form: U+037E is a semicolon in one.
//
// v consists of what encoding/json decodes to (decode with UseNumber, or large
// integers are rounded before they get here), of other maps with string keys,
// slices, strings and numbers, and of json.RawMessage. Anything else is an
// error, and so is what would make different values look equal: a string that
// is not valid UTF-8, or NaN.
func Canonical(v any) ([]byte, error) { return appendValue(nil, v, 0) }

// Equal reports whether a and b are deeply equal as canonical JSON. Values that
// have no canonical JSON are equal to nothing.
func Equal(a, b any) bool {
	x, errA := Canonical(a)
	y, errB := Canonical(b)
	return errA == nil && errB == nil && bytes.Equal(x, y)
}

func appendValue(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendQuoted(b, v)
	case json.Number:
		return appendNumber(b, string(v))
	case float64:
		return appendFloat(b, v, 64)
	case map[string]any:
		return appendObject(b, v, depth)
	case []any:
		return appendArray(b, len(v), func(b []byte, i int) ([]byte, error) {
			return appendValue(b, v[i], depth+1)
		})
	case json.RawMessage:
		return appendRaw(b, v, depth)
	}
	return appendReflect(b, reflect.ValueOf(v), depth)
}

// appendReflect takes the kinds that tools put into payloads by hand:
// []string, map[string]string, int, named string types.
func appendReflect(b []byte, v reflect.Value, depth int) ([]byte, error) {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.String:
		return appendQuoted(b, v.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return appendNumber(b, strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return appendNumber(b, strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32:
		return appendFloat(b, v.Float(), 32)
	case reflect.Float64:
		return appendFloat(b, v.Float(), 64)
	case reflect.Slice, reflect.Array:
		return appendArray(b, v.Len(), func(b []byte, i int) ([]byte, error) {
			return appendValue(b, v.Index(i).Interface(), depth+1)
		})
	case reflect.Map:
		return appendMap(b, v, depth)
	}
	return nil, fmt.Errorf("a %s is not a JSON value", v.Type())
}

func appendMap(b []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.Type().Key().Kind() != reflect.String {
		return nil, fmt.Errorf("a %s has keys that are not strings", v.Type())
	}
	m := make(map[string]any, v.Len())
	for it := v.MapRange(); it.Next(); {
		m[it.Key().String()] = it.Value().Interface()
	}
	return appendObject(b, m, depth)
}

func appendRaw(b []byte, raw json.RawMessage, depth int) ([]byte, error) {
	if !utf8.Valid(raw) { // the decoder would replace bad bytes, and different bytes alike
		return nil, errNotUTF8
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("raw JSON: %w", err)
	}
	return appendValue(b, v, depth)
}

func appendObject(b []byte, m map[string]any, depth int) ([]byte, error) {
	keys := slices.Sorted(maps.Keys(m))
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendQuoted(b, k); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = appendValue(b, m[k], depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendArray(b []byte, n int, element func([]byte, int) ([]byte, error)) ([]byte, error) {
	b = append(b, '[')
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = element(b, i); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

var errNotUTF8 = errors.New("a string is not valid UTF-8")

// appendQuoted writes a JSON string with the fewest escapes (RFC 8785, 3.2.2.2,
// but with \u00XX for every control character).
func appendQuoted(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errNotUTF8
	}
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[ch>>4], hex[ch&15])
		default:
			b = append(b, ch)
		}
	}
	return append(b, '"'), nil
}

func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v is not a JSON number", f)
	}
	return appendNumber(b, strconv.FormatFloat(f, 'e', -1, bits))
}

// appendNumber writes the JSON number s (RFC 8259, section 6) by its exact
// value: an integer of digits without trailing zeros, then eN where N is not
// zero. 1200, 1.2e3 and 12e2 all become 12e2.
func appendNumber(b []byte, s string) ([]byte, error) {
	n, err := parseNumber(s)
	if err != nil {
		return nil, err
	}
	if n.digits == "" {
		return append(b, '0'), nil // -0 equals 0
	}
	if n.negative {
		b = append(b, '-')
	}
	b = append(b, n.digits...)
	if n.exponent != 0 {
		b = append(b, 'e')
		b = strconv.AppendInt(b, n.exponent, 10)
	}
	return b, nil
}

// A number is digits × 10^exponent; digits has no zero at either end.
type number struct {
	negative bool
	digits   string
	exponent int64
}

// maxExponent keeps the exponent arithmetic far from overflow.
const maxExponent = 1 << 40

// isNumber leaves the grammar to encoding/json, and excludes what else is JSON.
func isNumber(s string) bool {
	return json.Valid([]byte(s)) && strings.Trim(s, "-+.eE0123456789") == ""
}

func parseNumber(s string) (number, error) {
	if !isNumber(s) {
		return number{}, fmt.Errorf("%q is not a JSON number", s)
	}
	mantissa, power := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, power = s[:i], s[i+1:]
	}
	var n number
	if power != "" {
		e, err := strconv.ParseInt(power, 10, 64)
		if err != nil || e > maxExponent || e < -maxExponent {
			return number{}, fmt.Errorf("number %.40q: exponent out of range", s)
		}
		n.exponent = e
	}
	mantissa, n.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	n.exponent -= int64(len(fraction))
	n.digits = strings.TrimLeft(whole+fraction, "0")
	significant := strings.TrimRight(n.digits, "0")
	n.exponent += int64(len(n.digits) - len(significant))
	n.digits = significant
	return n, nil
}
