package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// closedLog makes a log of n calls that are decided and ended, and closes it.
func closedLog(t *testing.T, n int) (path string) {
	t.Helper()
	path = logPath(t)
	l := mustOpen(t, path, Options{})
	for i := range n {
		mustAppend(t, l, decision(fmt.Sprint(i)))
		mustAppend(t, l, end(fmt.Sprint(i)))
	}
	mustClose(t, l)
	return path
}

func appendBytes(t *testing.T, path string, b []byte) {
	t.Helper()
	writeLog(t, path, append(readLog(t, path), b...))
}

// TestTornTail: half a line behind a sound log is kept in a file, cut off, and
// told in the log. The same holds for anything else behind the checkpoint.
func TestTornTail(t *testing.T) {
	for _, c := range []struct {
		name string
		tail string
		says Fault
	}{
		{"half a line", `{"v":1,"seq":5,"time":"2026-0`, FaultTorn},
		{"zeros of a block that was never written", strings.Repeat("\x00", 4096), FaultTorn},
		{"a damaged line and a whole one", "garbage\n{}\n", FaultJSON},
		{"one byte", "x", FaultTorn},
		{"an empty line", "\n", FaultJSON},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			path := closedLog(t, 2)
			sound := readLog(t, path)
			appendBytes(t, path, []byte(c.tail))
			l, r := openAny(t, path, Options{})
			if r.Torn == nil || r.Torn.Bytes != int64(len(c.tail)) || r.Torn.Fault != c.says {
				t.Fatalf("recovered %+v, want %d bytes, %s", r.Torn, len(c.tail), c.says)
			}
			kept := filepath.Join(filepath.Dir(path), r.Torn.File)
			if got := readLog(t, kept); string(got) != c.tail {
				t.Errorf("%s holds %q, want %q", r.Torn.File, got, c.tail)
			}
			mustAppend(t, l, decision("next"))
			mustAppend(t, l, end("next"))
			mustClose(t, l)
			mustVerify(t, path)
			if !bytes.HasPrefix(readLog(t, path), sound) {
				t.Error("the sound part of the log was touched")
			}
			if got := kindsOf(t, path); got[4] != KindRecovered || len(got) != 7 {
				t.Errorf("kinds %v", got)
			}
			mustOpen(t, path, Options{}) // nothing is left to recover
		})
	}
}

// TestTornTailOfAnother: a process finds the half line of another that died while
// both had the log open.
func TestTornTailOfAnother(t *testing.T) {
	path := closedLog(t, 1)
	l := mustOpen(t, path, Options{})
	appendBytes(t, path, []byte("half a li"))
	mustAppend(t, l, decision("c"))
	mustClose(t, l)
	if got, want := kindsOf(t, path), []Kind{KindDecision, KindEnd, KindRecovered, KindDecision}; !slices.Equal(got, want) {
		t.Errorf("kinds %v, want %v", got, want)
	}
	mustVerify(t, path)
}

// TestOwedEntry: a process that died after it had set the torn bytes aside, and
// before it could say so, leaves that to the next.
func TestOwedEntry(t *testing.T) {
	path := closedLog(t, 1)
	name := path + ".torn-3-deadbeef"
	writeLog(t, name, []byte("half a li"))
	l, r := openAny(t, path, Options{})
	mustClose(t, l)
	if r.Torn == nil || r.Torn.File != filepath.Base(name) || r.Torn.Bytes != 9 {
		t.Errorf("recovered %+v", r.Torn)
	}
	mustOpen(t, path, Options{}) // and is told once only
	if got := kindsOf(t, path); got[len(got)-1] != KindRecovered || len(got) != 3 {
		t.Errorf("kinds %v", got)
	}
}

// TestOpenRefusesCorrupt: what no crash explains is not repaired. Its twin is
// TestTornTail.
func TestOpenRefusesCorrupt(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, path string)
		says Fault
	}{
		{"a tail cut off", func(t *testing.T, p string) { cutLines(t, p, 3) }, FaultCut},
		{"an empty log", func(t *testing.T, p string) { writeLog(t, p, nil) }, FaultCut},
		{"a removed log", func(t *testing.T, p string) { remove(t, p) }, FaultCut},
		{"a changed last entry", func(t *testing.T, p string) {
			b := readLog(t, p)
			b[len(b)-20] ^= 1
			writeLog(t, p, b)
		}, FaultCheckpoint},
		{"another log", func(t *testing.T, p string) {
			log, _ := makeLog(t, someEntries(20)...)
			writeLog(t, p, log)
		}, FaultCheckpoint},
		{"a damaged line without a checkpoint", func(t *testing.T, p string) {
			remove(t, checkpointPath(p))
			writeLog(t, p, bytes.Replace(readLog(t, p), []byte(`"c`), []byte(`"d`), 1))
		}, FaultHash},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			path := closedLog(t, 2)
			c.do(t, path)
			before, _ := os.ReadFile(path)
			_, _, err := Open(path, Options{})
			var bad *ChainError
			if !errors.As(err, &bad) || bad.Fault != c.says || !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrUnavailable) {
				t.Errorf("Open: %v, want ErrCorrupt with %s", err, c.says)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("Open touched a log that it refused")
			}
		})
	}
}

func remove(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

func cutLines(t *testing.T, path string, keep int) {
	t.Helper()
	lines := bytes.SplitAfter(readLog(t, path), []byte("\n"))
	writeLog(t, path, bytes.Join(lines[:keep], nil))
}

// TestChangeWhileACallIsOpen: Open reads on from the oldest open call, and what it
// reads must lead to the checkpoint.
func TestChangeWhileACallIsOpen(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	for _, rec := range []Record{decision("a"), end("a"), decision("open"), decision("b"), end("b"), decision("c")} {
		mustAppend(t, l, rec)
	}
	mustClose(t, l)
	sound := readLog(t, path)
	cp, err := readCheckpoint(path)
	if err != nil || cp.Seq != 6 || bytes.Count(sound[:cp.OpenFrom], []byte("\n")) != 2 {
		t.Fatalf("checkpoint %+v, %v: want it to begin at line 3", cp, err)
	}
	again := mustOpen(t, path, Options{})
	if got := again.out.calls.ids(); fmt.Sprint(got) != "[{s1 open} {s1 c}]" {
		t.Errorf("open calls %v", got)
	}
	mustClose(t, again)
	for line := 2; line < 6; line++ {
		lines := bytes.SplitAfter(bytes.Clone(sound), []byte("\n"))
		lines[line][30] ^= 1
		writeLog(t, path, bytes.Join(lines, nil))
		if _, _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("line %d changed: Open: %v, want ErrCorrupt", line+1, err)
		}
	}
}

// TestLostCheckpoint: a log without a usable checkpoint opens, reads everything,
// and says so in the chain.
func TestLostCheckpoint(t *testing.T) {
	for name, lose := range map[string]func(string) error{
		"missing": os.Remove,
		"torn":    func(p string) error { return os.Truncate(p, 17) },
		"too_long": func(p string) error {
			return os.WriteFile(p, bytes.Repeat([]byte("x"), 1000), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := closedLog(t, 2)
			if err := lose(checkpointPath(path)); err != nil {
				t.Fatal(err)
			}
			l, r := openAny(t, path, Options{})
			if r.Checkpoint == "" {
				t.Error("Open does not tell that the checkpoint was lost")
			}
			mustClose(t, l)
			if rep := mustVerify(t, path); rep.Kinds[KindRecovered] != 1 || rep.Checkpoint != 5 {
				t.Errorf("report %+v", rep)
			}
			mustOpen(t, path, Options{})
		})
	}
}

// TestNewerFormat: the entries of a newer sandgate are not taken for damage.
func TestNewerFormat(t *testing.T) {
	path := closedLog(t, 1)
	lines := bytes.SplitAfter(readLog(t, path), []byte("\n"))
	last, _, err := parseLine(lines[1])
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{Version: 2, Seq: 3, Kind: "new", Prev: last.Hash, Time: epoch}
	line, err := e.seal()
	if err != nil {
		t.Fatal(err)
	}
	appendBytes(t, path, line)
	before := readLog(t, path)
	_, _, err = Open(path, Options{})
	var bad *ChainError
	if !errors.As(err, &bad) || bad.Fault != FaultVersion {
		t.Errorf("Open: %v, want %s", err, FaultVersion)
	}
	if !bytes.Equal(before, readLog(t, path)) {
		t.Error("Open touched the log")
	}
}

// TestInterruptedByReboot: whoever wrote under another boot id is dead.
func TestInterruptedByReboot(t *testing.T) {
	es := someEntries(3) // the third is a decision without an end
	for i := range es {
		es[i].Writer = "1.0.0.00000000-0000-0000-0000-000000000000"
	}
	log, _ := makeLog(t, es...)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	writeLog(t, path, log)
	l, r := openAny(t, path, Options{})
	if len(r.Interrupted) != 1 || r.Interrupted[0].Call != "c1" {
		t.Fatalf("interrupted %+v, want call c1", r.Interrupted)
	}
	mustClose(t, l)
	last := lastEntry(t, path)
	var data struct {
		Seq uint64 `json:"decision_seq"`
	}
	if err := json.Unmarshal(last.Data, &data); err != nil {
		t.Fatal(err)
	}
	if last.Kind != KindInterrupted || last.Call != "c1" || last.Session != "s1" || last.Tool != "shell" || data.Seq != 3 {
		t.Errorf("last entry %+v", last)
	}
	if rep := mustVerify(t, path); len(rep.Open) != 0 {
		t.Errorf("still open: %v", rep.Open)
	}
}

func lastEntry(t *testing.T, path string) (last Entry) {
	t.Helper()
	for e, err := range Tail(path, 1) {
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	return last
}

// TestRefusedDuplicateLeavesTheCallOpen: an agent that sends the id of a running
// call again is refused, and the running call is still running.
func TestRefusedDuplicateLeavesTheCallOpen(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	mustAppend(t, l, decision("a"))
	mustAppend(t, l, Record{Kind: KindRefused, Session: "s1", Call: "a"})
	if r := mustVerify(t, path); len(r.Open) != 1 {
		t.Errorf("open calls %v, want a", r.Open)
	}
	mustAppend(t, l, end("a"))
	if r := mustVerify(t, path); len(r.Open) != 0 {
		t.Errorf("open calls %v, want none", r.Open)
	}
}

func TestWriter(t *testing.T) {
	me, err := thisProcess()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseWriter(me.String()); err != nil || again != me {
		t.Errorf("%q reads back as %+v, %v", me, again, err)
	}
	with := func(change func(*writer)) string { w := me; change(&w); return w.String() }
	for name, c := range map[string]struct {
		writer string
		dead   bool
	}{
		"this process":                  {me.String(), false},
		"the same id, started earlier":  {with(func(w *writer) { w.Start-- }), true},
		"no such process":               {with(func(w *writer) { w.PID = 1<<22 + 1 }), true}, // above PID_MAX_LIMIT, proc(5)
		"another boot":                  {with(func(w *writer) { w.Boot = "x" }), true},
		"a boot without a name":         {with(func(w *writer) { w.Boot = unknownBoot; w.PID = 1<<22 + 1 }), false},
		"another pid namespace":         {with(func(w *writer) { w.Namespace++; w.PID = 1<<22 + 1 }), false},
		"a name that is not understood": {"somebody", false},
		"a negative process id":         {"-1.0.0.x", false},
		"no start time":                 {"1.x.0.b", false},
		"no namespace":                  {"1.0.x.b", false},
	} {
		if got := me.seesDead(c.writer); got != c.dead {
			t.Errorf("%s (%s): dead %v, want %v", name, c.writer, got, c.dead)
		}
	}
	nameless := me
	nameless.Boot = unknownBoot
	for _, boot := range []string{me.Boot, unknownBoot} {
		if w := with(func(w *writer) { w.Boot, w.PID = boot, 1<<22+1 }); nameless.seesDead(w) {
			t.Errorf("%s is dead for a process whose boot has no name", w)
		}
	}
}
