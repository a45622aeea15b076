package tripwire

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

func harmlessAt(path string) bool {
	return asGitMakesIt(Finding{Mask: sandboxprofile.Mask{Path: path}, git: true}, nil, func(string, string) bool { return false })
}

// TestRepositoriesAsGitMakesThem: what git itself leaves is no news, and whatever
// could run a program is.
func TestRepositoriesAsGitMakesThem(t *testing.T) {
	git := func(t *testing.T, dir string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	origin, clone := t.TempDir(), filepath.Join(t.TempDir(), "clone")
	git(t, origin, "init", "-q")
	git(t, origin, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	git(t, origin, "clone", "-q", origin, clone)
	for _, repo := range []string{origin, clone} {
		for _, name := range []string{"hooks", "config"} {
			if path := filepath.Join(repo, ".git", name); !harmlessAt(path) {
				b, _ := os.ReadFile(path)
				t.Errorf("%s is as git made it: %s", path, b)
			}
		}
	}
	for name, config := range map[string]string{
		"a hooks path":                    "[core]\n\thooksPath = /tmp/x\n",
		"a monitor":                       "[core]\n\tfsmonitor = evil\n",
		"a monitor, spelt oddly":          "[CORE]\n\tFsMonitor=evil\n",
		"an alias":                        "[alias]\n\tst = !evil\n",
		"a filter":                        "[filter \"x\"]\n\tclean = evil\n",
		"an include":                      "[include]\n\tpath = ../evil\n",
		"a key beside a section":          "[core] fsmonitor = evil\n",
		"the same, commented":             "[core] fsmonitor = evil #]\n",
		"a key behind a harmless section": "[user]fsmonitor=x\n",
		"a worktree elsewhere":            "[core]\n\tworktree = /home\n",
		"a worktree in quotes":            "[core]\n\tworktree = \"/home\"\n",
		"a worktree before a comment":     "[core]\n\tworktree = /home;x\n",
		"a continued line":                "[user]\n\tname = x\\\n",
		"an ext remote":                   "[remote \"origin\"]\n\turl = ext::sh -c evil\n",
		"an ext remote, in quotes":        "[remote \"origin\"]\n\turl = ext:\":\"sh -c evil\n",
		"an ext remote, escaped":          "[remote \"origin\"]\n\turl = ext:\\\\:sh -c evil\n",
		"no section":                      "fsmonitor = evil\n",
		"a key without a value":           "[core]\n\tsshCommand\n",
		"something unknown":               "[core]\n\tbrandNew = 1\n",
	} {
		path := filepath.Join(t.TempDir(), ".git", "config")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		if harmlessAt(path) {
			t.Errorf("%s passes: %q", name, config)
		}
	}
	hook := filepath.Join(clone, ".git", "hooks", "pre-commit")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\nevil\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if harmlessAt(filepath.Dir(hook)) {
		t.Error("a planted hook passes")
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/tmp/x.sample", hook+".sample"); err == nil && harmlessAt(filepath.Dir(hook)) {
		t.Error("a linked sample passes")
	}
}
