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
