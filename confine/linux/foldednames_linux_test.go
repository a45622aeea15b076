package linux_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
)

// TestPlantedUnderAFoldedName: a file system that folds names takes each of these for a
// protected one (sandboxprofile.Fold), so none of them stays; one that only has such letters
// does.
func TestPlantedUnderAFoldedName(t *testing.T) {
	ws := confinetest.Workspace(t)
	if out, err := exec.Command("/bin/sh", "-c", "git init -q "+ws+" && git -C "+ws+" config core.hooksPath tools/hooks").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := confinetest.Profile(t, ws)
	p.Protect = []string{".bashrc", ".git/hooks", ".git/config", ".vscode"}
	taken := []string{
		".BASHRC", ".baſhrc", "a/.git\u200c/hooks", "b/.gIt/con\u00adﬁg", ".vscode\ufe0f", "c/.gi\u200dt", "d/config", "Tools/hookſ",
	}
	kept := []string{"straße", "ﬁsh", ".bash\u0301rc", "tools/hook"}
	script := "mkdir -p a/.git\u200c/hooks b/.gIt .vscode\ufe0f c d/objects d/refs Tools/hookſ tools\n" +
		"touch .BASHRC .baſhrc a/.git\u200c/hooks/post-commit .vscode\ufe0f/tasks.json Tools/hookſ/pre-commit straße ﬁsh .bash\u0301rc tools/hook\n" +
		"echo '[core]' > b/.gIt/con\u00adﬁg; echo ref: refs/heads/m > d/HEAD\u200c; cp d/HEAD\u200c d/head; printf '[core]\\n\\tfsmonitor = x\\n' > d/config; ln -s /var/lib c/.gi\u200dt\n"
	o := confinetest.Shell(t, newBwrap(t), p, ws, script)
	if o.ExitCode != 0 {
		t.Fatalf("%s", o.Err)
	}
	for _, name := range taken {
		path := filepath.Join(ws, name)
		if !slices.ContainsFunc(o.Planted, func(x confine.Planted) bool { return x.Kept != "" && x.Path == path }) || exists(path) {
			t.Errorf("%+q stays: %+q", name, o.Planted)
		}
	}
	for _, name := range kept {
		if !exists(filepath.Join(ws, name)) {
			t.Errorf("%+q is gone: %+q", name, o.Planted)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
