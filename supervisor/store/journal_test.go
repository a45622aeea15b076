package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
)

// waiterEnv makes the test binary a process that leaves requests behind.
const waiterEnv = "STORE_TEST_WAITER"

func request(n int) approval.Pending {
	return approval.Pending{
		ID: fmt.Sprint("req-", n), SessionID: "s", ToolName: "shell", Description: "Execute: ls \x1b[2J", Digest: "sha256:1",
		Payload: map[string]any{"command": "ls", "n": json.Number("1e400")}, Requested: time.Unix(int64(n), 0).UTC(),
	}
}

// TestRequestsOutliveTheirProcess: what is noted is found once the process is
// gone, and not before; discarded, it is gone.
func TestRequestsOutliveTheirProcess(t *testing.T) {
	dir := t.TempDir()
	j := NewJournal(dir)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Fatalf("before the first request the directory has %v", left)
	}
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			if err := j.Add(request(n)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := j.Remove("req-7"); err != nil {
		t.Fatal(err)
	}
	if left := find(t, dir); len(left.Waiting()) != 0 {
		t.Errorf("a process that lives has left %v", left.Waiting())
	}
	if st, err := os.Stat(j.path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	left := find(t, dir)
	if got := left.Waiting(); len(got) != 19 || got[7].ID != "req-8" || got[0].Description != "Execute: ls \x1b[2J" || got[0].Payload["command"] != "ls" || got[0].Payload["n"] != json.Number("1e400") {
		t.Errorf("found %+v", got)
	}
	if other := find(t, dir); len(other.Waiting()) != 0 {
		t.Errorf("two processes take the same: %v", other.Waiting())
	}
	if err := left.Close(); err != nil { // a process that dies before it has recorded them
		t.Fatal(err)
	}
	left = find(t, dir)
	if len(left.Waiting()) != 19 {
		t.Errorf("the next one finds %d", len(left.Waiting()))
	}
	if err := left.Discard(); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("left in the directory: %v", files)
	}
}

func find(t *testing.T, dir string) *Orphans {
	t.Helper()
	left, err := FindOrphans(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { left.Close() })
	return left
}

// TestAnEmptyJournalLeavesNoFile: a supervisor that ends in peace leaves nothing.
func TestAnEmptyJournalLeavesNoFile(t *testing.T) {
	dir := t.TempDir()
	j := NewJournal(dir)
	if err := j.Add(request(1)); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"req-1", "unheard of"} {
		if err := j.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("left in the directory: %v", files)
	}
}

// TestKilledJournalsLoseNothing: each request that was acknowledged is found.
func TestKilledJournalsLoseNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), waiterEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := 0
	for acknowledged < 5 {
		var id string
		if _, err := fmt.Fscan(out, &id); err != nil || !strings.HasPrefix(id, "req-") {
			t.Fatalf("%q, %v", id, err)
		}
		acknowledged++
	}
	if left := find(t, dir); len(left.Waiting()) != 0 {
		t.Errorf("while it lives: %v", left.Waiting())
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if got := find(t, dir).Waiting(); len(got) < acknowledged {
		t.Errorf("%d of %d requests are left", len(got), acknowledged)
	}
}

// waitForever notes requests, and prints the id of each once it is kept.
func waitForever(dir string) {
	j := NewJournal(dir)
	for n := 0; ; n++ {
		if err := j.Add(request(n)); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println(request(n).ID)
	}
}

// TestJournalsThatAreNotOurs are refused, and what died before it wrote is removed.
func TestJournalsThatAreNotOurs(t *testing.T) {
	for name, x := range map[string]struct {
		make func(string) error
		ok   bool
	}{
		"empty":   {func(p string) error { return os.WriteFile(p, nil, 0o600) }, true},
		"damaged": {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 1<<16)), 0o600) }, false},
		"open":    {func(p string) error { return os.WriteFile(p, []byte("x"), 0o666) }, false},
		"link":    {func(p string) error { return os.Symlink("/etc/passwd", p) }, false},
		"pipe":    {func(p string) error { return unix.Mkfifo(p, 0o600) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "pending-x.db")
			if err := x.make(path); err != nil {
				t.Fatal(err)
			}
			if name == "open" {
				if err := os.Chmod(path, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			left, err := FindOrphans(dir)
			if (err == nil) != x.ok {
				t.Errorf("%v", err)
			}
			if x.ok {
				if files, _ := os.ReadDir(dir); len(files) != 0 || len(left.Waiting()) != 0 {
					t.Errorf("left %v", files)
				}
			}
		})
	}
}

// TestJournalsThatCannotBeWritten say so, and nobody is asked.
func TestJournalsThatCannotBeWritten(t *testing.T) {
	j := NewJournal(filepath.Join(t.TempDir(), "missing"))
	var e *Error
	if err := j.Add(request(1)); !errors.As(err, &e) || e.Op != "note in" {
		t.Errorf("%v", err)
	}
}
