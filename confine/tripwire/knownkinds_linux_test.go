package tripwire

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestRememberedKindsAreTheKinds: whatever happens to the paths of a profile, what is
// remembered of them is what looking again would give.
func TestRememberedKindsAreTheKinds(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	names := []string{"/", "/etc/passwd", at("a"), at("deep/er/b"), at("link/b"), at("c"), at("deep/er/d"), at("deep")}
	var roots []surveyedRoot
	for _, name := range names {
		roots = append(roots, surveyedRoot{path: name})
	}
	k := newKnownKinds(names, roots)
	changed := 0
	for i, change := range []func() error{
		func() error { return nil },
		func() error { return os.Mkdir(at("a"), 0o700) },
		func() error { return os.Remove(at("a")) },
		func() error { return os.WriteFile(at("a"), nil, 0o600) },
		func() error { return os.MkdirAll(at("deep/er"), 0o700) },
		func() error { return os.WriteFile(at("deep/er/b"), nil, 0o600) },
		func() error { return os.Rename(at("deep"), at("deeper")) },
		func() error { return os.MkdirAll(at("deep/er/b"), 0o700) },
		func() error { return os.Symlink("deeper/er", at("link")) },
		func() error { return os.Remove(at("link")) },
		func() error { return os.Symlink("deep/er", at("link")) },
		func() error { return os.Symlink("x", at("c")) },
		func() error { return os.Rename(at("a"), at("c")) },
		func() error { return os.Chmod(at("deep"), 0) },
		func() error { return os.Chmod(at("deep"), 0o700) },
		func() error { return os.Remove(at("c")) },
		func() error { return os.Symlink("one", at("c")) },
		func() error { return errors.Join(os.Symlink("two", at("new")), os.Rename(at("new"), at("c"))) },
		func() error { return errors.Join(os.WriteFile(at("new"), nil, 0o600), os.Rename(at("new"), at("c"))) },
		func() error { return unix.Mkfifo(at("deep/er/d"), 0o600) },
		func() error {
			return errors.Join(os.Rename(at("deep"), at("away")), os.MkdirAll(at("deep/er/d"), 0o700))
		},
		func() error { return errors.Join(os.RemoveAll(at("deep")), os.Rename(at("away"), at("deep"))) },
		func() error { return os.Rename(at("deep/er"), at("deep/est")) },
		func() error { return os.Rename(at("deep/est"), at("deep/er")) },
		func() error { return os.RemoveAll(at("deep")) },
		func() error { return os.WriteFile(at("deep"), nil, 0o600) },
		func() error { return os.Remove(at("deep")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		for _, pause := range []time.Duration{0, 2 * settling, 0} {
			time.Sleep(pause)
			before := k.seen
			got, err := k.look()
			want, wantErr := hostfs.FactsAt(names)
			if (err == nil) != (wantErr == nil) {
				t.Fatalf("after change %d and %v: %v, want %v", i, pause, err, wantErr)
			}
			if err != nil {
				continue // a name below what is no directory
			}
			if !reflect.DeepEqual(got.facts, want) {
				t.Errorf("after change %d and %v: %+v, want %+v", i, pause, got.facts, want)
			}
			var dirs []int
			for i, name := range names {
				if want.Kinds[name] == sandboxprofile.Dir {
					dirs = append(dirs, i)
				}
			}
			if !slices.Equal(got.dirs, dirs) {
				t.Errorf("after change %d and %v: directories %v, want %v", i, pause, got.dirs, dirs)
			}
			if before != got {
				changed++
			}
		}
	}
	if changed > 27 { // and by the first look
		t.Errorf("changed %d times by 26 changes", changed)
	}
}

// TestRememberedKindsUnderAMount: a mount over a directory changes nothing in the one
// around it, and what stands at the names is another thing.
func TestRememberedKindsUnderAMount(t *testing.T) { onThreadThatEnds(t, kindsUnderAMount) }

func kindsUnderAMount(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/in", 0o700), os.WriteFile(dir+"/in/a", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * settling)
	k := newKnownKinds([]string{dir + "/in/a"}, nil)
	see := func(want sandboxprofile.FileKind) {
		t.Helper()
		for range 2 {
			if got, err := k.look(); err != nil || got.facts.Kinds[dir+"/in/a"] != want {
				t.Errorf("%+v, %v, want %v", got, err, want)
			}
		}
	}
	see(sandboxprofile.File)
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		t.Skip("no mounts without privileges: ", err)
	}
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", dir+"/in", "tmpfs", 0, "")); err != nil {
		t.Fatal(err)
	}
	see(sandboxprofile.Missing)
	if err := unix.Unmount(dir+"/in", 0); err != nil {
		t.Fatal(err)
	}
	see(sandboxprofile.File)
}

// onThreadThatEnds runs a test on a thread that ends with it. It is not the first one of
// the process: that one never ends, and its namespace is what /proc/self tells of.
func onThreadThatEnds(t *testing.T, test func(*testing.T)) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		test(t)
		return
	}
	defer runtime.UnlockOSThread()
	t.Run("on another thread", func(t *testing.T) { // as this one is locked
		runtime.LockOSThread()
		test(t)
	})
}

// TestOnlyWhatChangedIsLookedAt: names are looked at again in the directory that
// changed and in no other.
func TestOnlyWhatChangedIsLookedAt(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/a", 0o700), os.Mkdir(dir+"/b", 0o700)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * settling)
	k := newKnownKinds([]string{dir + "/a/x", dir + "/b/x"}, nil)
	first, err := k.look()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := k.look(); err != nil || again != first {
		t.Errorf("nothing changed, and what is known did: %v", err)
	}
	if err := os.WriteFile(dir+"/a/y", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again, err := k.look(); err != nil || again != first {
		t.Errorf("no name changed, and what is known did: %v", err)
	}
	if k.dirs[0].settled || !k.dirs[1].settled {
		t.Errorf("settled: %v %v", k.dirs[0].settled, k.dirs[1].settled)
	}
}
