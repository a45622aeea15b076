package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestFramesComeOutAsTheyWentIn draws every field of every frame, whatever is added to
// them: one that code.go forgot comes out as nothing.
func TestFramesComeOutAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Frame
		part := reflect.ValueOf(&f).Elem().Field(rapid.IntRange(0, reflect.TypeFor[Frame]().NumField()-1).Draw(t, "part"))
		part.Set(reflect.New(part.Type().Elem()))
		draw(t, part.Elem())
		got := throughTheWire(t, f)
		if !reflect.DeepEqual(got, f) {
			t.Fatalf("sent %+v\ngot  %+v", f, got)
		}
	})
}

// TestEveryFieldCounts changes one field after the other: each must change the bytes.
func TestEveryFieldCounts(t *testing.T) {
	for i := range reflect.TypeFor[Frame]().NumField() {
		var f Frame
		part := reflect.ValueOf(&f).Elem().Field(i)
		part.Set(reflect.New(part.Type().Elem()))
		fill(part.Elem())
		got := throughTheWire(t, f)
		if !reflect.DeepEqual(got, f) {
			t.Errorf("%s: sent %+v\ngot  %+v", reflect.TypeFor[Frame]().Field(i).Name, f, got)
		}
	}
}

// handedOver are fields that no frame has.
func handedOver(owner reflect.Type, field string) bool {
	return owner == reflect.TypeFor[sandboxprofile.Program]() && (field == "Stdin" || field == "Secrets")
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !handedOver(v.Type(), v.Type().Field(i).Name) {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("text \xff\x00")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(-3)
	default:
		v.SetUint(7)
	}
}

func draw(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if !handedOver(v.Type(), v.Type().Field(i).Name) {
				draw(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			draw(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "length"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				draw(t, v.Index(i))
			}
		}
	case reflect.String:
		v.SetString(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "number"))
	default:
		v.SetUint(rapid.Uint64().Draw(t, "bits") >> (64 - v.Type().Bits()))
	}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func throughTheWire(t fataler, f Frame) Frame {
	t.Helper()
	b, err := Encode(f)
	if err != nil {
		t.Fatalf("%v", err)
	}
	r := bytes.NewReader(b)
	got, err := Decode(r)
	if err != nil || r.Len() > 0 {
		t.Fatalf("%v, %d bytes left", err, r.Len())
	}
	return got
}

func framed(body ...byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func TestWhatIsNoFrame(t *testing.T) {
	ready, err := Encode(Frame{Ready: &Ready{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"a frame", "", ready},
		{"cut short", "cut short", ready[:len(ready)-1]},
		{"a longer one than there may be", "at most", []byte{0xff, 0xff, 0xff, 0xff}},
		{"no part", "exactly one", framed(make([]byte, 13)...)},
		{"two parts", "exactly one", framed(0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0)},
		{"bytes behind it", "behind the end", framed(append(bytes.Clone(ready[4:]), 0)...)},
		{"half a truth", "neither true", framed(0, 0, 0, 0, 2, 0, 0, 0, 0)},
		{"a text that is longer than the frame", "within a field", framed(0, 0, 0, 0, 0, 1, 200, 1, 0)},
		{"an errno beyond all numbers", "within a field", framed(append(make([]byte, 8), 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)...)},
	} {
		_, err := Decode(bytes.NewReader(c.b))
		if got := ""; err != nil {
			got = err.Error()
			if c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("%s: %s", c.name, got)
			}
		} else if c.want != "" {
			t.Errorf("%s: taken for a frame", c.name)
		}
	}
}

// TestElementsAreBounded: an init that somebody else has taken over cannot make its
// confiner allocate many times what it sends.
func TestElementsAreBounded(t *testing.T) {
	f := Frame{Done: &Done{Found: &sandboxprofile.Findings{Entries: make([]sandboxprofile.Entry, MaxElements)}}}
	throughTheWire(t, f)
	f.Done.Found.Entries = append(f.Done.Found.Entries, sandboxprofile.Entry{})
	if _, err := Encode(f); err == nil || !strings.Contains(err.Error(), "elements") {
		t.Errorf("one more: %v", err)
	}
	sent := make([]byte, 0, 4*MaxElements)
	sent = append(sent, 0, 0, 0, 0, 0, 0, 0, 0, 1) // done
	sent = append(sent, make([]byte, 18)...)       // its fields, and no edit error
	sent = append(sent, 1)                         // findings
	sent = binary.AppendUvarint(sent, MaxElements+1)
	sent = append(sent, make([]byte, 3*MaxElements)...)
	if _, err := Decode(bytes.NewReader(framed(sent...))); err == nil || !strings.Contains(err.Error(), "elements") {
		t.Errorf("one more, received: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for i := range reflect.TypeFor[Frame]().NumField() {
		var frame Frame
		part := reflect.ValueOf(&frame).Elem().Field(i)
		part.Set(reflect.New(part.Type().Elem()))
		fill(part.Elem())
		b, err := Encode(frame)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := Decode(bytes.NewReader(b))
		if err != nil {
			return
		}
		if again := throughTheWire(t, frame); !reflect.DeepEqual(again, frame) {
			t.Fatalf("%+v\nand then %+v", frame, again)
		}
	})
}

func BenchmarkRun(b *testing.B) {
	f := Frame{Run: &Run{Action: sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: "/usr/bin/true", Argv: []string{"true"}, Dir: "/workspace", Env: []string{"HOME=/home/u", "PATH=/usr/bin:/bin", "TERM=xterm"},
	}}}}
	b.ReportAllocs()
	for b.Loop() {
		throughTheWire(b, f)
	}
}
