package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTransparency: scripts/transparency tells what a sandbox changes of a project's tests,
// and nothing where it changes none. What is unsteady outside is no difference.
func TestTransparency(t *testing.T) {
	script, err := filepath.Abs("../../scripts/transparency")
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config", "XDG_RUNTIME_DIR": "rt"} {
		dir := filepath.Join(t.TempDir(), v)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, dir)
	}
	compare := func(text string, args ...string) (string, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "check.sh"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(script, append(args, "--", "sh", "check.sh")...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const steady = "echo run >> runs\necho 'test a::b ... ok'\necho '--- PASS: TestX (0.01s)'\necho 'ok 1 - c # SKIP no reason'\necho 'ok 2 - n'$(wc -l < runs)\n"
	if out, err := compare(steady); err != nil || !strings.Contains(out, "outside: 3 passed, 0 failed, 1 skipped; exit status 0") || !strings.Contains(out, "unsteady outside: 2\nthe same inside\n") {
		t.Errorf("%v\n%s", err, out)
	}
	const lost = "echo 'ok 1 - first'\nif [ -n \"$SANDGATE_TEST_SEES\" ]; then echo 'ok 2 - second'; else echo 'not ok 2 - second'; fi\n"
	t.Setenv("SANDGATE_TEST_SEES", "1")
	if out, err := compare(lost); err == nil || !strings.Contains(out, "\nsecond: pass outside, fail inside\n") || strings.Contains(out, "first:") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := compare(lost, "--flag", "--env", "--flag", "SANDGATE_TEST_SEES"); err != nil || !strings.Contains(out, "the same inside") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := compare("test -n \"$SANDGATE_TEST_SEES\"\n"); err == nil || !strings.Contains(out, "only the exit status is compared") {
		t.Errorf("%v\n%s", err, out)
	}
}
