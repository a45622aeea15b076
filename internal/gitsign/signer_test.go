package gitsign

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSettingsWithoutEnd: the key is the person's own, and a file that the repository's settings
// include, which a program may have written, takes neither memory nor time for ever.
func TestSettingsWithoutEnd(t *testing.T) {
	home, repository := t.TempDir(), t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", filepath.Join(home, "settings"))
	for path, text := range map[string]string{
		home + "/settings":   "[user]\n\tsigningkey = own\n[gpg]\n\tformat = ssh\n",
		repository + "/more": "[user]\n\tsigningkey = theirs\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q", repository}, {"-C", repository, "config", "include.path", "../more"}} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	s := Signer{Repository: repository, Home: home}
	if key, err := s.Key(t.Context(), SSH); key != "own" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	if err := os.WriteFile(repository+"/more", []byte("[a]\n"+strings.Repeat("\tb = "+strings.Repeat("x", 1000)+"\n", maxSettings/1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, err := s.Key(t.Context(), SSH); err == nil || !strings.Contains(err.Error(), "prints more than") {
		t.Errorf("too much: %q, %v", key, err)
	}
	if err := os.Remove(repository + "/more"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", repository+"/more").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if key, err := s.Key(ctx, SSH); err == nil {
		t.Errorf("a pipe: %q", key)
	}
}
