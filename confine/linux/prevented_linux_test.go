package linux_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestNothingIsPlanted: where the broker makes the changes, what TestNothingPlantedRuns
// finds and takes away is never made. Nothing looks for it, during the call or after.
func TestNothingIsPlanted(t *testing.T) {
	l := newLandlock(t, linux.LandlockOptions{})
	for _, x := range plants {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			if _, err := exec.LookPath(x.lacks); x.lacks != "" && err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			g := newGround(t)
			t.Setenv("HOME", g.beside+"/home")
			g.outside(x.setup)
			r, err := g.tries(l, x.plant)
			if err != nil {
				t.Errorf("the call: %v", err)
			}
			if len(r.Planted) > 0 {
				t.Errorf("something was made, and taken away: %+v", r.Planted)
			}
			if len(r.Refused) == 0 {
				t.Errorf("nothing was refused: %s", g.said.String())
			}
			g.outside(x.fire)
			if g.fired() {
				t.Errorf("it runs; refused was %+v\n%s", r.Refused, g.said.String())
			}
		})
	}
}

// TestWhatIsMadeInPlace: what people's tools make every day is made, at once and without
// a word, by the same rules that keep plants from existing.
func TestWhatIsMadeInPlace(t *testing.T) {
	l := newLandlock(t, linux.LandlockOptions{})
	for _, x := range []struct{ name, make, want string }{
		{"a repository", "git init -q n && cd n && git config user.name x && " + repo + " && git remote add o ../o && git stash list && git gc -q", "cd n && git fsck && git status"},
		{"a clone", "(mkdir o; cd o; " + repo + ") && git clone -q o n && git -C n pull -q && rm -rf n && git clone -q o n", "git -C n log -1 && git -C n status"},
		{"worktrees", repo + " && git worktree add -q a && git worktree add -q b && git worktree move a c && git worktree remove b && git worktree prune", "git -C c status && test ! -e b"},
		{"a submodule", "(mkdir o; cd o; " + repo + ") && " + repo + " && git -c protocol.file.allow=always submodule --quiet add ./o sub && git commit -qm s && git submodule --quiet deinit -f sub && git -c protocol.file.allow=always submodule --quiet update --init",
			"git status && git -C sub log -1"},
		{"a bare repository", "git init -q --bare b && mkdir n && cd n && " + repo + " && git push -q ../b HEAD && git clone -q --bare . ../c && git -C ../c config user.name x", "git -C b log -1 --all && git -C c log -1"},
		{"a repository elsewhere", "mkdir g && git init -q --separate-git-dir=g/.git n && cd n && " + repo, "git -C n status && test -f n/.git"},
		{"configurations in turn", "git init -q n && cd n && for i in 1 2 3 4 5 6; do git config user.name a$i; done && git remote add o ../o && git checkout -qb x", "test $(git -C n config user.name) = a6"},
		{"a repository, copied", "mkdir n && (cd n; " + repo + ") && cp -r n m && cp -a n k && git -C k status", "git -C m status && git -C k fsck"},
		{"a repository, unpacked", "mkdir n && (cd n; " + repo + ") && tar c n | (mkdir m; cd m; tar x) && git -C m/n status", "git -C m/n fsck"},
		{"a file for git, written by hand", "mkdir n w && (cd n; " + repo + ") && echo gitdir: ../n/.git > w/.git && touch w/file && while ! test -e w/.git; do :; done && git -C w log -1 && echo gitdir: $W/n/.git > w/.git && touch w/x && rm w/.git", "test ! -e w/.git"},
		{"links", "mkdir -p m/.bin m/p/lib a/b && ln -s ../p/cli.js m/.bin/cli && ln -s . m/p/lib/self && ln -s /usr/bin/python3 python && ln -s $W/a abs && ln -s nowhere dangling && mv m/.bin m/bin && mv m/p a/b/p && ln -sf ../b/p a/p && ln m/bin/cli m/bin/hard",
			"test -L m/bin/cli && test -L m/bin/hard && test -L a/b/p/lib/self && test $(readlink python) = /usr/bin/python3"},
		{"names that only look like git's", "mkdir -p src/config src/hooks src/info && echo x > src/config/a && echo x > src/hooks/b && echo x > HEAD && echo y > src/commondir2 && ln -s config src/refs && mkdir objects && mv src lib", "test -f lib/hooks/b && test -d objects"},
		{"a worktree that is moved into another place", repo + " && mkdir deep && git worktree add -q deep/a && mv deep/a deep/b && git worktree repair deep/b", "git -C deep/b status"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			g := newGround(t)
			t.Setenv("HOME", g.beside+"/home")
			r, err := g.tries(l, "set -e; "+x.make)
			if err != nil || r.ExitCode != 0 || len(r.Refused) > 0 || len(r.Planted) > 0 {
				t.Errorf("%v, %d, refused %+v\n%s", err, r.ExitCode, r.Refused, g.said.String())
			}
			g.outside("set -e; " + x.want + "; touch $C")
			if !g.fired() {
				t.Errorf("outside: %s", g.said.String())
			}
		})
	}
}

// TestFileToolsPlantNothing: what the file tools write is judged as what programs write,
// and what they read is as little.
func TestFileToolsPlantNothing(t *testing.T) {
	g := newGround(t)
	g.outside("echo SECRET=1 > .env; ln .env notes; git init -q there; ln there/.git/config plain")
	box, err := newLandlock(t, linux.LandlockOptions{}).Prepare(context.Background(), plantedProfile(t, g.ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	do := func(kind sandboxprofile.Kind, op sandboxprofile.Operation) confine.Result {
		t.Helper()
		op.Path, op.MaxBytes = g.ws+"/"+op.Path, 1<<20
		r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: kind, File: &op}, confine.Stdio{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	write := func(name, content, want string) {
		t.Helper()
		if r := do(sandboxprofile.WriteFile, sandboxprofile.Operation{Path: name, Content: []byte(content), MakeParents: true}); r.Errno != want {
			t.Errorf("write %s: %q, want %q", name, r.Errno, want)
		}
	}
	evil := "[core]\n\tbare = false\n\tworktree = ../y\n\tfsmonitor = \"touch " + g.canary() + "; false\"\n"
	// The settings last, and first.
	write("x/refs/a", "a", "")
	write("x/objects/a", "a", "")
	write("x/HEAD", "ref: refs/heads/main\n", "")
	write("x/config", evil, "EROFS")
	write("x/hooks/pre-commit", "#!/bin/sh\ntouch "+g.canary()+"\n", "EROFS")
	write("x/commondir", "../z\n", "EROFS")
	write("y/.git", "gitdir: ../x\n", "EROFS")
	write("z/config", evil, "")
	write("z/refs/a", "a", "")
	write("z/objects/a", "a", "EROFS")
	write("v/HEAD", "ref: refs/heads/main\n", "")
	write("v/config", evil, "")
	write("v/commondir", "../z\n", "EROFS")
	// A repository of a person's, which would have another configuration and other hooks.
	write("there/.git/q/refs/a", "a", "")
	write("there/.git/worktrees/w/commondir", "../../q\n", "EROFS")
	write("there/.git/worktrees/w/commondir", "../..\n", "") // as git worktree writes it
	// The same names where git makes nothing of them.
	write("w/config", "[core]\n", "")
	write("w/hooks/pre-commit", "text\n", "")
	write("there/objects", "text\n", "")
	if r := do(sandboxprofile.EditFile, sandboxprofile.Operation{Path: "notes"}); r.Errno != "EACCES" {
		t.Errorf("an edit of a hidden file under another name: %q", r.Errno)
	}
	write("notes", "mine\n", "EACCES")
	write("plain", evil, "EACCES")
	for name, want := range map[string]string{"notes": "EACCES", ".env": "EACCES", "plain": "EACCES", "w/config": ""} {
		if r := do(sandboxprofile.ReadFile, sandboxprofile.Operation{Path: name}); r.Errno != want {
			t.Errorf("read %s: %q, want %q", name, r.Errno, want)
		}
	}
	grep := sandboxprofile.Operation{Search: &sandboxprofile.Search{Pattern: "SECRET|fsmonitor", Limit: 100, Within: time.Minute, Root: g.ws, Ignored: true}}
	if r := do(sandboxprofile.GrepFiles, grep); r.File == nil || r.File.Found == nil {
		t.Errorf("grep: %+v", r)
	} else if lines := fmt.Sprintf("%+v", r.File.Found.Lines); strings.Contains(lines, "SECRET") || !strings.Contains(lines, "fsmonitor") {
		t.Errorf("grep: %s", lines)
	}
	g.outside("for d in . x y z v w there; do (cd $d; git status; git commit --allow-empty -m x); done")
	if g.fired() {
		t.Errorf("it runs: %s", g.said.String())
	}
}
