package repositories

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A yard is a directory with repositories that git itself has made.
type yard struct {
	t   *testing.T
	dir string
}

func newYard(t *testing.T) yard {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	y := yard{t, dir}
	y.sh(`git init -q -b main main && cd main && mkdir -p pkg/a && echo 1 > pkg/a/f && git add -A && git commit -qm one &&
		git worktree add -q ../tree && git init -q -b main --bare ../bare.git && git push -q ../bare.git HEAD:main && git --git-dir=../bare.git worktree add -q -b other ../oftree main &&
		git -c protocol.file.allow=always submodule --quiet add ../bare.git sub && git commit -qm two && git init -q --separate-git-dir ../apart.git ../apart && mkdir ../plain`)
	return y
}

func (y yard) sh(script string) {
	y.t.Helper()
	c := exec.Command("sh", "-ec", script)
	c.Dir = y.dir
	c.Env = append(os.Environ(), "HOME="+y.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_DIR=")
	c.Env = slices.DeleteFunc(c.Env, func(kv string) bool { return kv == "GIT_DIR=" })
	if out, err := c.CombinedOutput(); err != nil {
		y.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// found is what is found, "rw PATH" or "ro PATH" below the yard.
func (y yard) found(workspace string) (list, notes []string) {
	f := Find(filepath.Join(y.dir, workspace), "/nonexistent")
	for _, r := range f.Roots {
		word := "ro "
		if r.Write {
			word = "rw "
		}
		list = append(list, word+strings.TrimPrefix(r.Path, y.dir+"/"))
	}
	slices.Sort(list)
	return list, f.Notes
}

func TestRepositoriesAreFound(t *testing.T) {
	y := newYard(t)
	y.sh("mkdir -p tree/deep oftree/deep main/sub/deep")
	shared := func(dir string, worktree string) []string {
		list := []string{"rw " + dir, "rw " + dir + "/worktrees/" + worktree}
		for _, name := range []string{"HEAD", "config", "hooks", "info", "worktrees", "worktrees/" + worktree + "/commondir", "worktrees/" + worktree + "/gitdir"} {
			list = append(list, "ro "+dir+"/"+name)
		}
		return list
	}
	main := []string{"ro main/.git/COMMIT_EDITMSG", "ro main/.git/index", "ro main/.git/modules"}
	for workspace, want := range map[string][]string{
		"plain": nil, "main": nil,
		"main/pkg/a":    {"ro main", "rw main/.git", "ro main/.git/config", "ro main/.git/hooks", "ro main/.git/info", "ro main/.git/modules", "ro main/.git/worktrees"},
		"tree":          append(shared("main/.git", "tree"), main...),
		"tree/deep":     append(append(shared("main/.git", "tree"), main...), "ro tree"),
		"oftree":        shared("bare.git", "oftree"),
		"main/sub":      {"rw main/.git/modules/sub", "ro main/.git/modules/sub/config", "ro main/.git/modules/sub/hooks", "ro main/.git/modules/sub/info"},
		"main/sub/deep": {"ro main/sub", "rw main/.git/modules/sub", "ro main/.git/modules/sub/config", "ro main/.git/modules/sub/hooks", "ro main/.git/modules/sub/info"},
	} {
		slices.Sort(want)
		got, notes := y.found(workspace)
		if diff := cmp.Diff(want, got); diff != "" || len(notes) > 0 {
			t.Errorf("%s: %s %q", workspace, diff, notes)
		}
	}
}

// TestAForgedPointerLeadsNowhere: a .git file that a tool has written shows nothing, and
// is told by name. Its twin, which git wrote, is followed.
func TestAForgedPointerLeadsNowhere(t *testing.T) {
	for name, c := range map[string]struct{ script, note string }{
		"to a directory of the system":           {"echo 'gitdir: /etc' > plain/.git", "/etc does not refer back to it"},
		"to another repository":                  {"echo \"gitdir: $PWD/main/.git\" > plain/.git", "does not refer back to it"},
		"to another work tree":                   {"echo \"gitdir: $PWD/main/.git/worktrees/tree\" > plain/.git", "does not refer back to it"},
		"to another submodule":                   {"echo \"gitdir: $PWD/main/.git/modules/sub\" > plain/.git", "does not refer back to it"},
		"to what is not there":                   {"echo 'gitdir: /nowhere/x' > plain/.git", "does not exist: /nowhere/x"},
		"to itself":                              {"mkdir plain/g && echo 'gitdir: g' > plain/.git", "it leads into the workspace"},
		"through a link":                         {"ln -s $PWD/main/.git plain/l && echo 'gitdir: l' > plain/.git", "does not refer back to it"},
		"no pointer":                             {"echo x > plain/.git", "git would not follow it"},
		"a repository apart, which names no one": {"cp apart/.git plain/.git", "if it is yours, show it with --rw"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			y.sh(c.script)
			got, notes := y.found("plain")
			if len(got) > 0 || len(notes) != 1 || !strings.Contains(notes[0], c.note) {
				t.Errorf("%q %q", got, notes)
			}
			if got, _ := y.found("tree"); len(got) == 0 {
				t.Error("the work tree beside it is not found")
			}
		})
	}
}

// TestTheHomeDirectoryIsNotShown for a workspace below it, where it is a repository.
func TestTheHomeDirectoryIsNotShown(t *testing.T) {
	y := newYard(t)
	f := Find(y.dir+"/main/pkg/a", y.dir+"/main")
	if len(f.Roots) > 0 || len(f.Notes) != 1 || !strings.Contains(f.Notes[0], "it contains the home directory") {
		t.Errorf("%+v", f)
	}
}
