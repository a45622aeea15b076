package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// seqs collects the numbers of entries, and the lines of bad ones as negatives.
func seqs(t *testing.T, entries iter.Seq2[Entry, error]) []int {
	t.Helper()
	var got []int
	for e, err := range entries {
		var bad *ChainError
		switch {
		case errors.As(err, &bad):
			got = append(got, -int(bad.Line))
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, int(e.Seq))
		}
	}
	return got
}

func TestQuery(t *testing.T) {
	es := someEntries(8)
	es[4].Tool, es[5].Tool = "read_file", "read_file"
	es[6].Session, es[7].Session = "s2", "s2"
	es[7].Agent = "other"
	log, _ := makeLog(t, es...)
	path := filepath.Join(t.TempDir(), "log")
	writeLog(t, path, log)
	for _, c := range []struct {
		name string
		f    Filter
		want []int
	}{
		{"all", Filter{}, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{"tool", Filter{Tool: "read_file"}, []int{5, 6}},
		{"session", Filter{Session: "s2"}, []int{7, 8}},
		{"call", Filter{Call: "c1"}, []int{3, 4}},
		{"agent", Filter{Agent: "other"}, []int{8}},
		{"kind", Filter{Kinds: []Kind{KindEnd}}, []int{2, 4, 6, 8}},
		{"two kinds", Filter{Kinds: []Kind{KindEnd, KindDecision}, Call: "c0"}, []int{1, 2}},
		{"since, inclusive", Filter{Since: epoch.Add(6 * time.Second)}, []int{7, 8}},
		{"until, exclusive", Filter{Until: epoch.Add(2 * time.Second)}, []int{1, 2}},
		{"several", Filter{Session: "s1", Tool: "shell", Kinds: []Kind{KindDecision}, Since: epoch.Add(time.Second)}, []int{3}},
		{"none", Filter{Tool: "nosuch"}, nil},
	} {
		if got := seqs(t, Query(path, c.f)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestQueryGoesOn: one bad line does not hide the good ones behind it.
func TestQueryGoesOn(t *testing.T) {
	_, lines := makeLog(t, someEntries(5)...)
	lines[1] = []byte("damaged\n")
	lines[4] = lines[4][:30]
	path := filepath.Join(t.TempDir(), "log")
	writeLog(t, path, bytes.Join(lines, nil))
	if got := seqs(t, Query(path, Filter{})); fmt.Sprint(got) != "[1 -2 3 4 -5]" {
		t.Errorf("got %v", got)
	}
	if got := seqs(t, Query(path, Filter{Call: "c1"})); fmt.Sprint(got) != "[-2 3 4 -5]" {
		t.Errorf("with a filter: got %v", got)
	}
}

func TestQueryStops(t *testing.T) {
	log, _ := makeLog(t, someEntries(5)...)
	path := filepath.Join(t.TempDir(), "log")
	writeLog(t, path, log)
	n := 0
	for range Query(path, Filter{}) {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d entries after a break at 2", n)
	}
	for _, err := range Query(path+".nosuch", Filter{}) {
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a missing log: %v", err)
		}
	}
}

func TestTail(t *testing.T) {
	log, _ := makeLog(t, someEntries(600)...) // more than one block of reading backwards
	path := filepath.Join(t.TempDir(), "log")
	writeLog(t, path, log)
	for _, n := range []int{0, 1, 2, 10, 500, 599, 600, 601, 10000} {
		got := seqs(t, Tail(path, n))
		if len(got) != min(n, 600) {
			t.Errorf("Tail(%d) has %d entries", n, len(got))
		}
		if len(got) > 0 && (got[0] != 601-len(got) || got[len(got)-1] != 600) {
			t.Errorf("Tail(%d) goes from %d to %d", n, got[0], got[len(got)-1])
		}
	}
	writeLog(t, path, nil)
	if got := seqs(t, Tail(path, 5)); got != nil {
		t.Errorf("the tail of an empty log: %v", got)
	}
}

// TestFollow: each entry arrives once, in order, also across a log that is moved
// away and begun anew.
func TestFollow(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	mustAppend(t, l, decision("old"))
	mustAppend(t, l, decision("first"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var got []string
	for e, err := range Follow(ctx, path, 1, time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Call)
		switch e.Call {
		case "first":
			mustAppend(t, l, decision("second"))
		case "second":
			mustClose(t, l)
			for _, name := range []string{path, checkpointPath(path)} {
				if err := os.Rename(name, name+".1"); err != nil {
					t.Fatal(err)
				}
			}
			l = mustOpen(t, path, Options{})
			mustAppend(t, l, decision("new log"))
		case "new log":
			cancel()
		}
	}
	if fmt.Sprint(got) != "[first second new log]" {
		t.Errorf("followed %q", got)
	}
}
