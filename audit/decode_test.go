package audit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sameDecoding holds what decodeOwn makes of a line against encoding/json.
func sameDecoding(t interface{ Fatalf(string, ...any) }, body []byte) (own bool) {
	given := bytes.Clone(body)
	e, own := decodeOwn(body)
	if !bytes.Equal(body, given) {
		t.Fatalf("%q was changed", given)
	}
	if !own {
		return false
	}
	want, _, err := decodeAny(body)
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Fatalf("%q:\n%+v, want\n%+v, %v", body, e, want, err)
	}
	return true
}

// strangeLines are lines that are almost ours.
func strangeLines(t testing.TB) [][]byte {
	_, lines := makeLog(t, Entry{
		Kind: KindDecision, Session: "s", Call: "c", Peer: &Peer{1, 2, 3}, Agent: "a", Tool: "t", Digest: "d", Data: json.RawMessage(`{"a":[1,-0.5e+3,true,null,"\u00e9\\"]}`),
	})
	line := bytes.TrimSuffix(lines[0], []byte("\n"))
	list := [][]byte{line}
	for _, change := range [][2]string{
		{`"v":1`, `"v":2`}, {`"v":1`, `"v": 1`}, {`"v":1`, `"v":1.0`}, {`"seq":1`, `"seq":01`}, {`"seq":1`, `"seq":-1`}, {`"seq":1`, `"seq":1e3`},
		{`"seq":1`, `"seq":18446744073709551615`}, {`"seq":1`, `"seq":18446744073709551616`}, {`"seq":1`, `"seq":9999999999999999999`}, {`"seq":1`, `"SEQ":1`},
		{`"time":"2026`, `"time":"20266`}, {`Z","kind"`, `+01:00","kind"`}, {`"kind":"decision"`, `"kind":null`}, {`"kind":"decision"`, `"kind":"de\u0063ision"`},
		{`"session":"s"`, `"session":""`}, {`"session":"s"`, `"session":"s","session":"x"`}, {`"session":"s"`, `"session":"s","more":1`}, {`"session":"s","call":"c"`, `"call":"c","session":"s"`},
		{`"session":"s"`, "\"session\":\"\xff\""}, {`"session":"s"`, `"session":"é"`}, {`"session":"s"`, "\"session\":\"\x01\""}, {`"session":"s"`, `"session":"s\"`}, {`"session":"s"`, `"session":1`},
		{`{"uid":1`, `{ "uid":1`}, {`"uid":1`, `"uid":4294967296`}, {`"pid":3`, `"pid":-3`}, {`"pid":3`, `"pid":2147483648`}, {`"pid":3}`, `"pid":3,"x":1}`}, {`"peer":{"uid":1,"gid":2,"pid":3}`, `"peer":null`},
		{`"data":{`, `"data": {`}, {`\\"]}`, `\\"]} `}, {`"data":{`, `"data":[{`}, {`null`, `nul`}, {`-0.5e+3`, `-`}, {`-0.5e+3`, `00`}, {`-0.5e+3`, `.5`}, {`-0.5e+3`, `5.`}, {`-0.5e+3`, `1e`}, {`\u00e9`, `\u00g9`}, {`\u00e9`, `\x`},
		{`"data":{"a":[1,-0.5e+3,true,null,"\u00e9\\"]}`, `"data":null`}, {`"data":{"a":[1,-0.5e+3,true,null,"\u00e9\\"]}`, `"data":` + strings.Repeat("[", 70) + strings.Repeat("]", 70)},
		{`"data":{"a":[1,-0.5e+3,true,null,"\u00e9\\"]}`, `"data":1,"prev":"x"`}, {`"data":`, `"data":1,"data":`}, {`"prev":"0`, `"prev":"A`}, {`"prev":"00`, `"prev":"\"`}, {`"prev"`, `"Prev"`}, {`,"prev"`, ` ,"prev"`},
	} {
		changed := bytes.Replace(line, []byte(change[0]), []byte(change[1]), 1)
		if bytes.Equal(changed, line) {
			t.Fatalf("%q is not in %q", change[0], line)
		}
		list = append(list, changed)
	}
	return list
}

// TestOwnLinesAreDecodedTheSame: the fast way of reading a line and encoding/json give the
// same, and the fast one reads what we write.
func TestOwnLinesAreDecodedTheSame(t *testing.T) {
	for i, line := range strangeLines(t) {
		if own := sameDecoding(t, line); i == 0 && !own {
			t.Errorf("not read: %q", line)
		}
	}
	text := rapid.OneOf(rapid.StringMatching("[a-zA-Z0-9 é:._-]{0,20}"), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{
			Version: FormatVersion, Seq: rapid.Uint64Range(0, 1<<62).Draw(t, "seq"), Time: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"), Writer: text.Draw(t, "writer"), Session: text.Draw(t, "session"), Call: text.Draw(t, "call"),
			Agent: text.Draw(t, "agent"), Tool: text.Draw(t, "tool"), Digest: text.Draw(t, "digest"), Prev: ZeroHash,
		}
		if rapid.Bool().Draw(t, "peer") {
			e.Peer = &Peer{rapid.Uint32().Draw(t, "uid"), rapid.Uint32().Draw(t, "gid"), rapid.Int32().Draw(t, "pid")}
		}
		if rapid.Bool().Draw(t, "data") {
			var err error
			if e.Data, err = encodeJSON(map[string]any{text.Draw(t, "key"): []any{text.Draw(t, "value"), rapid.Float64().Draw(t, "number"), nil, rapid.Bool().Draw(t, "bool")}}); err != nil {
				t.Fatal(err)
			}
		}
		line, err := e.seal()
		if err != nil {
			t.Fatal(err)
		}
		body := bytes.TrimSuffix(line, []byte("\n"))
		own := sameDecoding(t, body)
		spelled := func(s string) bool {
			return strings.ContainsAny(s, "\"\\") || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' && r != 'é' })
		}
		odd := slices.ContainsFunc([]string{e.Writer, e.Session, e.Call, e.Agent, e.Tool, e.Digest}, spelled) || e.Peer != nil && e.Peer.PID < 0
		if !own && !odd {
			t.Fatalf("not read: %q", body)
		}
		for range 4 { // and what is not ours any more
			at, c := rapid.IntRange(0, len(body)-1).Draw(t, "at"), rapid.SampledFrom([]byte(`"\,:{}[]0 1eé`+"\x00")).Draw(t, "byte")
			changed := bytes.Clone(body)
			changed[at] = c
			sameDecoding(t, changed)
			sameDecoding(t, append(changed[:at:at], body[at+1:]...))
		}
	})
}

// FuzzDecode holds the fast way of reading a line against encoding/json.
func FuzzDecode(f *testing.F) {
	for _, line := range strangeLines(f) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, body []byte) { sameDecoding(t, body) })
}
