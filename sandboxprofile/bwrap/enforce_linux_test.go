package bwrap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
)

// TestMountsHoldTheProfile runs a shell under the compiled arguments, and for
// each act compares what the kernel says. Every refused act has a twin that works.
func TestMountsHoldTheProfile(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("bubblewrap is not installed")
	}
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	for name, content := range map[string]string{
		"ws/plain": "plain", "ws/.env": "secret", "ws/.git/hooks/pre-commit": "hook", "ws/.git/HEAD": "head",
		"ws/ro/file": "ro", "ws/none/pub/file": "pub", "ws/none/file": "no", "ws/.aws/credentials/key": "secret",
		"outside/file": "outside",
	} {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ws := filepath.Join(dir, "ws")
	p := sp.Profile{
		Paths: map[string]sp.Rights{
			"/usr": sp.Read | sp.Execute, "/bin": sp.Read | sp.Execute, "/lib": sp.Read | sp.Execute, "/lib64": sp.Read | sp.Execute,
			ws: sp.Read | sp.Write | sp.Execute, ws + "/ro": sp.Read, ws + "/none": 0, ws + "/none/pub": sp.Read | sp.Write,
		},
		Scratch: []string{"/tmp", "/home/someone"},
		Protect: []string{".git/hooks"}, Hide: []string{".env", ".aws/credentials"},
		Limits: sp.NoLimits(),
	}
	p.Limits.Scratch = 1 << 20
	f := sp.Facts{Kinds: map[string]sp.FileKind{}, Links: map[string]string{}, Masks: []sp.Mask{
		{Path: ws + "/.git/hooks", Kind: sp.Dir},
		{Path: ws + "/.env", Kind: sp.File, Hide: true},
		{Path: ws + "/.aws/credentials", Kind: sp.Dir, Hide: true},
	}}
	for _, k := range p.Keys() {
		f.Kinds[k] = kindOf(t, k)
		if f.Kinds[k] == sp.Symlink {
			f.Links[k], _ = os.Readlink(k)
		}
	}
	args, err := bwrap.Compile(p, f)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ act, want string }{
		{"cat plain", "plain"},
		{"cat .env", "Permission denied"},
		{"echo x > .env", "Permission denied"},
		{"rm .env", "busy"},
		{"cat .git/hooks/pre-commit", "hook"},
		{"echo x > .git/hooks/pre-commit", "Read-only file system"},
		{"echo x > .git/hooks/new", "Read-only file system"},
		{"echo x > .git/HEAD && cat .git/HEAD", "x"},
		{"mv .git/hooks .git/h", "busy"},
		{"mv .git .g", "busy"},
		{"mv .git/HEAD .git/H && cat .git/H", "x"},
		{"ls .aws/credentials", "Permission denied"},
		{"cat .aws/credentials/key", "Permission denied"},
		{"mv .aws .a", "busy"},
		{"cat ro/file", "ro"},
		{"echo x > ro/file", "Read-only file system"},
		{"ls none", "Permission denied"},
		{"cat none/file", "No such file"},
		{"echo x > none/pub/file && cat none/pub/file", "x"},
		{"echo x > none/new", "Read-only file system\nPermission denied"},
		{"cat " + outside + "/file", "No such file"},
		{"echo x > " + dir + "/new && cat " + dir + "/new", "x"}, // in the private /tmp: must not be on the host
		{"echo x > /new", "Read-only file system"},
		{"echo x > /tmp/new && cat /tmp/new", "x"},
		{"echo x > /home/someone/new && cat /home/someone/new", "x"},
		{"head -c 2000000 /dev/zero > /tmp/big", "No space left"},
		{"head -c 1000 /dev/zero > /tmp/big && echo fits", "fits"},
		{"echo x > /dev/shm/new && cat /dev/shm/new", "x"},
		{"echo x > /dev/new", "Read-only file system"},
		{"echo x > /dev/null && echo fine", "fine"},
		{"echo x > /proc/sys/kernel/core_pattern", "Read-only file system\nPermission denied"},
		{"cat /proc/sys/kernel/ostype", "Linux"},
		{"grep CapEff /proc/self/status", "0000000000000000"},
		{"hostname", "sandgate"},
		{"echo $$", "1"},
	} {
		if out := run(t, args, ws, c.act); !containsAny(out, c.want) {
			t.Errorf("%s: got %q, want %q", c.act, out, c.want)
		}
	}
	if b, err := os.ReadFile(ws + "/.git/hooks/pre-commit"); err != nil || string(b) != "hook\n" {
		t.Errorf("the hook on the host changed: %q, %v", b, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("something was left on the host: %v, %v", left, err)
	}
}

func containsAny(out, want string) bool {
	for w := range strings.SplitSeq(want, "\n") {
		if strings.Contains(out, w) {
			return true
		}
	}
	return false
}

func run(t *testing.T, args []string, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bwrap", append(args, "--chdir", dir, "/bin/bash", "-c", script)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if strings.HasPrefix(string(out), "bwrap: ") {
		t.Fatalf("bwrap %v: %s%v", args, out, err)
	}
	return string(out)
}

func kindOf(t *testing.T, name string) sp.FileKind {
	t.Helper()
	info, err := os.Lstat(name)
	switch {
	case os.IsNotExist(err):
		return sp.Missing
	case err != nil:
		t.Fatal(err)
	case info.IsDir():
		return sp.Dir
	case info.Mode()&os.ModeSymlink != 0:
		return sp.Symlink
	case info.Mode().IsRegular():
		return sp.File
	}
	return sp.Other
}
