package linux_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestGitInitShared: a repository for a group can be made inside and stays, and one for
// everybody to write is refused or taken away by sandgate.
func TestGitInitShared(t *testing.T) {
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			p := confinetest.Profile(t, ws)
			p.Protect = []string{".git/hooks", ".git/config"}
			shared := func(how, dir string) (exit int, err error) {
				box, err := c.Prepare(context.Background(), p)
				if err != nil {
					t.Fatal(err)
				}
				defer box.Close()
				r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
					Path: "/usr/bin/env", Argv: []string{"env", "GIT_CONFIG_NOSYSTEM=1", "git", "init", "-q", how, dir}, Dir: ws, Env: []string{"HOME=/home/tool", "PATH=/usr/bin"},
				}}, confine.Stdio{})
				return r.ExitCode, err
			}
			says := func(dir string) string {
				out, _ := exec.Command("git", "config", "-f", ws+"/"+dir+"/.git/config", "core.sharedrepository").Output()
				return strings.TrimSpace(string(out))
			}
			if exit, err := shared("--shared", "group"); exit != 0 || err != nil || says("group") != "1" {
				t.Errorf("git init --shared: %d, %v; the configuration says %q", exit, err, says("group"))
			}
			if exit, err := shared("--shared=0666", "everybody"); exit == 0 && err == nil || says("everybody") != "" {
				t.Errorf("git init --shared=0666: %d, %v; it stays with %q", exit, err, says("everybody"))
			}
		})
	}
}

// TestRemotesStay: git's own commands, one after the other, lead no remote and no branch of
// a person's elsewhere, and take no setting of theirs away. A program's own remote, branch
// and name it has as it likes.
func TestRemotesStay(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	outside := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = ws
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	outside("init", "-q", "-b", "main")
	outside("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
	for _, s := range []string{"remote.origin.url=good", "remote.origin.fetch=+refs/heads/*:refs/remotes/origin/*", "branch.main.remote=origin",
		"branch.main.merge=refs/heads/main", "core.hooksPath=mine", "transfer.fsckObjects=true", "user.name=me"} {
		name, value, _ := strings.Cut(s, "=")
		outside("config", name, value)
	}
	p := confinetest.Profile(t, ws)
	p.Protect = append(p.Protect, ".git/hooks", ".git/config")
	o := confinetest.Exec(t, context.Background(), l, p, ws, nil, "/bin/sh", "-c", `export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
try() { if git "$@" >/dev/null 2>&1; then echo "done $*"; else echo "refused $*"; fi; }
try remote set-url origin evil
try remote remove origin
try remote add origin evil
try config branch.main.merge refs/heads/evil
try config --unset core.hooksPath
try config --remove-section transfer
try config --remove-section user
try config core.sharedRepository group
try remote add local /tmp/other
try remote add fork host:other
try remote set-url fork host:another
try branch new
try config branch.new.remote fork
try remote remove fork
try config user.name you
mkdir .git/q && cp -r .git/refs .git/objects .git/HEAD .git/q/ && echo q > .git/commondir
sleep 0.2; cat .git/commondir 2>/dev/null
try worktree add -q wt
cat .git/worktrees/wt/commondir`)
	const want = `refused remote set-url origin evil
refused remote remove origin
refused remote add origin evil
refused config branch.main.merge refs/heads/evil
refused config --unset core.hooksPath
refused config --remove-section transfer
done config --remove-section user
refused config core.sharedRepository group
refused remote add local /tmp/other
done remote add fork host:other
done remote set-url fork host:another
done branch new
done config branch.new.remote fork
done remote remove fork
done config user.name you
done worktree add -q wt
../..
`
	if o.Out != want {
		t.Errorf("git said %s\nwant %s%s", o.Out, want, o.Err)
	}
	for name, want := range map[string]string{"remote.origin.url": "good", "branch.main.remote": "origin", "branch.main.merge": "refs/heads/main",
		"core.hooksPath": "mine", "transfer.fsckObjects": "true", "user.name": "you"} {
		if got := outside("config", "--get-all", name); got != want {
			t.Errorf("%s is %q, and was %q", name, got, want)
		}
	}
}
