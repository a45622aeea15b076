package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	const steady = "echo run >> runs\necho 'test a::b ... ok'\necho '--- PASS: TestX (0.01s)'\necho 'ok 1 - c # SKIP no reason'\necho 'ok 2 - n'$(wc -l < runs)\n" +
		"echo '[ok]: redis (5 ms)'\necho 'PASS: automake'\necho 't.py::x XPASS [ 9%]'\n" +
		"echo '[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 1, Time elapsed: 0.1 s -- in a.B'\n"
	if out, err := compare(steady); err != nil || !strings.Contains(out, "outside: 7 passed, 0 failed, 1 skipped; exit status 0") || !strings.Contains(out, "unsteady outside: 2\n") || !strings.HasSuffix(out, "\nthe same inside\n") {
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
	record := filepath.Join(t.TempDir(), "results.tsv")
	if err := os.WriteFile(record, []byte("other\t1\nproject\t0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := compare(lost, "--backend", "bwrap", "--backend", "landlock", "--record", record, "project", "1.0"); err == nil || strings.Count(out, "second: pass outside, fail inside") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(record)
	if want := regexp.MustCompile(`^other\t1\nproject\t1\.0\t2\t0\t0\t0\t\d+\tbwrap\t1\t\d+\tlandlock\t1\t\d+\n$`); err != nil || !want.Match(got) {
		t.Errorf("%v: %q", err, got)
	}
}

// TestTransparencyPage: docs/transparency.md says what was measured, and each difference has
// its reason.
func TestTransparencyPage(t *testing.T) {
	const page, write = "../../docs/transparency.md", "../../scripts/transparency.d/page"
	want, err := exec.Command(write).Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(want), "NOT EXPLAINED") {
		t.Error("a difference has no reason in scripts/transparency.d/reasons.tsv")
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != string(want) {
		t.Errorf("%s is not what was measured (%v): %s > %[1]s", page, err, write)
	}
}
