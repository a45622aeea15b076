package quarantine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(filepath.Join(dir, "quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// shm is a directory on another file system than t.TempDir.
func shm(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sandgate-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestTakeAndRestore goes there and back, on one file system and across two.
func TestTakeAndRestore(t *testing.T) {
	for name, root := range map[string]string{"same": t.TempDir(), "across": shm(t)} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir())
			put(t, root+"/sub/.envrc", "evil")
			put(t, root+"/sub/.vscode/deep/tasks.json", "{}")
			if err := errors.Join(unix.Chmod(root+"/sub/.envrc", 0o4755), os.Symlink("/etc", root+"/link"),
				unix.Mkfifo(root+"/.bashrc", 0o600), os.Chmod(root+"/sub/.vscode", 0)); err != nil {
				t.Fatal(err)
			}
			taking := s.Begin("s-1/c-1")
			for _, n := range []string{"/sub/.envrc", "/sub/.vscode", "/link", "/.bashrc"} {
				kept, err := taking.Take(root, root+n, "test")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := os.Lstat(kept); err != nil {
					t.Error(err)
				}
				if _, err := os.Lstat(root + n); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is still there: %v", n, err)
				}
			}
			x, err := s.Get(taking.ID())
			if err != nil {
				t.Fatal(err)
			}
			e := x.Entries
			if len(e) != 4 || e[0].Kind != "file" || e[0].Size != 4 || !strings.HasSuffix(e[0].Mode, "rwxr-xr-x") || len(e[0].SHA256) != 64 ||
				e[1].Kind != "dir" || e[1].Files != 3 || e[2].Target != "/etc" || e[3].Kind == "" || e[0].Call != "s-1/c-1" {
				t.Fatalf("%+v", e)
			}
			for n := range e {
				if err := s.Restore(x.ID, n); err != nil {
					t.Fatal(err)
				}
			}
			if b, err := os.ReadFile(root + "/sub/.vscode/deep/tasks.json"); err != nil || string(b) != "{}" {
				t.Errorf("%q, %v", b, err)
			}
			if err := s.Restore(x.ID, 0); !errors.Is(err, ErrNotFound) {
				t.Errorf("restored twice: %v", err)
			}
			if err := s.Drop(x.ID); err != nil {
				t.Error(err)
			}
			if list, err := s.List(); err != nil || len(list) != 0 {
				t.Errorf("%v, %v", list, err)
			}
		})
	}
}

// TestTakeFollowsNoLink: a directory that became a link, and a root that does
// not hold the path, are errors; the twin without the link is taken.
func TestTakeFollowsNoLink(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	s := openStore(t, t.TempDir())
	put(t, outside+"/.bashrc", "mine")
	put(t, root+"/real/.bashrc", "planted")
	if err := os.Symlink(outside, root+"/sub"); err != nil {
		t.Fatal(err)
	}
	taking := s.Begin("")
	if _, err := taking.Take(root, root+"/sub/.bashrc", "test"); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("through a link: %v", err)
	}
	if _, err := taking.Take(root, outside+"/.bashrc", "test"); err == nil {
		t.Error("took what is not below the root")
	}
	if _, err := taking.Take(root, root+"/../"+filepath.Base(outside)+"/.bashrc", "test"); !errors.Is(err, unix.EXDEV) {
		t.Errorf("through ..: %v", err)
	}
	if b, err := os.ReadFile(outside + "/.bashrc"); err != nil || string(b) != "mine" {
		t.Errorf("the file outside: %q, %v", b, err)
	}
	if _, err := taking.Take(root, root+"/real/.bashrc", "test"); err != nil {
		t.Error(err)
	}
}

// TestRestoreIsExact: what was changed in the quarantine, or would replace
// something, stays where it is.
func TestRestoreIsExact(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, t.TempDir())
	for _, n := range []string{"/a", "/b", "/c"} {
		put(t, root+n, "x")
	}
	taking := s.Begin("")
	for _, n := range []string{"/a", "/b", "/c"} {
		if _, err := taking.Take(root, root+n, "test"); err != nil {
			t.Fatal(err)
		}
	}
	x, err := s.Get(taking.ID())
	if err != nil {
		t.Fatal(err)
	}
	put(t, x.Content(0), "changed")
	put(t, root+"/b", "new")
	if err := s.Restore(x.ID, 0); err == nil || !strings.Contains(err.Error(), "is not what was taken") {
		t.Errorf("changed: %v", err)
	}
	if err := s.Restore(x.ID, 1); !errors.Is(err, unix.EEXIST) {
		t.Errorf("replacing: %v", err)
	}
	if err := s.Restore(x.ID, 2); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"", ".", "..", "../items", "a/b", "nothing"} {
		if err := s.Drop(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("drop %q: %v", id, err)
		}
	}
}

// TestTooMuchToCopyStaysWhole: across file systems the size is bounded, and what
// is beyond it is not half taken.
func TestTooMuchToCopyStaysWhole(t *testing.T) {
	root := shm(t)
	s := openStore(t, t.TempDir())
	dir := root + "/.vscode" + strings.Repeat("/d", maxDepth+2)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin("").Take(root, root+"/.vscode", "test"); !errors.Is(err, errTooLarge) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	list, err := s.List()
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if _, err := os.Lstat(list[0].Content(0)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a copy is left: %v", err)
	}
}

func TestOpenRefusesADirectoryOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/open", 0o755), os.Mkdir(dir+"/own", 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir + "/open"); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("%v", err)
	}
	if _, err := Open(dir + "/own"); err != nil {
		t.Error(err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"n":0,"path":"/a"}` + "\n" + `{"n":0,"path":"/a","kind":"file"}` + "\n" + `{"n":1`))
	f.Add([]byte(`{"n":7}` + "\n"))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := parseManifest(b)
		for i, e := range entries {
			if err == nil && e.N != i {
				t.Fatalf("entry %d is at %d", e.N, i)
			}
		}
	})
}
