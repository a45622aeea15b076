package files_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

// TestTheDifferenceShownIsWhatIsWritten: the unified diff that an approver sees,
// applied by git to the file that is there, gives byte by byte what the plan writes.
func TestTheDifferenceShownIsWhatIsWritten(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("git applies the differences: %v", err)
	}
	registry, ws := setup(t)
	text := rapid.Custom(func(t *rapid.T) string {
		line := rapid.SampledFrom([]string{"", "a", "b", "\tc", "-d", "+e", "@@ -1 +1 @@", " f", "\\ No newline", "é", "g ", "h\r"})
		return strings.Join(rapid.SliceOfN(line, 0, 20).Draw(t, "lines"), "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
	})
	rapid.Check(t, func(rt *rapid.T) {
		old := "x" + text.Draw(rt, "old") // not empty: git makes a file of nothing no file
		write(t, filepath.Join(ws, "file"), old)
		p, want := planChange(rt, t, registry, old, text)
		shown := present(t, p)
		if shown.Type != approval.Diff {
			if old != want || shown.Content != "file: the content stays the same" {
				rt.Fatalf("%q to %q is shown as %+v", old, want, shown)
			}
			return
		}
		if got := applied(t, git, old, shown.Content); got != want {
			rt.Fatalf("what was shown makes %q of %q, and %q is written:\n%s", got, old, want, shown.Content)
		}
	})
}

// planChange plans a write or edits of the file, and gives what it is to hold.
func planChange(rt *rapid.T, t *testing.T, registry *tools.Registry, old string, text *rapid.Generator[string]) (p tools.Proposal, want string) {
	if rapid.Bool().Draw(rt, "write") {
		want = "x" + text.Draw(rt, "new")
		return plan(t, registry, "write_file", args{"path": "file", "content": want}), want
	}
	edits := []any{args{"old_string": "x", "new_string": "y\n", "replace_all": true}}
	want = strings.ReplaceAll(old, "x", "y\n")
	if strings.Contains(want, "a") {
		edits = append(edits, args{"old_string": "a", "new_string": "A\nA", "replace_all": true})
		want = strings.ReplaceAll(want, "a", "A\nA")
	}
	p = plan(t, registry, "multi_edit", args{"path": "file", "edits": edits})
	got, _, err := p.Plan.Action.File.Edit([]byte(old))
	if err != nil || string(got) != want {
		rt.Fatalf("the plan makes %q of %q, want %q, %v", got, old, want, err)
	}
	return p, want
}

// applied is what git makes of a file by a difference.
func applied(t *testing.T, git, old, diff string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), old)
	cmd := exec.Command(git, "apply", "--whitespace=nowarn", "-")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(diff)
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, diff)
	}
	b, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
