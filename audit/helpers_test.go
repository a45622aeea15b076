package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// epoch is the clock of tests that compare bytes.
var epoch = time.Date(2026, 7, 1, 10, 0, 0, 123456789, time.UTC)

// makeLog returns the bytes of a sound log, built without a disk, and its lines.
func makeLog(t testing.TB, entries ...Entry) (log []byte, lines [][]byte) {
	t.Helper()
	c := newChain()
	for i := range entries {
		e := entries[i]
		e.Version, e.Seq, e.Prev = FormatVersion, c.seq+1, c.hash
		if e.Time.IsZero() {
			e.Time = epoch.Add(time.Duration(i) * time.Second)
		}
		if e.Writer == "" {
			e.Writer = "4242.8812345.4026531836.b6d1be51-1655-4950-a753-01f3437eaca9"
		}
		line, err := e.seal()
		if err != nil {
			t.Fatal(err)
		}
		c.advance(&e, len(line))
		lines = append(lines, line)
	}
	return bytes.Join(lines, nil), lines
}

// someEntries are n entries of calls that are decided and ended in turn.
func someEntries(n int) []Entry {
	var es []Entry
	for i := range n {
		e := Entry{
			Kind: KindDecision, Session: "s1", Call: fmt.Sprintf("c%d", i/2), Peer: &Peer{1000, 1000, 77},
			Agent: "coder", Tool: "shell", Digest: "sha256:00",
			Data: json.RawMessage(fmt.Sprintf(`{"argv":["echo","%d"]}`, i)),
		}
		if i%2 == 1 {
			e.Kind, e.Data = KindEnd, json.RawMessage(`{"exit_code":0}`)
		}
		es = append(es, e)
	}
	return es
}

func logPath(t testing.TB) string { return filepath.Join(t.TempDir(), "state", "audit.jsonl") }

// mustOpen opens a log that has nothing to recover, and closes it with the test.
func mustOpen(t testing.TB, path string, o Options) *Log {
	t.Helper()
	l, r := openAny(t, path, o)
	if !r.Clean() {
		t.Fatalf("Open recovered %+v, want nothing", r)
	}
	return l
}

func openAny(t testing.TB, path string, o Options) (*Log, Recovery) {
	t.Helper()
	l, r, err := Open(path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() }) // the test closes it where that matters
	return l, r
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

func mustAppend(t testing.TB, l *Log, rec Record) Entry {
	t.Helper()
	e, err := l.Append(context.Background(), rec)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return e
}

// mustVerify verifies the log at path and returns the report.
func mustVerify(t testing.TB, path string) Report {
	t.Helper()
	r, err := VerifyFile(path)
	if err != nil {
		t.Fatalf("VerifyFile: %v", err)
	}
	return r
}

func decision(call string) Record {
	return Record{Kind: KindDecision, Session: "s1", Call: call, Tool: "shell", Data: map[string]any{"argv": []string{"true"}}}
}

func end(call string) Record {
	return Record{Kind: KindEnd, Session: "s1", Call: call, Tool: "shell", Data: map[string]any{"exit_code": 0}}
}

func readLog(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeLog(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// kindsOf lists the kinds in the log at path, in order.
func kindsOf(t testing.TB, path string) []Kind {
	t.Helper()
	var kinds []Kind
	for e, err := range Query(path, Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
	}
	return kinds
}
