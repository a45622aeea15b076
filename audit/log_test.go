package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestAppendAndReadBack(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{Now: func() time.Time { return epoch }})
	rec := Record{
		Kind: KindDecision, Session: "s", Call: "c", Peer: &Peer{1, 2, 3}, Agent: "a", Tool: "t", Digest: "d",
		Data: map[string]any{"n": 1, "s": "x > y"},
	}
	e := mustAppend(t, l, rec)
	if e.Seq != 1 || e.Prev != ZeroHash || !e.Time.Equal(epoch) || string(e.Data) != `{"n":1,"s":"x > y"}` {
		t.Errorf("entry %+v", e)
	}
	next := mustAppend(t, l, end("c"))
	if next.Seq != 2 || next.Prev != e.Hash {
		t.Errorf("the second entry does not follow the first: %+v", next)
	}
	mustClose(t, l)
	var got []Entry
	for e, err := range Query(path, Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if diff := cmp.Diff([]Entry{e, next}, got); diff != "" {
		t.Errorf("Append returned something else than what is in the log (-returned +read):\n%s", diff)
	}
}

func TestReopenContinues(t *testing.T) {
	path := logPath(t)
	for i := range 3 {
		l := mustOpen(t, path, Options{})
		if e := mustAppend(t, l, decision("c")); e.Seq != uint64(2*i+1) {
			t.Errorf("opened again: entry %d, want %d", e.Seq, 2*i+1)
		}
		mustAppend(t, l, end("c"))
		mustClose(t, l)
	}
	if r := mustVerify(t, path); r.Entries != 6 || r.Checkpoint != 6 {
		t.Errorf("report %+v", r)
	}
}

// A countingDisk knows how many syncs it has done.
type countingDisk struct {
	disk
	syncs atomic.Int32
}

func (d *countingDisk) SyncData() error {
	err := d.disk.SyncData()
	d.syncs.Add(1)
	return err
}

// TestDecisionIsSynced: a decision is on the disk when Append returns, and Submit does
// not wait for that.
func TestDecisionIsSynced(t *testing.T) {
	for _, c := range []struct {
		mode          SyncMode
		decision, end int32 // syncs after each
	}{
		{"", 1, 1}, {SyncDecision, 1, 1}, {SyncAlways, 1, 2}, {SyncNever, 0, 0},
	} {
		path := logPath(t)
		l := mustOpen(t, path, Options{Sync: c.mode})
		d := &countingDisk{disk: l.out.file}
		l.out.file = d
		mustAppend(t, l, decision("c"))
		if n := d.syncs.Load(); n != c.decision {
			t.Errorf("sync %q, after a decision: %d syncs, want %d", c.mode, n, c.decision)
		}
		mustAppend(t, l, end("c"))
		if n := d.syncs.Load(); n != c.end {
			t.Errorf("sync %q, after an end: %d syncs, want %d", c.mode, n, c.end)
		}
		mustClose(t, l)
	}
}

// TestSubmitKeepsTheOrder: what is submitted is in the log in that order, and Wait
// returns it as it was written.
func TestSubmitKeepsTheOrder(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	var pending []*Pending
	for _, r := range []Record{decision("a"), end("a"), decision("b")} {
		p, err := l.Submit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	for i, p := range pending {
		if e, err := p.Wait(t.Context()); err != nil || e.Seq != uint64(i+1) {
			t.Errorf("entry %d: %d, %v", i+1, e.Seq, err)
		}
	}
	mustClose(t, l)
	if _, err := l.Submit(t.Context(), decision("c")); !errors.Is(err, ErrClosed) {
		t.Errorf("submitted to a closed log: %v", err)
	}
}

// TestCheckpointFollows: the checkpoint comes after a synced entry by itself, or after
// so many of them, and never covers one that is not synced.
func TestCheckpointFollows(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	defer mustClose(t, l)
	reached := func(want uint64) {
		t.Helper()
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			cp, err := readCheckpoint(path)
			if err != nil || cp.Seq > want || time.Since(start) > time.Minute {
				t.Fatalf("checkpoint %+v, %v; want entry %d", cp, err, want)
			}
			if cp.Seq == want {
				return
			}
		}
	}
	mustAppend(t, l, decision("c"))
	p, err := l.Submit(t.Context(), end("c"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	reached(1)
	for range markEvery {
		mustAppend(t, l, decision("c"))
	}
	reached(2 + markEvery)
}

// TestConcurrentAppends also has two logs on one file, as two processes have: the
// lock belongs to the open file, not to the process.
func TestConcurrentAppends(t *testing.T) {
	defer goleak.VerifyNone(t)
	const writers, each = 8, 25
	path := logPath(t)
	logs := []*Log{mustOpen(t, path, Options{}), mustOpen(t, path, Options{})}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d-%d", w, i)
				for _, rec := range []Record{decision(id), end(id)} {
					if _, err := logs[w%2].Append(context.Background(), rec); err != nil {
						t.Errorf("Append: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	for _, l := range logs {
		mustClose(t, l)
	}
	r := mustVerify(t, path)
	if r.Entries != 2*writers*each || len(r.Open) != 0 || r.Checkpoint != r.Entries {
		t.Errorf("report %+v, want %d entries, none open, all behind the checkpoint", r, 2*writers*each)
	}
}

func TestAppendRefusesRecords(t *testing.T) {
	l := mustOpen(t, logPath(t), Options{})
	for name, rec := range map[string]Record{
		"no kind":         {},
		"unknown kind":    {Kind: "other"},
		"the log's own":   {Kind: KindRecovered},
		"interrupted":     {Kind: KindInterrupted},
		"no JSON":         {Kind: KindEnd, Data: func() {}},
		"an endless name": {Kind: KindEnd, Session: strings.Repeat("x", MaxLine)},
	} {
		if _, err := l.Append(context.Background(), rec); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: Append: %v, want ErrUnavailable", name, err)
		}
	}
	if e := mustAppend(t, l, decision("c")); e.Seq != 1 {
		t.Errorf("the next good record is entry %d, want 1", e.Seq)
	}
}

// TestBadRecordSparesItsBatch: one record that cannot be written does not take
// down those that share its write.
func TestBadRecordSparesItsBatch(t *testing.T) {
	l := mustOpen(t, logPath(t), Options{})
	defer mustClose(t, l)
	good := func(call string) *request {
		return &request{entry: Entry{Kind: KindEnd, Call: call}, done: make(chan error, 1)}
	}
	bad := good(strings.Repeat("x", MaxLine))
	batch := []*request{good("1"), bad, good("2")}
	l.commit(batch)
	for i, r := range batch {
		if err := <-r.done; (err != nil) != (r == bad) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if r := mustVerify(t, l.Path()); r.Entries != 2 {
		t.Errorf("%d entries, want 2", r.Entries)
	}
}

func TestAppendAfterClose(t *testing.T) {
	l := mustOpen(t, logPath(t), Options{})
	mustAppend(t, l, decision("c"))
	mustClose(t, l)
	mustClose(t, l)
	_, err := l.Append(context.Background(), end("c"))
	if !errors.Is(err, ErrClosed) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Append after Close: %v", err)
	}
}

// TestAppendGivesUp: a context that ends frees the caller while the log is stuck,
// here behind the lock of somebody else.
func TestAppendGivesUp(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	unlock, err := lock(other, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Append(ctx, decision("a")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnavailable) {
		t.Errorf("Append behind a lock: %v", err)
	}
	if _, err := l.Append(ctx, decision("b")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Append with an ended context: %v", err)
	}
	unlock()
	mustAppend(t, l, decision("c"))
}

// TestReplacedLog: entries do not go to a file that nobody will find.
func TestReplacedLog(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(p string) error { return os.Rename(p, p+".1") },
		"replaced": func(p string) error {
			return errors.Join(os.Rename(p, p+".1"), os.WriteFile(p, nil, 0o600))
		},
	} {
		path := logPath(t)
		l := mustOpen(t, path, Options{})
		mustAppend(t, l, decision("c"))
		if err := replace(path); err != nil {
			t.Fatal(err)
		}
		_, err := l.Append(context.Background(), end("c"))
		if !errors.Is(err, errReplaced) || !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: Append: %v", name, err)
		}
	}
}

func TestShrunkLog(t *testing.T) {
	path := logPath(t)
	l := mustOpen(t, path, Options{})
	mustAppend(t, l, decision("c"))
	if err := os.Truncate(path, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(context.Background(), end("c")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("Append to a log that shrank: %v, want ErrCorrupt", err)
	}
}

func TestOpenModes(t *testing.T) {
	path := logPath(t)
	old := syscall.Umask(0) // what would show a mode that relies on the umask
	defer syscall.Umask(old)
	l := mustOpen(t, path, Options{})
	mustAppend(t, l, decision("c"))
	for name, want := range map[string]os.FileMode{
		filepath.Dir(path): 0o700, path: 0o600, checkpointPath(path): 0o600,
	} {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, st.Mode().Perm(), want)
		}
	}
	flags, err := unix.FcntlInt(l.out.file.(osFile).Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: a tool would inherit the log", flags, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	write := func(mode os.FileMode) func(string) error {
		return func(p string) error { return errors.Join(os.WriteFile(p, nil, mode), os.Chmod(p, mode)) }
	}
	cases := []struct {
		name  string
		make  func(path string) error
		cause error // nil: Open succeeds
	}{
		{"a file of our own", write(0o600), nil},
		{"a file that others can read", write(0o644), nil},
		{"a file that the group can write to", write(0o620), errUnsafe},
		{"a file that all can write to", write(0o602), errUnsafe},
		{"a symbolic link", func(p string) error {
			return errors.Join(os.WriteFile(p+".real", nil, 0o600), os.Symlink(p+".real", p))
		}, errUnsafe},
		{"a dangling link", func(p string) error { return os.Symlink(p+".real", p) }, errUnsafe},
		{"a hard link", func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Link(p, p+".2"))
		}, errUnsafe},
		{"a fifo", func(p string) error { return unix.Mkfifo(p, 0o600) }, errUnsafe},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o700) }, unix.EISDIR},
		{"a directory that all can write to", func(p string) error { return os.Chmod(filepath.Dir(p), 0o777) }, errUnsafe},
		{"a sticky directory", func(p string) error { return os.Chmod(filepath.Dir(p), 0o777|os.ModeSticky) }, nil},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			l, _, err := Open(path, Options{})
			if c.cause == nil {
				if err != nil {
					t.Fatalf("Open: %v", err)
				}
				mustClose(t, l)
				return
			}
			if !errors.Is(err, c.cause) || !errors.Is(err, ErrUnavailable) {
				t.Errorf("Open: %v, want %v", err, c.cause)
			}
		})
	}
}

func TestOpenRefusesOptions(t *testing.T) {
	if _, _, err := Open(logPath(t), Options{Sync: "sometimes"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
}

func TestDefaultPath(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/sandgate/audit.jsonl"},
		{"", "/h", "/h/.local/state/sandgate/audit.jsonl"},
		{"relative", "/h", "/h/.local/state/sandgate/audit.jsonl"},
		{"", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		got, err := DefaultPath()
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("XDG_STATE_HOME=%q HOME=%q: %q, %v; want %q", c.state, c.home, got, err, c.want)
		}
	}
}

// TestHints: an error that a person can do something about says what.
func TestHints(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EACCES, ErrCorrupt, errUnsafe, errReplaced, errSync} {
		if (&Error{"append to", "/l", cause}).Hint() == "" {
			t.Errorf("no hint for %v", cause)
		}
	}
}
