package audit

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestVerifySound(t *testing.T) {
	log, _ := makeLog(t, someEntries(5)...)
	r, err := Verify(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if r.Entries != 5 || r.Size != int64(len(log)) || r.Kinds[KindDecision] != 3 || r.Kinds[KindEnd] != 2 {
		t.Errorf("report %+v", r)
	}
	if len(r.Open) != 1 || r.Open[0] != (CallID{"s1", "c2"}) {
		t.Errorf("open calls %v, want c2", r.Open)
	}
}

func TestVerifyEmpty(t *testing.T) {
	r, err := Verify(strings.NewReader(""))
	if err != nil || r.Entries != 0 || r.Head != ZeroHash {
		t.Errorf("an empty log: %+v, %v", r, err)
	}
}

// A damage is one thing that may be done to a log of several lines, and what
// Verify must say of it.
type damage struct {
	name string
	do   func(lines [][]byte) [][]byte
	line uint64
	says Fault
}

func damages() []damage {
	replace := func(old, new string) func([][]byte) [][]byte {
		return func(l [][]byte) [][]byte {
			l[2] = bytes.Replace(l[2], []byte(old), []byte(new), 1)
			return l
		}
	}
	return []damage{
		{"a changed value", replace("echo", "ecno"), 3, FaultHash},
		{"a changed hash", func(l [][]byte) [][]byte { l[2][len(l[2])-5] ^= 1; return l }, 3, FaultHash},
		{"a space between fields", replace(`,"kind"`, `, "kind"`), 3, FaultHash},
		{"not JSON", replace(`{"v"`, `["v"`), 3, FaultJSON},
		{"no hash field", func(l [][]byte) [][]byte { l[2] = []byte("{}\n"); return l }, 3, FaultHash},
		{"an empty line", func(l [][]byte) [][]byte { l[1] = append(l[1], '\n'); return l }, 3, FaultJSON},
		{"carriage returns", func(l [][]byte) [][]byte { l[1] = append(bytes.TrimSuffix(l[1], []byte("\n")), "\r\n"...); return l }, 2, FaultHash},
		{"a removed line", func(l [][]byte) [][]byte { return append(l[:2], l[3:]...) }, 3, FaultSeq},
		{"a removed first line", func(l [][]byte) [][]byte { return l[1:] }, 1, FaultSeq},
		{"swapped lines", func(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }, 3, FaultSeq},
		{"a repeated line", func(l [][]byte) [][]byte { return append(l[:3], l[2:]...) }, 4, FaultSeq},
		{"a torn last line", func(l [][]byte) [][]byte { l[5] = l[5][:20]; return l }, 6, FaultTorn},
		{"no last newline", func(l [][]byte) [][]byte { l[5] = bytes.TrimSuffix(l[5], []byte("\n")); return l }, 6, FaultTorn},
		{"zeros at the end", func(l [][]byte) [][]byte { return append(l, make([]byte, 100)) }, 7, FaultTorn},
		{"an endless line", func(l [][]byte) [][]byte { l[5] = bytes.Repeat([]byte("x"), MaxLine+10); return l }, 6, FaultTooLong},
	}
}

func TestVerifyNamesFirstBadLine(t *testing.T) {
	for _, d := range damages() {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			_, lines := makeLog(t, someEntries(6)...)
			report, err := Verify(bytes.NewReader(bytes.Join(d.do(lines), nil)))
			var bad *ChainError
			if !errors.As(err, &bad) {
				t.Fatalf("Verify: %v, want a ChainError", err)
			}
			if bad.Line != d.line || bad.Fault != d.says {
				t.Errorf("Verify: %v, want line %d, %s", bad, d.line, d.says)
			}
			if report.Entries != d.line-1 || report.Size != bad.Offset {
				t.Errorf("the report covers %d entries in %d bytes, want those before line %d", report.Entries, report.Size, d.line)
			}
		})
	}
}

// TestVerifyRechained: a line that was replaced and hashed anew is found by its
// successor, and one of another format by its version.
func TestVerifyRechained(t *testing.T) {
	_, lines := makeLog(t, someEntries(4)...)
	forge := func(change func(*Entry)) []byte {
		e, _, err := parseLine(lines[1])
		if err != nil {
			t.Fatal(err)
		}
		change(&e)
		line, err := e.seal()
		if err != nil {
			t.Fatal(err)
		}
		return line
	}
	for _, c := range []struct {
		name string
		line []byte
		at   uint64
		says Fault
	}{
		{"other content", forge(func(e *Entry) { e.Tool = "forged" }), 3, FaultPrev},
		{"other version", forge(func(e *Entry) { e.Version = 2 }), 2, FaultVersion},
	} {
		log := bytes.Join([][]byte{lines[0], c.line, lines[2], lines[3]}, nil)
		_, err := Verify(bytes.NewReader(log))
		var bad *ChainError
		if !errors.As(err, &bad) || bad.Line != c.at || bad.Fault != c.says {
			t.Errorf("%s: %v, want line %d, %s", c.name, err, c.at, c.says)
		}
	}
}

// TestVerifyFindsEveryChange: whatever happens to one byte anywhere, or to a line
// before the last, Verify names exactly the first line that is not as it was.
func TestVerifyFindsEveryChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var es []Entry
		for range rapid.IntRange(2, 6).Draw(rt, "entries") {
			es = append(es, anyEntry(rt))
		}
		log, lines := makeLog(t, es...)
		n := len(lines)
		at := rapid.IntRange(0, len(log)-1).Draw(rt, "at")
		lineAt := bytes.Count(log[:at], []byte("\n")) + 1
		k := rapid.IntRange(0, n-2).Draw(rt, "k")
		j := rapid.IntRange(k+1, n-1).Draw(rt, "j")
		var changed []byte
		var want int
		switch op := rapid.SampledFrom([]string{"flip", "insert", "delete", "remove", "repeat", "swap"}).Draw(rt, "op"); op {
		case "flip":
			changed, want = bytes.Clone(log), lineAt
			changed[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		case "insert":
			b := rapid.Byte().Draw(rt, "byte")
			changed, want = bytes.Join([][]byte{log[:at], {b}, log[at:]}, nil), lineAt
			if b == '\n' && log[at] == '\n' {
				want = lineAt + 1 // the line is as it was, and an empty one follows
			}
		case "delete":
			changed, want = append(bytes.Clone(log[:at]), log[at+1:]...), lineAt
		case "remove":
			changed, want = bytes.Join(append(append([][]byte{}, lines[:k]...), lines[k+1:]...), nil), k+1
		case "repeat":
			changed, want = bytes.Join(append(append([][]byte{}, lines[:k+1]...), lines[k:]...), nil), k+2
		case "swap":
			swapped := append([][]byte{}, lines...)
			swapped[k], swapped[j] = swapped[j], swapped[k]
			changed, want = bytes.Join(swapped, nil), k+1
		}
		_, err := Verify(bytes.NewReader(changed))
		var bad *ChainError
		if !errors.As(err, &bad) {
			rt.Fatalf("not found: %v\n%s", err, changed)
		}
		if bad.Line != uint64(want) {
			rt.Fatalf("found at line %d, want %d: %v\n%s", bad.Line, want, bad, changed)
		}
	})
}

// FuzzVerify: no input makes the reader fail in another way than with a
// ChainError, and what it accepts is exactly what would be written.
func FuzzVerify(f *testing.F) {
	log, lines := makeLog(f, someEntries(4)...)
	f.Add(log)
	f.Add([]byte{})
	f.Add(lines[0][:40])
	f.Add([]byte("{}\n"))
	f.Add([]byte("null\n"))
	f.Add(append(bytes.Clone(log), "\n"...))
	for _, d := range damages() {
		_, l := makeLog(f, someEntries(6)...)
		f.Add(bytes.Join(d.do(l), nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		report, err := Verify(bytes.NewReader(b))
		var bad *ChainError
		if err != nil && !errors.As(err, &bad) {
			t.Fatalf("Verify: %v", err)
		}
		if err == nil && report.Size != int64(len(b)) {
			t.Fatalf("sound, and covers %d of %d bytes", report.Size, len(b))
		}
		if again, err := Verify(bytes.NewReader(b[:report.Size])); err != nil || again.Head != report.Head {
			t.Fatalf("the sound part, %d bytes, verifies as %+v, %v", report.Size, again, err)
		}
	})
}

// FuzzCheckpoint: a checkpoint that is accepted is consistent and writes as it was read.
func FuzzCheckpoint(f *testing.F) {
	good, err := checkpoint{Version: 1, Seq: 7, Hash: ZeroHash, Size: 900, OpenFrom: 20}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:100])
	f.Add(bytes.Repeat([]byte{0}, checkpointLen))
	f.Add(bytes.Replace(good, []byte(`"size":900`), []byte(`"size":-90`), 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		cp, err := parseCheckpoint(b)
		if err != nil {
			return
		}
		out, err := cp.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseCheckpoint(out)
		if err != nil || *again != *cp {
			t.Fatalf("%+v reads back as %+v, %v", cp, again, err)
		}
	})
}

// TestVerifyFileCheckpoint: the checkpoint finds what the chain cannot, a tail
// that is gone.
func TestVerifyFileCheckpoint(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	for i := range 4 {
		mustAppend(t, l, decision(fmt.Sprint(i)))
		mustAppend(t, l, end(fmt.Sprint(i)))
	}
	mustClose(t, l)
	log := readLog(t, path)
	lines := bytes.SplitAfter(log, []byte("\n"))
	if r := mustVerify(t, path); r.Checkpoint != 8 {
		t.Errorf("checkpoint at %d, want 8", r.Checkpoint)
	}
	expect := func(what string, fault Fault) {
		t.Helper()
		_, err := VerifyFile(path)
		var bad *ChainError
		if !errors.As(err, &bad) || bad.Fault != fault {
			t.Errorf("%s: %v, want %s", what, err, fault)
		}
	}
	writeLog(t, path, bytes.Join(lines[:7], nil))
	expect("the last line removed", FaultCut)
	writeLog(t, path, nil)
	expect("all lines removed", FaultCut)

	forged, _ := makeLog(t, someEntries(8)...)
	writeLog(t, path, forged)
	expect("another log with as many entries", FaultCheckpoint)

	writeLog(t, path, log)
	mustVerify(t, path)
	if err := os.Truncate(checkpointPath(path), 10); err != nil {
		t.Fatal(err)
	}
	expect("a torn checkpoint", FaultCheckpoint)
	if err := os.Remove(checkpointPath(path)); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, path); r.Checkpoint != 0 || r.Entries != 8 {
		t.Errorf("without a checkpoint: %+v", r)
	}
}
