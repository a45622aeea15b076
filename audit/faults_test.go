package audit

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

// A faultyDisk fails on request, as a disk that dies does.
type faultyDisk struct {
	disk
	write, truncate, sync error
	// half makes a failing write leave half of its bytes.
	half bool
}

func (f *faultyDisk) Write(b []byte) (int, error) {
	if f.write == nil {
		return f.disk.Write(b)
	}
	n := 0
	if f.half {
		n, _ = f.disk.Write(b[:len(b)/2])
	}
	return n, f.write
}

func (f *faultyDisk) Truncate(size int64) error {
	if f.truncate != nil {
		return f.truncate
	}
	return f.disk.Truncate(size)
}

func (f *faultyDisk) SyncData() error {
	if f.sync != nil {
		return f.sync
	}
	return f.disk.SyncData()
}

// openFaulty opens a log whose disk is in the test's hands. The test changes the
// disk only while no append is under way.
func openFaulty(t testing.TB, path string) (*Log, *faultyDisk) {
	t.Helper()
	l := mustOpen(t, path, Options{})
	d := &faultyDisk{disk: l.out.file}
	l.out.file = d
	return l, d
}

func TestWriteErrorIsTakenBack(t *testing.T) {
	path := logPath(t)
	l, d := openFaulty(t, path)
	mustAppend(t, l, decision("a"))
	d.write, d.half = syscall.EIO, true
	if _, err := l.Append(context.Background(), decision("b")); !errors.Is(err, syscall.EIO) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Append: %v, want EIO", err)
	}
	if r := mustVerify(t, path); r.Entries != 1 {
		t.Errorf("%d entries after a failed write, want 1", r.Entries)
	}
	d.write = nil
	if e := mustAppend(t, l, decision("c")); e.Seq != 2 {
		t.Errorf("entry %d, want 2", e.Seq)
	}
	mustClose(t, l)
	mustVerify(t, path)
}

// TestWriteErrorThatStays: when the disk does not even take the half line back, the
// next append that works sets it aside.
func TestWriteErrorThatStays(t *testing.T) {
	path := logPath(t)
	l, d := openFaulty(t, path)
	mustAppend(t, l, decision("a"))
	d.write, d.truncate, d.half = syscall.EIO, syscall.EIO, true
	for range 2 {
		if _, err := l.Append(context.Background(), decision("b")); !errors.Is(err, syscall.EIO) {
			t.Errorf("Append: %v, want EIO", err)
		}
	}
	d.write, d.truncate = nil, nil
	mustAppend(t, l, decision("c"))
	mustClose(t, l)
	mustVerify(t, path)
	if got, want := kindsOf(t, path), []Kind{KindDecision, KindRecovered, KindDecision}; !slices.Equal(got, want) {
		t.Errorf("kinds %v, want %v", got, want)
	}
}

// TestSyncErrorIsFinal: a sync that works after one that failed proves nothing, so
// the log stays shut until it is opened anew.
func TestSyncErrorIsFinal(t *testing.T) {
	path := logPath(t)
	l, d := openFaulty(t, path)
	mustAppend(t, l, decision("a"))
	d.sync = syscall.EIO
	if _, err := l.Append(context.Background(), decision("b")); !errors.Is(err, errSync) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Append: %v", err)
	}
	d.sync = nil
	if _, err := l.Append(context.Background(), end("a")); !errors.Is(err, errSync) {
		t.Errorf("Append after a failed sync: %v", err)
	}
	if err := l.Close(); !errors.Is(err, errSync) {
		t.Errorf("Close: %v", err)
	}
	if r := mustVerify(t, path); r.Entries != 1 {
		t.Errorf("%d entries, want the one that was synced", r.Entries)
	}
	l = mustOpen(t, path, Options{})
	if e := mustAppend(t, l, end("a")); e.Seq != 2 {
		t.Errorf("entry %d, want 2", e.Seq)
	}
}

// TestFaultsKeepTheChain: after any sequence of faults the log verifies, and holds
// every entry that Append returned, in order.
func TestFaultsKeepTheChain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := logPath(t)
		l, d := openFaulty(t, path)
		var acked []string
		for range rapid.IntRange(1, 12).Draw(rt, "appends") {
			*d = faultyDisk{disk: d.disk, half: rapid.Bool().Draw(rt, "half")}
			if rapid.Bool().Draw(rt, "write fails") {
				d.write = syscall.ENOSPC
			}
			if rapid.Bool().Draw(rt, "truncate fails") {
				d.truncate = syscall.EIO
			}
			if rapid.IntRange(0, 9).Draw(rt, "sync fails") == 0 {
				d.sync = syscall.EIO
			}
			if e, err := l.Append(context.Background(), decision("c")); err == nil {
				acked = append(acked, e.Hash)
			}
		}
		*d = faultyDisk{disk: d.disk}
		_ = l.Close() // it fails after a failed sync
		again, _ := openAny(t, path, Options{})
		mustClose(t, again)
		mustVerify(t, path)
		for e, err := range Query(path, Filter{}) {
			if err != nil {
				rt.Fatal(err)
			}
			if len(acked) > 0 && e.Hash == acked[0] {
				acked = acked[1:]
			}
		}
		if len(acked) > 0 {
			rt.Fatalf("%d acknowledged entries are not in the log", len(acked))
		}
	})
}
