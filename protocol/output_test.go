package protocol

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

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

// checkParse fails unless the fast decoder says no, or what the general one says.
func checkParse(t rapid.TB, line []byte) (fast bool) {
	t.Helper()
	kept := bytes.Clone(line)
	got, ok := ParseToolOutput(line)
	if !bytes.Equal(line, kept) {
		t.Fatalf("changed %q", kept)
	}
	want, valid := generally(line)
	if ok && (!valid || !reflect.DeepEqual(got, want)) {
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

// TestOutputLines: the encoder of output writes what encoding/json would, and the
// decoder knows all that this package writes but what has separators in it.
func TestOutputLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := RawOutput{CallID: CallID(rapid.StringMatching(`[!-~]{1,12}`).Draw(t, "id")), Stream: rapid.SampledFrom([]Stream{Stdout, Stderr}).Draw(t, "stream"),
			Data: outputs().Draw(t, "data")}
		line := checkAppend(t, o)
		fast := checkParse(t, line)
		if !fast && len(o.Data) > 0 && isPlain(o.CallID) {
			t.Errorf("not known: %q", line)
		}
		if got, ok := ParseToolOutput(line); ok && !bytes.Equal(got.Bytes(), o.Data) {
			t.Errorf("%q came back as %q", o.Data, got.Bytes())
		}
	})
}

// TestEveryByteEverywhere holds each byte at each place against the general code.
func TestEveryByteEverywhere(t *testing.T) {
	for c := range 256 {
		for at := range 18 {
			text := bytes.Repeat([]byte("a"), 18)
			text[at] = byte(c)
			checkAppend(t, RawOutput{"c", Stdout, text})
			for _, raw := range []string{string(text), string(text[:at]) + `\` + string(text[at:]), string(text[:at]) + `\u00` + string(text[at:])} {
				checkParse(t, []byte(outputStart+"c"+outputStream+`stdout"`+outputText+raw+outputEnd))
				checkParse(t, []byte(outputStart+"c"+outputStream+`stdout"`+outputBase64+raw+outputEnd))
			}
		}
	}
}

// TestAlmostOutput: lines that are nearly the encoder's own, and mean something else
// or nothing, go to the general decoder.
func TestAlmostOutput(t *testing.T) {
	const good = `{"jsonrpc":"2.0","method":"tool.output","params":{"call_id":"c","stream":"stdout","text":"a"}}`
	if !checkParse(t, []byte(good)) {
		t.Fatal("not known")
	}
	for old, others := range map[string][]string{
		`"text":"a"`: {
			`"text":"a","text":"b"`, `"text":"a","stream":"stderr"`, `"text":"a","omitted":3`, `"text":"a","novel":{}`, `"text":"\ud83d\ude00"`, `"text":"\ud83d"`,
			`"text":"\u+041"`, `"text":"\u00_1"`, `"text":"\u"`, `"text":"\x"`, `"text":"\"`, `"text":"` + "\x7f\x01" + `"`, `"text":"a" `, `"text":1`, `"text":null`,
			`"text":"` + "\xff" + `"`, `"base64":""`, `"base64":"YQ=="`, `"base64":"YQ"`, `"base64":"YR=="`, `"base64":"YQ==` + "\r" + `"`, `"base64":"YQ=\u003d"`,
			`"base64":"YQ==","text":"a"`, `"Text":"a"`, `"omitted":1e2`, `"omitted":99999999999999999999`,
		},
		`"c"`:      {`"c\u0041"`, `"c","call_id":"d"`, `"é"`, `"` + "\x01" + `"`, `""`, `1`},
		`"stdout"`: {`"stdin"`, `"stdout","stream":"stderr"`, `""`, `"std\u006fut"`},
		`"2.0"`:    {`"1.0"`, `"2.0","id":1`},
		`}}`:       {`}} `, `}`, `}}}`, `},"error":{}}`, `},"id":1}`, `},"method":"tool.state"}`},
		`{"json`:   {` {"json`, `{"id":null,"json`},
	} {
		for _, other := range others {
			line := strings.Replace(good, old, other, 1)
			fast := checkParse(t, []byte(line))
			if want, ok := generally([]byte(line)); fast && !utf8.ValidString(want.Text) || fast && !ok {
				t.Errorf("known: %q", line)
			}
		}
	}
}

func FuzzToolOutput(f *testing.F) {
	for _, s := range []string{"", "a\n", "\"\\\x00\x1f\u2028é\U0001F600", "\xff\xfe", `\ud83d\ude00`, `\u0041\/`, "YQ==", `","text":"b`, `a"}}`} {
		f.Add([]byte(s))
		f.Add([]byte(outputStart + "c" + outputStream + `stdout"` + outputText + s + outputEnd))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkParse(t, b)
		for _, field := range []string{outputText, outputBase64, ""} {
			checkParse(t, []byte(outputStart+"c"+outputStream+`stderr"`+field+string(b)+outputEnd))
		}
		checkParse(t, []byte(outputStart+string(b)+outputStream+`stderr"`+outputText+"x"+outputEnd))
		checkParse(t, checkAppend(t, RawOutput{"c", Stdout, b}))
	})
}

func BenchmarkOutput(b *testing.B) {
	o := RawOutput{"call-1", Stdout, bytes.Repeat([]byte("0123456789012345678901234567890123456789\n"), 1600)}
	line, _ := AppendNotification(nil, MethodToolOutput, o)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(o.Data)))
		for b.Loop() {
			line, _ = AppendNotification(line[:0], MethodToolOutput, o)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(o.Data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := ParseToolOutput(line); !ok {
				b.Fatal("not known")
			}
		}
	})
}
