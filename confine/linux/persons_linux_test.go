package linux_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestRepositoriesOfAPersonStay: a program takes neither a person's repository from its place,
// nor what makes it one, so that it cannot put one of its own there, with other remotes. What
// git does in it works, and so does all of this in a program's own.
func TestRepositoriesOfAPersonStay(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Protect = append(p.Protect, ".git/hooks", ".git/config", ".git/modules/*/config")
	const git = `export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `
	person := func(command string) string {
		cmd := exec.Command("/bin/sh", "-c", git+command)
		cmd.Dir = ws
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v %s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	person(`git init -q a/b/proj && cd a/b/proj && git commit -q --allow-empty -m first && git remote add origin https://good.example/x &&
git worktree add -q -b w ../../../tree && git clone -q --bare . ../../../bare && git -C ../../../bare remote set-url origin https://good.example/x`)
	one := converse(t, l, p, ws)
	defer one.end()
	run := func(command string) bool {
		return one.does(`exec('r = subprocess.run(["/bin/sh", "-ec", `+strings.ReplaceAll(strconv.Quote(git+command), `'`, `\'`)+`], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode', g); r = g['r'] == 0`) == "True"
	}
	for _, command := range []string{
		"mv a/b/proj a/b/old", "mv a/b a/c", "mv a c", "mkdir d; mv a/b/proj d", "mv a/b/proj/.git a/b/proj/g", "mv a/b/proj/.git/refs a/b/proj/.git/r",
		"mv bare old", "mv bare/refs bare/r", "mv bare/objects bare/o", "rm bare/HEAD", "mv bare/HEAD bare/h", "mkdir e; rm -r bare/refs/heads bare/refs/tags; rmdir bare/refs",
		"rm tree/.git", "mv tree/.git tree/g", "mv tree old", "echo 'gitdir: ../own/.git' > tree/.git", "git init -q own; echo 'gitdir: ../own/.git' > g; mv g tree/.git",
		"mv a/b/proj/.git/worktrees/tree a/b/proj/.git/worktrees/t", "rm a/b/proj/.git/worktrees/tree/HEAD", "mv a/b/proj/.git/worktrees/tree/commondir c",
		"cd a/b/proj; cp -r .git/objects .git/refs .; cp .git/HEAD .", "cd tree; mkdir objects refs",
		"touch .sandgate-broker-0123456789abcdef", // so is called what another broker is about to install
		"git init -q own; python3 -c 'import os; os.rename(\"tree/.git\", \"own/g\")'",
	} {
		if run(command) {
			t.Errorf("%s: it could be done", command)
		}
	}
	for _, command := range []string{
		"cd a/b/proj; git commit -q --allow-empty -m second; git checkout -q -b other; git gc -q; git worktree list", "cd tree; git commit -q --allow-empty -m third; git checkout -q --detach",
		"git init -q mine; cd mine; git commit -q --allow-empty -m first; cd ..; mv mine moved; git -C moved log; mkdir in; mv moved in; mv in out; git -C out/moved worktree add -q -b w ../linked; rm -r out/linked/.git",
		"git init -q --bare --template= mine.git; mv mine.git/refs mine.git/r; mv mine.git/r mine.git/refs; git -C mine.git branch; rm -rf mine.git; test ! -e mine.git",
		"mkdir k; cd k; git init -q --bare --template= b; cp -r b/objects b/refs b/HEAD .",
		"touch .sandgate-0123; mkdir -p x/y; touch x/y/HEAD x/refs; mv x z; mv z/y/HEAD z/h; rm z/refs",
	} {
		if !run(command) {
			t.Errorf("%s: it could not be done", command)
		}
	}
	for _, dir := range []string{"a/b/proj", "tree", "bare"} {
		if got := person("git -C " + dir + " remote get-url origin"); got != "https://good.example/x" {
			t.Errorf("the origin of %s is %s", dir, got)
		}
	}
}

// TestGitFilesOfAPersonStay: nor is a .git file, by which a linked work tree or a submodule is
// one, taken away where mounts hold. One that the same call has made goes with its work tree.
func TestGitFilesOfAPersonStay(t *testing.T) {
	b, ws := newBwrap(t), confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	p.Protect = append(p.Protect, ".git/hooks", ".git/config")
	const git = `export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; `
	cmd := exec.Command("/bin/sh", "-c", git+"git init -q proj && cd proj && git commit -q --allow-empty -m first && git worktree add -q -b w ../tree")
	cmd.Dir = ws
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	one := converse(t, b, p, ws)
	defer one.end()
	run := func(command string) string {
		return one.does(`exec('r = subprocess.run(["/bin/sh", "-ec", ` + strings.ReplaceAll(strconv.Quote(git+command), `'`, `\'`) + `], stderr=subprocess.PIPE).stderr.decode().strip().split(chr(10))[-1]', g); r = g['r']`)
	}
	for command, want := range map[string]string{
		"rm tree/.git": "rm: cannot remove 'tree/.git': Device or resource busy", "mv tree/.git g": "mv: cannot remove 'tree/.git': Device or resource busy",
		"echo gone > tree/.git": "/bin/sh: 1: cannot create tree/.git: Read-only file system",
		"cd tree; git status -s; git commit -q --allow-empty -m second":                          "",
		"cd proj; git worktree add -q -b x ../linked 2>/dev/null; git worktree remove ../linked": "",
	} {
		if got := run(command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestNoRepositoryBesideAPersons: git takes a directory itself for a repository where it does
// not like what its .git says, which a program can see to. Beside a .git there is none.
func TestNoRepositoryBesideAPersons(t *testing.T) {
	const makes = `cp -r own/objects own/refs "$1"; cp own/HEAD "$1"; printf '[remote "origin"]\n\turl = https://evil.example/x\n' > "$1/config"`
	for dir, planted := range map[string]bool{"proj": true, "plain": false} {
		b, ws := newBwrap(t), confinetest.Workspace(t)
		p := confinetest.Profile(t, ws)
		p.Protect = append(p.Protect, ".git/hooks", ".git/config")
		cmd := exec.Command("/bin/sh", "-c", "git init -q proj; mkdir plain; git init -q --bare --template= own")
		cmd.Dir = ws
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		o := confinetest.Exec(t, context.Background(), b, p, ws, nil, "/bin/sh", "-c", makes, "sh", dir)
		_, err := os.Lstat(filepath.Join(ws, dir, "HEAD"))
		if (len(o.Planted) > 0) != planted || os.IsNotExist(err) != planted {
			t.Errorf("%s: planted %+v, HEAD %v, %s", dir, o.Planted, err, o.Err)
		}
	}
}
