package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEqual(t *testing.T) {
	raw := func(s string) any { return json.RawMessage(s) }
	for _, tt := range []struct {
		name string
		a, b any
		want bool
	}{
		{"key order", raw(`{"a":1,"b":[{"c":2,"d":3}]}`), raw(`{"b":[{"d":3,"c":2}],"a":1}`), true},
		{"array order", raw(`[1,2]`), raw(`[2,1]`), false},
		{"number spelling", raw(`[1,1.0,1e0,10e-1,0.1e1]`), raw(`[1,1,1,1,1]`), true},
		{"zeros", raw(`[0,-0,0.0,0e9,-0.0e-3]`), raw(`[0,0,0,0,0]`), true},
		{"large numbers", raw(`1200`), raw(`1.2E+3`), true},
		{"sign", raw(`-1`), raw(`1`), false},
		{"large integers are exact", raw(`9007199254740993`), raw(`9007199254740992`), false},
		{"larger than any integer type", raw(`123456789012345678901234567890`), raw(`123456789012345678901234567891`), false},
		{"small fractions are exact", raw(`0.1`), raw(`0.1000000000000000000000000001`), false},
		{"Go numbers", []any{1, int64(2), uint8(3), float32(0.5), 0.1}, raw(`[1.0,2,3,5e-1,0.1]`), true},
		{"largest unsigned", uint64(math.MaxUint64), raw(`18446744073709551615`), true},
		{"number and string", raw(`1`), raw(`"1"`), false},
		{"null and absent", raw(`{"a":null}`), raw(`{}`), false},
		{"null and false", nil, false, false},
		{"empty object and array", raw(`{}`), raw(`[]`), false},
		{"normal form of values", "caf\u00e9", "cafe\u0301", false},
		{"normal form of keys", map[string]any{"caf\u00e9": 1}, map[string]any{"cafe\u0301": 1}, false},
		{"a semicolon in a normal form", "echo hi\u037etouch x", "echo hi;touch x", false},
		{"a backquote in a normal form", "echo \u1fefid\u1fef", "echo `id`", false},
		{"a letter in a normal form", "\u212aeep", "Keep", false},
		{"typed maps and slices", map[string][]string{"a": {"b"}}, raw(`{"a":["b"]}`), true},
		{"a key that holds a separator", raw(`{"a\",\"b":1}`), raw(`{"a":1,"b":1}`), false},
		{"escapes", "a\x00\n\"\\\u2028", raw(`"a\u0000\n\"\\\u2028"`), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range []any{tt.a, tt.b} {
				if _, err := Canonical(v); err != nil {
					t.Fatal(err)
				}
			}
			if got := Equal(tt.a, tt.b); got != tt.want {
				t.Errorf("Equal(%v, %v) = %v", tt.a, tt.b, got)
			}
		})
	}
}

func TestCanonicalForm(t *testing.T) {
	got, err := Canonical(json.RawMessage(`{"z":[1.50,-120,true,null],"a":{"é":"<\t>"}}`))
	if want := `{"a":{"é":"<\u0009>"},"z":[15e-1,-12e1,true,null]}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestCanonicalRefuses(t *testing.T) {
	loop := map[string]any{}
	loop["self"] = loop
	for name, v := range map[string]any{
		"no number":             math.NaN(),
		"infinity":              math.Inf(-1),
		"invalid UTF-8":         "a\xff",
		"invalid UTF-8 key":     map[string]any{"\xff": 1},
		"invalid UTF-8 raw":     json.RawMessage("\"\xff\""),
		"a function":            func() {},
		"a struct":              struct{ A int }{1},
		"keys that are numbers": map[int]string{1: "a"},
		"a loop":                loop,
		"a broken raw message":  json.RawMessage(`{`),
		"a number that is none": json.Number("01"),
		"a boolean as a number": json.Number("true"),
		"a string as a number":  json.Number(`"1"`),
		"a spaced number":       json.Number(" 1"),
		"an absurd exponent":    json.Number("1e99999999999999999999"),
	} {
		if b, err := Canonical(v); err == nil {
			t.Errorf("%s: got %s, want an error", name, b)
		}
		if Equal(v, v) {
			t.Errorf("%s: equal to itself", name)
		}
	}
}

// genJSON draws a JSON value with two spellings of it.
func genJSON(t *rapid.T, depth int) (a, b string) {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		s := rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
		return s, s
	case 1, 2:
		return genNumber(t)
	case 3:
		return genString(t)
	case 4:
		var as, bs []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			x, y := genJSON(t, depth-1)
			as, bs = append(as, x), append(bs, y)
		}
		return "[" + strings.Join(as, ",") + "]", "[ " + strings.Join(bs, " , ") + " ]"
	}
	var as, bs []string
	for i := range rapid.IntRange(0, 3).Draw(t, "size") {
		key, spelt := genString(t)
		x, y := genJSON(t, depth-1)
		as = append(as, fmt.Sprintf(`"%d%s:%s`, i, key[1:], x))
		bs = append([]string{fmt.Sprintf(`"%d%s : %s`, i, spelt[1:], y)}, bs...)
	}
	return "{" + strings.Join(as, ",") + "}", "{" + strings.Join(bs, ",") + "}"
}

// genNumber spells digits × 10^exponent in two ways.
func genNumber(t *rapid.T) (a, b string) {
	digits := rapid.StringMatching(`-?[1-9][0-9]{0,24}`).Draw(t, "digits")
	exponent := rapid.IntRange(-30, 30).Draw(t, "exponent")
	zeros := rapid.IntRange(0, 5).Draw(t, "zeros")
	a = fmt.Sprintf("%se%d", digits, exponent)
	b = fmt.Sprintf("%s%sE%+d", digits, strings.Repeat("0", zeros), exponent-zeros)
	if rapid.Bool().Draw(t, "point") {
		b = fmt.Sprintf("%s%s.000E%+d", digits, strings.Repeat("0", zeros), exponent-zeros)
	}
	return a, b
}

// genString spells a string as it is and with every character escaped.
func genString(t *rapid.T) (a, b string) {
	s := rapid.String().Draw(t, "string")
	quoted, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var escaped strings.Builder
	for _, r := range s {
		if r > 0xffff {
			escaped.WriteRune(r)
		} else {
			fmt.Fprintf(&escaped, `\u%04X`, r)
		}
	}
	return string(quoted), `"` + escaped.String() + `"`
}

func TestSpellingDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genJSON(t, 3)
		x, err := Canonical(json.RawMessage(a))
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		y, err := Canonical(json.RawMessage(b))
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if !bytes.Equal(x, y) {
			t.Fatalf("%s\n%s\nbecame\n%s\n%s", a, b, x, y)
		}
	})
}

// Numbers are equal exactly when they are equal as fractions.
func TestNumbersAgreeWithArithmetic(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?([eE][+-]?[0-3])?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, okX := new(big.Rat).SetString(a)
		y, okY := new(big.Rat).SetString(b)
		if !okX || !okY {
			t.Fatalf("math/big does not read %s or %s", a, b)
		}
		if got, want := Equal(json.Number(a), json.Number(b)), x.Cmp(y) == 0; got != want {
			t.Fatalf("Equal(%s, %s) = %v", a, b, got)
		}
	})
}

// What Canonical accepts, it writes as JSON that means the same and is its own
// canonical form.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{"path":"a.txt","n":1.50}`, `[0,-0,1e400,1E-400,123456789012345678901234567890]`,
		`"\ud800"`, `"\u0000\u001f\u2028é"`, `{"a":1,"a":2}`, `[[[[]]]]`, `nul`, "\"\xff\"", `1e99999999999999999999`, `01`, ``, `1 2`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := Canonical(json.RawMessage(data))
		if err != nil {
			return
		}
		if !json.Valid(once) {
			t.Fatalf("%q became %q, which is not JSON", data, once)
		}
		twice, err := Canonical(json.RawMessage(once))
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q became %q, then %q (%v)", data, once, twice, err)
		}
	})
}
