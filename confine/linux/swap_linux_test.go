package linux_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestSwappedDirectoriesAreNotMounted is another call of the same session that
// exchanges a directory of the workspace for a link, over and over, while
// sandboxes are built. bubblewrap finds what it mounts by path: without a look
// at what came of it, the directory behind the link would be mounted, writable.
func TestSwappedDirectoriesAreNotMounted(t *testing.T) {
	ws, outside := confinetest.Workspace(t), confinetest.Workspace(t)
	for _, dir := range []string{ws + "/a/.git/hooks", outside + "/.git/hooks"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside+"/secret", []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../"+filepath.Base(outside), ws+"/link"); err != nil {
		t.Fatal(err)
	}
	b := newBwrap(t)
	build := func() (leaked bool, err error) {
		box, err := b.Prepare(context.Background(), confinetest.Profile(t, ws))
		if err != nil {
			return false, err
		}
		defer box.Close()
		var out bytes.Buffer
		script := "cat " + ws + "/a/secret " + ws + "/link/secret 2>/dev/null; touch " + ws + "/a/planted " + ws + "/link/planted 2>/dev/null; true"
		_, err = box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/bin/bash", Argv: []string{"bash", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
		}}, confine.Stdio{Stdout: &out})
		return strings.Contains(out.String(), "hunter2"), err
	}
	if leaked, err := build(); leaked || err != nil {
		t.Fatalf("before any swap: leaked %v, %v", leaked, err)
	}

	stop := exchange(ws+"/a", ws+"/link", func() { // a link that a call seems to have made goes into the quarantine
		for _, name := range []string{"/a", "/link"} {
			_ = os.Symlink("../"+filepath.Base(outside), ws+name) // where the other one stands it fails
		}
	})
	built, refused, noticed := 0, 0, 0
	for start := time.Now(); racing(start, 10*time.Second, built > 0 && refused > 0); {
		leaked, err := build()
		if leaked {
			t.Fatalf("a directory outside was mounted, after %d sandboxes and %d refusals", built, refused)
		}
		if err != nil {
			refused++
			var u *confine.Unenforceable
			if errors.As(err, &u) && u.Part == "check the mounts" {
				noticed++
			}
		} else {
			built++
		}
	}
	stop()
	if _, err := os.Lstat(outside + "/planted"); err == nil {
		t.Error("a file was written outside")
	}
	if built == 0 || refused == 0 {
		t.Errorf("%d built, %d refused: the race was not run", built, refused)
	}
	t.Logf("%d built, %d refused, %d of them by what was mounted", built, refused, noticed)
}

// exchange swaps two names over and over until stop is called. Where one of them
// has gone, mend makes it again.
func exchange(a, b string, mend func()) (stop func()) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-ended:
				return
			case <-time.After(rand.N(3 * time.Millisecond)): // so that swaps fall into every phase of a build
				if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) != nil {
					mend()
				}
			}
		}
	}()
	return func() { close(ended); <-stopped }
}

// racing says whether a race that began at start goes on: for the usual time, and
// up to a minute for one that has not yet gone both ways. Which way a round goes is
// the machine's choice, and a slow one takes more rounds.
func racing(start time.Time, usual time.Duration, bothWays bool) bool {
	spent := time.Since(start)
	return spent < usual || !bothWays && spent < time.Minute
}

// TestMovedDirectoriesStayCovered is somebody who renames the directory above a
// hidden file while sandboxes are built. A cover that is mounted by name lands in
// another directory then, and the file lies open; and bubblewrap makes the mount
// point that it does not find. Neither is left.
func TestMovedDirectoriesStayCovered(t *testing.T) {
	ws := confinetest.Workspace(t)
	for _, dir := range []string{"/s/deep", "/t"} {
		if err := os.MkdirAll(ws+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"/s/.env", "/s/deep/.env"} {
		if err := os.WriteFile(ws+file, []byte("hunter2"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := newBwrap(t)
	own := inodes(t, ws)
	stop := exchange(ws+"/s", ws+"/t", func() {})
	built, refused, denied, said := 0, 0, 0, 0
	for start := time.Now(); racing(start, 3*time.Second, denied > 0 && refused > 0); {
		refill(t, ws)
		box, err := b.Prepare(context.Background(), confinetest.Profile(t, ws))
		if err != nil {
			refused++
			if strings.Contains(err.Error(), mayBeStub) {
				said++
			}
			continue
		}
		built++
		if w, ok := box.(confine.Warned); ok && strings.Contains(strings.Join(w.Warnings(), " "), mayBeStub) {
			said++
		}
		o := confinetest.ExecIn(t, context.Background(), box, "/", nil, "/bin/bash", "-c", "cat "+ws+"/*/.env "+ws+"/*/deep/.env")
		box.Close()
		if strings.Contains(o.Err, "Permission denied") {
			denied++
		}
		if strings.Contains(o.Out, "hunter2") {
			t.Fatalf("after %d sandboxes and %d refusals: %q %q", built, refused, o.Out, o.Err)
		}
	}
	stop()
	t.Logf("%d built, %d refused, the file denied in %d, what may be a stub named in %d", built, refused, denied, said)
	if denied == 0 || refused == 0 {
		t.Error("the race was not run")
	}
	left := inodes(t, ws)
	for inode, name := range own {
		if left[inode] == "" {
			t.Errorf("%s was removed", name)
		}
		delete(left, inode)
	}
	if len(left) > 0 && said == 0 {
		t.Errorf("left are %v, and nobody was told", left)
	}
}

// mayBeStub is what is said of a file that bubblewrap may have made.
const mayBeStub = "may be an empty mount point"

// inodes gives everything in dir by its number.
func inodes(t *testing.T, dir string) map[uint64]string {
	t.Helper()
	found := map[uint64]string{}
	for _, name := range tree(t, dir) {
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			t.Fatal(err)
		}
		found[st.Ino] = name
	}
	return found
}

// refill writes the secret again into files that bubblewrap has emptied: between its
// look at a mount point that is not there and its making of one, a file may have
// come (creat(2) truncates). A tool cannot do that: see ParentsOfHiddenArePinned.
func refill(t *testing.T, ws string) {
	t.Helper()
	for _, name := range tree(t, ws) {
		if info, err := os.Stat(name); err == nil && info.Size() == 0 && info.Mode() == 0o600 {
			_ = os.WriteFile(name, []byte("hunter2"), 0o600) // moved meanwhile: the next time
		}
	}
}

// TestMountPointsAreNotLeft: bubblewrap makes, in a workspace, the mount point and
// the directories above it that have vanished; they are gone when Prepare fails, or
// named.
func TestMountPointsAreNotLeft(t *testing.T) {
	ws := confinetest.Workspace(t)
	if err := os.MkdirAll(ws+"/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ws+"/a/b/.env", []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBwrap(t)
	away := confinetest.Workspace(t)
	failed, said := 0, 0
	for range 40 {
		moved := make(chan error, 1)
		pause := rand.N(4 * time.Millisecond)
		go func() {
			time.Sleep(pause) // somewhere in the build
			moved <- os.Rename(ws+"/a", away+"/a")
		}()
		box, err := b.Prepare(context.Background(), confinetest.Profile(t, ws))
		if err := <-moved; err != nil {
			t.Fatal(err)
		}
		if err == nil {
			box.Close()
		} else {
			failed++
			if left := tree(t, ws); len(left) != 1 {
				if !strings.Contains(err.Error(), mayBeStub) {
					t.Fatalf("left behind after %v: %q", err, left[1:])
				}
				said++
				if err := os.RemoveAll(ws + "/a"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := os.Rename(away+"/a", ws+"/a"); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 40 failed, %d named what may be a stub", failed, said)
}

// tree lists dir and everything in it.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return nil // moved meanwhile
		}
		names = append(names, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestReplacedFilesAreCovered: an editor that saves by renaming, and git that
// rewrites its configuration, put another file where a cover was. The kernel takes
// the cover away; the next call must not see what was under it.
func TestReplacedFilesAreCovered(t *testing.T) {
	ws := confinetest.Workspace(t)
	if err := os.MkdirAll(ws+"/.git/hooks", 0o755); err != nil {
		t.Fatal(err)
	}
	replace := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(ws+"/new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(ws+"/new", ws+name); err != nil {
			t.Fatal(err)
		}
	}
	c, p := newWarmPool(t), confinetest.Profile(t, ws)
	p.Protect = []string{"kept"}
	for _, text := range []string{"first", "second", "third"} {
		replace("/.env", text)
		replace("/kept", text)
		for act, want := range map[string]string{"open('.env').read()": "EACCES", "open('kept', 'a')": "EROFS", "open('kept').read()": "ok"} {
			if got := confinetest.Python(t, c, p, ws, act); got != want {
				t.Errorf("%s, %s: %s, want %s", text, act, got, want)
			}
		}
	}
}
