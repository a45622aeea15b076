package atomicfile

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// onlyFile checks that dir holds name with content and mode, and nothing else.
func onlyFile(t testing.TB, dir, name, content string, mode fs.FileMode) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 || names[0].Name() != name {
		t.Errorf("%s holds %v, want only %s", dir, names, name)
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(b) != content {
		t.Errorf("%s holds %q, %v; want %q", name, b, err, content)
	}
	if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode() != mode {
		t.Errorf("%s has mode %v, %v; want %v", name, st.Mode(), err, mode)
	}
}

func TestWriteFile(t *testing.T) {
	for _, umask := range []int{0, 0o077, 0o777} {
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		old := syscall.Umask(umask)
		t.Cleanup(func() { syscall.Umask(old) })
		if err := WriteFile(name, []byte("one, and longer"), 0o644); err != nil {
			t.Fatal(err)
		}
		onlyFile(t, dir, "f", "one, and longer", 0o644)
		if err := WriteFile(name, []byte("two"), 0o600); err != nil {
			t.Fatal(err)
		}
		onlyFile(t, dir, "f", "two", 0o600)
		syscall.Umask(old)
	}
}

// TestReaderSeesWholeContent: a reader that opens the file at any moment finds one
// of the contents that were written, whole.
func TestReaderSeesWholeContent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := filepath.Join(t.TempDir(), "f")
		contents := rapid.SliceOfN(rapid.StringN(0, 200, -1), 1, 5).Draw(rt, "contents")
		for i, c := range contents {
			if i > 0 {
				f, err := os.Open(name) // opened before the next write, read after it
				if err != nil {
					rt.Fatal(err)
				}
				defer f.Close()
				defer func() {
					b := make([]byte, 1000)
					n, _ := f.Read(b)
					if string(b[:n]) != contents[i-1] {
						rt.Errorf("read %q, want %q", b[:n], contents[i-1])
					}
				}()
			}
			if err := WriteFile(name, []byte(c), 0o600); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestRefusesNonRegularTarget(t *testing.T) {
	for what, create := range map[string]func(name string) error{
		"symlink":   func(n string) error { return os.Symlink("/nonexistent", n) },
		"directory": func(n string) error { return os.Mkdir(n, 0o700) },
		"fifo":      func(n string) error { return unix.Mkfifo(n, 0o600) },
		"socket": func(n string) error {
			l, err := net.Listen("unix", n)
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, "f")
		if err := create(name); err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(name, []byte("x"), 0o600); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v, want ErrNotRegular", what, err)
		}
		after, err := os.Lstat(name)
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: it was replaced: %v", what, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("%s: the directory holds %v, %v", what, names, err)
		}
	}
}

func TestMissingDirectory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "no", "f")
	if err := WriteFile(name, nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("WriteFile: %v", err)
	}
	if err := SyncDir(filepath.Dir(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SyncDir: %v", err)
	}
}

// limitEnv makes the test binary write its argument's file under RLIMIT_FSIZE.
const limitEnv = "SANDGATE_ATOMICFILE_TEST_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(limitEnv) == "" {
		os.Exit(m.Run())
	}
	// Past the limit a write ends in the middle, and the next one fails with EFBIG.
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: 4096}); err != nil {
		os.Exit(2)
	}
	err := WriteFile(os.Args[1], make([]byte, 10_000), 0o600)
	if !errors.Is(err, syscall.EFBIG) {
		os.Exit(3)
	}
	if err := WriteFile(os.Args[1]+"2", []byte("small"), 0o600); err != nil {
		os.Exit(4)
	}
	os.Exit(0)
}

// TestFailedWriteLeavesNothing: the disk fails half way; the old content stands,
// and there is no litter.
func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, name)
	cmd.Env = append(os.Environ(), limitEnv+"=1")
	if err := cmd.Run(); err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := os.Remove(name + "2"); err != nil { // the twin, within the limit
		t.Fatal(err)
	}
	onlyFile(t, dir, "f", "old", 0o640)
}
