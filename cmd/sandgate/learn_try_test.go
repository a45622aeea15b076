package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOnlyFilesCanBeShown: what is not a file counts as a secret, and reading a FIFO waits for
// nobody; an ordinary file of text can be shown.
func TestOnlyFilesCanBeShown(t *testing.T) {
	dir := t.TempDir()
	fifo, plain := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, []byte("jobs = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !fileLooksSecret(fifo) {
		t.Error("a FIFO counts as a file that may be shown")
	}
	if fileLooksSecret(plain) {
		t.Error("a file of settings counts as a secret")
	}
}

// TestADirectoryIsNotProposedForItsFiles: a directory takes the place of files of it that were
// refused, and its name is what a person is asked about; not one that has a secret beside them.
func TestADirectoryIsNotProposedForItsFiles(t *testing.T) {
	for _, key := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(key, t.TempDir())
	}
	cfg, err := loadConfig("", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]int{"": 1, `{"token": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}`: 0} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var f fragment
		for name, text := range map[string]string{"a.dat": "a", "b.dat": "b", "c.dat": "c", "auth.json": secret} {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if name != "auth.json" {
				f.add(need{Path: file}, "refused before")
			}
		}
		l := &learner{cfg: cfg}
		f, dirs := l.collapsed(f)
		if len(dirs) != want || (len(f.Paths) == 1) != (want == 1) {
			t.Errorf("beside %q: %q is proposed, of %+v", secret, dirs, f.Paths)
		}
	}
}
