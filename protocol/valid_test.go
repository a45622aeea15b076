package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// FuzzValid: what is JSON here is JSON to encoding/json, and the other way round.
func FuzzValid(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"\u00e9\n\"\\\/"],"b":{}}`, ` [ 1 , { "a" : [ ] } ] `, "", " ", "-", "01", "1.", "1e", ".5", "+1", "1e+", "-0", "0x1",
		`"`, `"\`, `"\u12`, `"\u12g4"`, `"\x"`, "\"\x1f\"", "\"\x7f\xff\"", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[,]`, `[1,]`, `[1`, `{"a":1`, `{a:1}`, `{1:1}`, `tru`, `nul`, `truex`,
		`{}{}`, `[]]`, `"a""b"`, "\v1", "\ufeff1", `{"a" "b"}`, `[1 2]`, `["aaaaaaaaaaaaaaaa","bbbbbbb\nbbbbbbbb"]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := valid(b), json.Valid(b); got != want {
			t.Fatalf("%q: %v, encoding/json says %v", b, got, want)
		}
		for cut := range b { // all that it begins with
			if got, want := valid(b[:cut]), json.Valid(b[:cut]); got != want {
				t.Fatalf("%q: %v, encoding/json says %v", b[:cut], got, want)
			}
			if cut > 200 {
				break
			}
		}
	})
}

func TestValidDepth(t *testing.T) {
	for _, depth := range []int{maxNesting - 1, maxNesting, maxNesting + 1, 20 * maxNesting} {
		for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {`[{"a":`, "}]"}} {
			inner := "1"
			b := []byte(strings.Repeat(pair[0], depth) + inner + strings.Repeat(pair[1], depth))
			if got, want := valid(b), json.Valid(b); got != want {
				t.Errorf("%d of %s: %v, encoding/json says %v", depth, pair[0], got, want)
			}
		}
	}
}

// generalResponse is ParseFromServer without the short way.
func generalResponse(line []byte) (Message, error) {
	if err := checkSyntax(line); err != nil {
		return Message{}, err
	}
	return parseFromServer(line)
}

func checkResponse(t *testing.T, line []byte) (short bool) {
	t.Helper()
	got, short := parseResult(line)
	want, err := generalResponse(line)
	if short && (err != nil || !reflect.DeepEqual(got, want)) {
		t.Fatalf("%q: %+v, generally %+v, %v", line, got, want, err)
	}
	return short
}

// TestResultsDepth: the message around a result counts.
func TestResultsDepth(t *testing.T) {
	for _, depth := range []int{maxNesting - 2, maxNesting - 1, maxNesting} {
		result := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
		if short := checkResponse(t, []byte(`{"jsonrpc":"2.0","id":1,"result":`+result+`}`)); short != (depth < maxNesting) {
			t.Errorf("%d deep: %v", depth, short)
		}
	}
}

func FuzzParseResult(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `null`, `1`, ` 1`, `1 `, `"a"`, `[]`, `{},"id":2`, `{},"error":null`, `1},{"a":2`, ``, "{\"a\":\"\xff\"}", `1,"result":2`} {
		f.Add([]byte(s), "1")
	}
	for _, id := range []string{"0", "-1", "01", "1.0", "1e0", "123456789012345678", "1234567890123456789", "99999999999999999999", `"a"`, "null", "", `1,"id":2`, " 1"} {
		f.Add([]byte(`{}`), id)
	}
	f.Fuzz(func(t *testing.T, result []byte, id string) {
		checkResponse(t, result)
		checkResponse(t, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result))
	})
}

// TestResultsTakeTheShortWay: those that this package writes do.
func TestResultsTakeTheShortWay(t *testing.T) {
	line, err := EncodeResult(NumberID(7), CallResult{Content: []Content{NewContent(Stdout, []byte("a\n"))}})
	if err != nil || !checkResponse(t, line) {
		t.Errorf("%s: %v", line, err)
	}
	m, err := ParseFromServer(line)
	if err != nil || bytes.Contains(m.Result, []byte("jsonrpc")) {
		t.Errorf("%+v, %v", m, err)
	}
	clear(line)
	if !json.Valid(m.Result) {
		t.Error("the message is not its receiver's to keep")
	}
}
