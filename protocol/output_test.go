package protocol

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// generally is what the general decoder makes of a line.
func generally(line []byte) (o ToolOutput, ok bool) {
	m, err := ParseFromServer(line)
	if err != nil || m.Method != MethodToolOutput || json.Unmarshal(m.Params, &o) != nil {
		return ToolOutput{}, false
	}
	return o, true
}

// checkRawHeader fails unless the reader of raw headers says no, or what the general decoder says.
func checkRawHeader(t rapid.TB, line []byte) (known bool) {
	t.Helper()
	got, ok := ParseRawHeader(line)
	want, valid := generally(line)
	if ok && (!valid || !reflect.DeepEqual(got, want) || got.RawBytes <= 0) {
		t.Fatalf("%q: %+v, generally %+v, %v", line, got, want, valid)
	}
	if !ok && !reflect.DeepEqual(got, ToolOutput{}) {
		t.Fatalf("%q: not known, and yet %+v", line, got)
	}
	return ok
}

// checkAppend fails unless the fast encoder writes what the general one does.
func checkAppend(t rapid.TB, o RawOutput) []byte {
	t.Helper()
	want, err := EncodeNotification(MethodToolOutput, o.ToolOutput())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := AppendNotification([]byte("before"), MethodToolOutput, o); err != nil || string(got) != "before"+string(want) {
		t.Fatalf("%q: %q, %v, generally %q", o.Data, got, err, want)
	}
	if got, err := EncodeNotification(MethodToolOutput, o); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%q: %q, %v, in another value %q", o.Data, got, err, want)
	}
	return want
}

// outputs are pieces of output in which every kind of byte and character comes at
// every place of the eight that are looked at together.
func outputs() *rapid.Generator[[]byte] {
	part := rapid.OneOf(
		rapid.StringMatching(`[ -~]{0,40}`),
		rapid.StringMatching("[\"\\\\\n\t\r\b\f/<>&\x00\x1f\x7f]{0,4}"),
		rapid.String(),
		rapid.SampledFrom([]string{"\u2028", "\u2029", "\u2027", "\ufffd", "\U0001F600", "\xe2", "\xff", "\xed\xa0\x80", "\x80", "u0041"}),
	)
	return rapid.Custom(func(t *rapid.T) []byte {
		return []byte(strings.Join(rapid.SliceOfN(part, 1, 8).Draw(t, "parts"), ""))
	})
}

// TestOutputLines: the encoder of output writes what encoding/json would.
func TestOutputLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := RawOutput{CallID: CallID(rapid.StringMatching(`[!-~]{1,12}`).Draw(t, "id")), Stream: rapid.SampledFrom([]Stream{Stdout, Stderr}).Draw(t, "stream"),
			Data: outputs().Draw(t, "data"), Omitted: rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "omitted")}
		line := checkAppend(t, o)
		if got, ok := generally(line); !ok || !bytes.Equal(got.Bytes(), o.Data) || got.Omitted != o.Omitted {
			t.Errorf("%+v came back as %+v", o, got)
		}
	})
}

// TestEveryByteEverywhere holds each byte at each place against the general code.
func TestEveryByteEverywhere(t *testing.T) {
	for c := range 256 {
		for at := range 18 {
			text := bytes.Repeat([]byte("a"), 18)
			text[at] = byte(c)
			checkAppend(t, RawOutput{CallID: "c", Stream: Stdout, Data: text})
		}
	}
}

// TestRawHeader: what follows a raw header is read back byte for byte, however it comes, between
// lines that stay lines. What such a line cannot say is refused.
func TestRawHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sent bytes.Buffer
		var list []RawOutput
		for range rapid.IntRange(1, 6).Draw(t, "pieces") {
			o := RawOutput{CallID: CallID(rapid.StringMatching(`[!-~]{1,12}`).Draw(t, "id")), Stream: rapid.SampledFrom([]Stream{Stdout, Stderr}).Draw(t, "stream"),
				Data: bytes.Repeat(outputs().Draw(t, "data"), rapid.SampledFrom([]int{1, 1000}).Draw(t, "times"))}
			line, ok := AppendRawHeader([]byte("{}\n"), o)
			if want := len(o.Data) > 0 && isPlain(o.CallID); ok != want {
				t.Fatalf("%+v: %v", o, ok)
			}
			if ok {
				list = append(list, o)
				sent.Write(append(line, o.Data...))
			}
		}
		sent.WriteString("{}\n")
		r := NewReader(&inPieces{sent.String(), rapid.SliceOfN(rapid.IntRange(1, 3*leastBuffer), 1, 20).Draw(t, "reads"), 0})
		plain := func() {
			if line, err := r.Next(); err != nil || string(line) != "{}" {
				t.Fatalf("a line came as %q, %v", line, err)
			}
		}
		for _, want := range list {
			plain()
			line, err := r.Next()
			if err != nil || !checkRawHeader(t, line) {
				t.Fatalf("%q, %v", line, err)
			}
			got, _ := ParseRawHeader(line)
			var data []byte
			for got.RawBytes > int64(len(data)) {
				part, err := r.NextRaw(got.RawBytes - int64(len(data)))
				if err != nil || len(part) == 0 {
					t.Fatalf("%d bytes, %v", len(part), err)
				}
				data = append(data, part...)
			}
			if got.CallID != want.CallID || got.Stream != want.Stream || !bytes.Equal(data, want.Data) {
				t.Fatalf("%+v came back as %+v and %q", want, got, data)
			}
		}
		plain()
		if _, err := r.NextRaw(1); err != io.ErrUnexpectedEOF {
			t.Fatalf("at the end: %v", err)
		}
	})
	for _, o := range []RawOutput{{CallID: "c", Stream: Stdout}, {CallID: "c", Stream: Stdout, Data: []byte("a"), Omitted: 1}, {CallID: "a\"b", Stream: Stdout, Data: []byte("a")}} {
		if line, ok := AppendRawHeader(nil, o); ok || len(line) > 0 {
			t.Errorf("%+v: %q", o, line)
		}
	}
}

// TestAlmostRaw: lines that are nearly a raw header, and mean something else or nothing, go to
// the general decoder.
func TestAlmostRaw(t *testing.T) {
	const good = `{"jsonrpc":"2.0","method":"tool.output","params":{"call_id":"c","stream":"stdout","raw_bytes":12}}`
	if !checkRawHeader(t, []byte(good)) {
		t.Fatal("not known")
	}
	for old, others := range map[string][]string{
		`12`: {`0`, `-1`, `+1`, `01`, `1e2`, `1.0`, `"1"`, `null`, ``, ` 1`, `1 `, `99999999999999999999`, `12,"text":"a"`, `12,"raw_bytes":1`, `12,"novel":{}`, `1_2`,
			`1}},{"x":{"y":1`},
		`"c"`:      {`"c\u0041"`, `"c","call_id":"d"`, `"é"`, `"` + "\x01" + `"`, `1`},
		`"stdout"`: {`"stdout","stream":"stderr"`, `"std\u006fut"`, `"stdout","text":"a"`},
		`"2.0"`:    {`"1.0"`, `"2.0","id":1`},
		`}}`:       {`}} `, `}`, `}}}`, `},"error":{}}`, `},"id":1}`, `},"method":"tool.state"}`},
		`{"json`:   {` {"json`, `{"id":null,"json`},
	} {
		for _, other := range others {
			if line := strings.Replace(good, old, other, 1); checkRawHeader(t, []byte(line)) {
				t.Errorf("known: %q", line)
			}
		}
	}
}

func FuzzToolOutput(f *testing.F) {
	for _, s := range []string{"", "a\n", "\"\\\x00\x1f\u2028é\U0001F600", "\xff\xfe", `1`, `12}}`, `1,"text":"b"`, `c","stream":"stderr`} {
		f.Add([]byte(s))
		f.Add([]byte(outputStart + "c" + outputStream + `stdout"` + outputRaw + s + outputRawEnd))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkRawHeader(t, b)
		checkRawHeader(t, []byte(outputStart+"c"+outputStream+`stderr"`+outputRaw+string(b)+outputRawEnd))
		checkRawHeader(t, []byte(outputStart+string(b)+outputStream+`stderr"`+outputRaw+"7"+outputRawEnd))
		checkRawHeader(t, []byte(outputStart+"c"+outputStream+string(b)+outputRaw+"7"+outputRawEnd))
		checkAppend(t, RawOutput{CallID: "c", Stream: Stdout, Data: b})
	})
}

func BenchmarkOutput(b *testing.B) {
	o := RawOutput{CallID: "call-1", Stream: Stdout, Data: bytes.Repeat([]byte("0123456789012345678901234567890123456789\n"), 1600)}
	line, _ := AppendNotification(nil, MethodToolOutput, o)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(o.Data)))
		for b.Loop() {
			line, _ = AppendNotification(line[:0], MethodToolOutput, o)
		}
	})
}
