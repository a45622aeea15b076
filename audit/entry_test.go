package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestFormat fixes the bytes on disk: a log that is read by other programs, and
// years later, may not change its form by accident.
func TestFormat(t *testing.T) {
	got, _ := makeLog(t, append(someEntries(2),
		Entry{Kind: KindRefused, Agent: "a\u202eb", Tool: "x<y>&z", Data: json.RawMessage(`{"text":"caf\u00e9 \u2028 𝄞"}`)},
		Entry{Kind: KindStop},
	)...)
	golden := filepath.Join("testdata", "format.jsonl")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the format changed (-want +got):\n%s", diff)
	}
}

// TestFormatAsDocumented computes the hashes of the golden log in the words of
// docs/audit.md, with nothing of this package.
func TestFormatAsDocumented(t *testing.T) {
	log, err := os.ReadFile(filepath.Join("testdata", "format.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	prev := "0000000000000000000000000000000000000000000000000000000000000000"
	for i, line := range bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n")) {
		hashed := append(bytes.Clone(line[:len(line)-75]), '}')
		sum := sha256.Sum256(hashed)
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e["hash"] != hex.EncodeToString(sum[:]) {
			t.Errorf("line %d: hash %v, the documented way gives %x", i+1, e["hash"], sum)
		}
		if e["prev"] != prev {
			t.Errorf("line %d: prev %v, want %v", i+1, e["prev"], prev)
		}
		prev, _ = e["hash"].(string)
	}
}

func anyEntry(t *rapid.T) Entry {
	return Entry{
		Kind:    rapid.SampledFrom(Kinds()).Draw(t, "kind"),
		Session: rapid.String().Draw(t, "session"),
		Call:    rapid.String().Draw(t, "call"),
		Agent:   rapid.String().Draw(t, "agent"),
		Tool:    rapid.String().Draw(t, "tool"),
	}
}

// TestLineIsWhatJSONMakes: the line is put together by hand, and has to be the one that
// encoding/json makes of the entry.
func TestLineIsWhatJSONMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEntry(t)
		e.Version, e.Seq = FormatVersion, rapid.Uint64().Draw(t, "seq")
		e.Time = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
		e.Writer, e.Digest, e.Prev, e.Hash = rapid.String().Draw(t, "writer"), rapid.String().Draw(t, "digest"), rapid.String().Draw(t, "prev"), ZeroHash
		if rapid.Bool().Draw(t, "peer") {
			e.Peer = &Peer{UID: rapid.Uint32().Draw(t, "uid"), GID: rapid.Uint32().Draw(t, "gid"), PID: rapid.Int32().Draw(t, "pid")}
		}
		if rapid.Bool().Draw(t, "data") {
			data, err := json.MarshalIndent(map[string]any{rapid.String().Draw(t, "name"): rapid.String().Draw(t, "value"), "n": 1}, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			e.Data = data
		}
		want, err := encodeJSON(e)
		if err != nil {
			t.Fatal(err)
		}
		want = escapeInvisible(want)
		if got, err := e.Line(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v\n%s, and JSON makes\n%s", err, got, want)
		}
		e.Data, _ = encodeJSON(e.Data)
		line, err := e.seal()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := e.Line(); err != nil || string(again)+"\n" != string(line) {
			t.Fatalf("%v: sealed as\n%s, and then\n%s", err, line, again)
		}
	})
	if _, err := (Entry{Data: json.RawMessage(`{"not`)}).Line(); err == nil {
		t.Error("data that is no JSON became a line")
	}
	if _, err := (Entry{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}).Line(); err == nil {
		t.Error("a time that JSON has no form for became a line")
	}
}

// TestLineRoundTrip: what is read from a line writes the same line again, and no
// line holds a character that a terminal would obey or hide.
func TestLineRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := anyEntry(rt)
		data, err := encodeJSON(map[string]string{"text": rapid.String().Draw(rt, "text")})
		if err != nil {
			rt.Fatal(err)
		}
		e.Data = data
		_, lines := makeLog(t, e)
		read, _, err := parseLine(lines[0])
		if err != nil {
			rt.Fatalf("%s: %v", lines[0], err)
		}
		again, err := read.Line()
		if err != nil {
			rt.Fatal(err)
		}
		if string(again)+"\n" != string(lines[0]) {
			rt.Fatalf("read and written again:\n%s\nwas\n%s", again, lines[0])
		}
		for _, r := range string(again) {
			if !unicode.IsPrint(r) {
				rt.Fatalf("%U stands in the line as it is: %s", r, again)
			}
		}
	})
}

func TestEscapeInvisible(t *testing.T) {
	for in, want := range map[string]string{
		`"plain <&> text"`: `"plain <&> text"`,
		`"é 漢 𝄞"`:          `"é 漢 𝄞"`,
		"\"a\u202eb\"":     `"a\u202eb"`,
		"\"\u200b\"":       `"\u200b"`,
		"\"\u009b31m\"":    `"\u009b31m"`,
		"\"\x7f\"":         `"\u007f"`,
		"\"\u3164\ufe0f\"": `"\u3164\ufe0f"`,
		"\"\U000e0041\"":   `"\udb40\udc41"`,
		"\"a\u00a0b\"":     `"a\u00a0b"`,
	} {
		got := escapeInvisible([]byte(in))
		if string(got) != want {
			t.Errorf("escapeInvisible(%q) = %q, want %q", in, got, want)
		}
		var a, b string
		if err := json.Unmarshal([]byte(in), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(got, &b); err != nil || a != b {
			t.Errorf("%q reads as %q, %v; want %q", got, b, err, a)
		}
	}
}
