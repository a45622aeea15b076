package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// exported makes a log of n entries and its export.
func exported(t testing.TB, n int, f Filter, enc Encoder) (log, dir string, m Manifest) {
	t.Helper()
	log, dir = filepath.Join(t.TempDir(), "audit.jsonl"), filepath.Join(t.TempDir(), "out")
	text, _ := makeLog(t, someEntries(n)...)
	writeLog(t, log, text)
	m, err := Export(log, dir, f, enc, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return log, dir, m
}

func TestExportProvesItself(t *testing.T) {
	log, dir, m := exported(t, 6, Filter{}, Lines{})
	if !bytes.Equal(readLog(t, filepath.Join(dir, m.File)), readLog(t, log)) {
		t.Error("the export of everything is not the log")
	}
	if !m.Complete || m.Entries != 6 || m.First != 1 || m.Last != 6 || m.Prev != ZeroHash || m.Head != m.Log.Head || m.Log.Entries != 6 {
		t.Errorf("manifest %+v", m)
	}
	got, err := VerifyExport(dir)
	if err != nil || got.SHA256 != m.SHA256 {
		t.Errorf("verify: %+v, %v", got, err)
	}
	for _, name := range []string{".", m.File, ManifestName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be read by others: %v, %v", name, info.Mode(), err)
		}
	}

	_, dir, m = exported(t, 6, Filter{Since: epoch.Add(2 * time.Second), Until: epoch.Add(5 * time.Second)}, Lines{})
	if !m.Complete || m.First != 3 || m.Last != 5 || m.Log.Entries != 6 || m.Prev == ZeroHash {
		t.Errorf("a part of the log: %+v", m)
	}
	if _, err := VerifyExport(dir); err != nil {
		t.Errorf("a part of the log: %v", err)
	}
	_, dir, m = exported(t, 6, Filter{Kinds: []Kind{KindDecision}}, Lines{})
	if m.Complete || m.Entries != 3 {
		t.Errorf("a selection: %+v", m)
	}
	if _, err := VerifyExport(dir); err != nil {
		t.Errorf("a selection: %v", err)
	}
	_, dir, m = exported(t, 6, Filter{Tool: "none"}, Lines{})
	if _, err := VerifyExport(dir); err != nil || m.Entries != 0 {
		t.Errorf("nothing: %+v, %v", m, err)
	}
}

// TestEveryChangeOfAnExportIsFound flips each byte, and takes lines away.
func TestEveryChangeOfAnExportIsFound(t *testing.T) {
	for _, f := range []Filter{{}, {Kinds: []Kind{KindDecision}}} {
		_, dir, m := exported(t, 2, f, Lines{})
		path := filepath.Join(dir, m.File)
		sound := readLog(t, path)
		for i := range sound {
			changed := bytes.Clone(sound)
			changed[i] ^= 1
			writeLog(t, path, changed)
			if _, err := VerifyExport(dir); err == nil {
				t.Fatalf("byte %d was changed unnoticed: %q", i, changed)
			}
		}
		lines := bytes.SplitAfter(sound, []byte("\n"))
		for i := range lines[:len(lines)-1] {
			writeLog(t, path, bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil))
			if _, err := VerifyExport(dir); err == nil {
				t.Fatalf("line %d was removed unnoticed", i+1)
			}
		}
		writeLog(t, path, sound)
		if _, err := VerifyExport(dir); err != nil {
			t.Errorf("the twin: %v", err)
		}
	}
}

func TestBrokenLogsAreNotExported(t *testing.T) {
	log, _, _ := exported(t, 4, Filter{}, Lines{})
	text := readLog(t, log)
	writeLog(t, log, bytes.Replace(text, []byte(`"coder"`), []byte(`"CODER"`), 1))
	dir := filepath.Join(t.TempDir(), "out")
	var bad *ChainError
	if _, err := Export(log, dir, Filter{}, Lines{}, epoch); !errors.As(err, &bad) || bad.Fault != FaultHash || bad.Line != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := VerifyExport(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is left of it: %v, want no manifest", err)
	}
	writeLog(t, log, text)
	if _, err := Export(log, dir, Filter{}, Lines{}, epoch); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another export: %v", err)
	}
}

// FuzzManifest reads any manifest: it never leads out of its directory.
func FuzzManifest(f *testing.F) {
	_, dir, _ := exported(f, 2, Filter{}, Lines{})
	f.Add(readLog(f, filepath.Join(dir, ManifestName)))
	f.Add([]byte(`{"format":"sandgate-audit-export/1","file":"../../etc/passwd"}`))
	f.Add([]byte(`{"format":"sandgate-audit-export/1","file":".."}`))
	f.Add([]byte(`{"format":"sandgate-audit-export/1","file":"x","extra":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m Manifest
		if m.parse(text) == nil && (strings.ContainsRune(m.File, '/') || m.File == ".." || m.File == "" || m.File == ".") {
			t.Errorf("%q names the file %q", text, m.File)
		}
	})
}

// TestLongLogsAreNotHeldInMemory reads, verifies, exports and reopens a log of 24
// MB. What is reachable meanwhile stays far below that.
func TestLongLogsAreNotHeldInMemory(t *testing.T) {
	const entries, bulk = 3000, 8 << 10
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c := newChain()
	data := json.RawMessage(`{"x":"` + strings.Repeat("x", bulk) + `"}`)
	for i := range entries {
		e := someEntries(2)[i%2]
		e.Version, e.Seq, e.Prev, e.Data, e.Time = FormatVersion, c.seq+1, c.hash, data, epoch
		line, err := e.seal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(line); err != nil {
			t.Fatal(err)
		}
		c.advance(&e, len(line))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	const most = 4 << 20
	base := heap()
	check := func(what string, n int) {
		t.Helper()
		if n%1000 == 999 {
			if grown := int64(heap()) - int64(base); grown > most {
				t.Errorf("%s: %d bytes more are in use after %d entries", what, grown, n+1)
			}
		}
	}
	n := 0
	for _, err := range Query(path, Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		check("query", n)
		n++
	}
	if n != entries {
		t.Fatalf("%d entries", n)
	}
	n = 0
	if _, err := verifyFileWith(path, func(Entry) error { check("verify", n); n++; return nil }); err != nil || n != entries {
		t.Fatal(n, err)
	}
	if _, err := Export(path, filepath.Join(t.TempDir(), "out"), Filter{}, Lines{}, epoch); err != nil {
		t.Fatal(err)
	}
	l, _ := openAny(t, path, Options{Sync: SyncNever})
	check("open, which read all of it", 999)
	for i := range 1000 {
		mustAppend(t, l, decision("d"))
		mustAppend(t, l, end("d"))
		check("append", i)
	}
}

// heap is what.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
