package linux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestGitWorksInside: what git itself makes stays, in the call that makes it and
// in later ones, and nothing is said about it.
func TestGitWorksInside(t *testing.T) {
	c, g := newWarmPool(t), newGround(t)
	for _, x := range []struct{ call, want string }{
		{"git init -q app && cd app && git checkout -qb main && echo x > a && git add a && git commit -qm one && git config user.email me@here && git remote add origin https://host/x", ""},
		{"cd app && echo y > a && git add a && git commit -qm two && git branch side && git stash list && git log --oneline | wc -l", "2"},
		{"git clone -q app copy && git -C copy log --oneline | wc -l", "2"},
		{"git clone -q --bare app bare.git && git -C bare.git log --oneline | wc -l", "2"},
		{"cd app && git worktree add -q ../tree side && git -C ../tree status --short | wc -l", "0"},
		{"cd tree && echo z > b && git add b && git commit -qm three && git log --oneline | wc -l", "3"},
		{"cd app && git worktree add -q ../brief -b brief && git worktree remove ../brief && git worktree list | wc -l", "2"},
		{"cd app && git worktree remove ../tree 2>&1 | grep -o 'Device or resource busy'", "Device or resource busy"}, // it may be a person's by now
		{"cd copy && git -c protocol.file.allow=always submodule --quiet add $W/app sub && git commit -qm sub && git submodule status | wc -l", "1"},
		{"cd copy && git -c protocol.file.allow=always submodule --quiet update && cd sub && git checkout -q main && echo s > c && git add c && git commit -qm in-sub && git log --oneline | wc -l", "3"},
		{"cd app && git checkout -q side && git merge -q main && git rebase -q main && git tag v1 && git gc -q && git fsck 2>/dev/null; git tag", "v1"},
	} {
		o := confinetest.Exec(t, context.Background(), c, plantedProfile(t, g.ws), g.ws, nil, "/bin/bash", "-c", g.script("set -e; "+x.call))
		if o.ExitCode != 0 || strings.TrimSpace(o.Out) != x.want {
			t.Errorf("%s: %q, status %d, %s", x.call, o.Out, o.ExitCode, o.Err)
		}
		if len(o.Planted) > 0 {
			t.Errorf("%s: %+v", x.call, o.Planted)
		}
	}
}

// TestReplacedConfigurationIsComparedWithItself: the user's git replaces the
// configuration while a call runs, and takes the mount over it away. What the tool
// writes into the new one does not stay; the user's own change does.
func TestReplacedConfigurationIsComparedWithItself(t *testing.T) {
	for name, x := range map[string]struct {
		tool string
		runs bool
	}{
		"the tool adds a program":  {"git config core.fsmonitor 'touch '$C'; false'", false},
		"the tool changes nothing": {"true", true},
	} {
		t.Run(name, func(t *testing.T) {
			b, g := newBwrap(t), newGround(t)
			g.outside(repo + " && git config alias.mine '!touch '$C")
			done := make(chan confine.Result)
			go func() {
				done <- g.inside(b, "touch started; until [ -e changed ]; do sleep 0.01; done; "+x.tool)
			}()
			g.outside("until [ -e started ]; do sleep 0.01; done; git config user.email me@here; touch changed")
			r := <-done
			if (len(r.Planted) == 0) != x.runs {
				t.Errorf("planted: %+v", r.Planted)
			}
			g.outside("git status")
			if g.fired() {
				t.Error("the tool's program runs")
			}
			g.outside("git mine")
			if g.fired() != x.runs {
				t.Errorf("the user's own alias runs: %v", g.fired())
			}
		})
	}
}

// TestOneCallSeesWhatAnotherPlanted: a file that a call planted is taken away when
// the next one begins, though the first still runs, and is said of the first.
func TestOneCallSeesWhatAnotherPlanted(t *testing.T) {
	c, g := newWarmPool(t), newGround(t)
	done := make(chan confine.Result)
	go func() { done <- g.inside(c, "echo evil > .envrc; touch started; until [ -e go ]; do sleep 0.01; done") }()
	g.outside("until [ -e started ]; do sleep 0.01; done")
	o := confinetest.Exec(t, context.Background(), c, plantedProfile(t, g.ws), g.ws, nil, "/bin/bash", "-c", "[ -e .envrc ] || echo gone")
	if o.Out != "gone\n" || len(o.Planted) > 0 {
		t.Errorf("the second call: %q, %+v", o.Out, o.Planted)
	}
	g.outside("touch go")
	if r := <-done; len(r.Planted) != 1 || !strings.HasSuffix(r.Planted[0].Path, "/.envrc") {
		t.Errorf("the first call: %+v", r.Planted)
	}
}

// TestWhatCannotBeKeptIsDisarmed: what is too large to copy to the quarantine's file system,
// or finds no quarantine, no room in it or too many items, loses the name that makes it act.
// The call ends with an error that says where it is, and the next one goes on.
func TestWhatCannotBeKeptIsDisarmed(t *testing.T) {
	elsewhere := func(t *testing.T) *quarantine.Store {
		dir, err := os.MkdirTemp("/dev/shm", "sandgate-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		store, err := quarantine.Open(filepath.Join(dir, "quarantine"))
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	full := func(t *testing.T) *quarantine.Store {
		store, err := quarantine.Open(confinetest.Workspace(t) + "/quarantine")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			mkdir(t, fmt.Sprintf("%s/items/20260101T000000.000Z-%06d", store.Dir(), i))
		}
		return store
	}
	const hook = "mkdir n && cd n && " + repo + " && " + hookFile + ".git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && "
	for _, x := range []struct {
		name        string
		store       func(t *testing.T) *quarantine.Store
		plant, fire string
		gone        string // what there is no more
	}{
		{"many levels", elsewhere, hook + "mkdir -p .git/hooks" + strings.Repeat("/d", 100), "cd n && git commit --allow-empty -qm x", "n/.git/hooks"},
		{"a large sparse file", elsewhere, hook + "truncate -s 300M .git/hooks/large", "cd n && git commit --allow-empty -qm x", "n/.git/hooks"},
		{"a large file", elsewhere, "truncate -s 300M .bashrc", "true", ".bashrc"},
		{"a closed directory", elsewhere, "mkdir n && mkdir -p n/.vscode" + strings.Repeat("/d", 100) + " && chmod 0311 n", "true", "n/.vscode"},
		{"items without number", full, hook + "true", "cd n && git commit --allow-empty -qm x", "n/.git/hooks"},
		{"a link", full, "ln -s $OUT out", "touch out/x && touch $C", "out"},
		{"no quarantine", func(*testing.T) *quarantine.Store { return nil }, hook + "true", "cd n && git commit --allow-empty -qm x", "n/.git/hooks"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			b, g := newBwrap(t), newGround(t)
			b.Use(tripwire.New(x.store(t)))
			_, err := g.tries(b, x.plant)
			var u *confine.Unenforceable
			if !errors.As(err, &u) || u.Part != "the protected names" || !strings.Contains(u.Reason, "ws/"+strings.Split(x.gone, "/")[0]) || u.Hint == "" || len(u.Reason) > 2000 {
				t.Fatalf("error %v", err)
			}
			if _, err := os.Lstat(g.ws + "/" + x.gone); err == nil {
				t.Errorf("%s is still there", x.gone)
			}
			if made, _ := filepath.Glob(g.ws + "/*/.vscode"); len(made) > 0 {
				t.Errorf("still there: %q", made)
			}
			g.outside(x.fire)
			if g.fired() {
				t.Errorf("it runs, after %v", err)
			}
			if r := g.inside(b, "true"); r.ExitCode != 0 || len(r.Planted) > 0 {
				t.Errorf("the next call: %+v", r)
			}
		})
	}
}

// TestWhatCannotBeLookedAtBars: a path that is too long to be looked at ends the call, and
// bars the next one in this workspace until it is gone.
func TestWhatCannotBeLookedAtBars(t *testing.T) {
	b, g := newBwrap(t), newGround(t)
	_, err := g.tries(b, "mkdir a && cd a && d=$(printf 'd%.0s' $(seq 200)); for i in $(seq 24); do mkdir $d && cd $d; done")
	wantBarred(t, err)
	_, err = b.Prepare(context.Background(), plantedProfile(t, g.ws))
	wantBarred(t, err)
	if other := newGround(t); other.inside(b, "echo x > made").ExitCode != 0 {
		t.Errorf("a call in another workspace: %s", other.said.String())
	}
	g.outside("rm -r a")
	if r := g.inside(b, "true"); len(r.Planted) > 0 {
		t.Errorf("%+v", r.Planted)
	}
}

func wantBarred(t *testing.T, err error) {
	t.Helper()
	var u *confine.Unenforceable
	if !errors.As(err, &u) || u.Part != "the protected names" || !strings.Contains(u.Reason, "too deep") || u.Hint == "" || len(u.Reason) > 2000 {
		t.Errorf("error %v", err)
	}
}

// TestOtherNamesOfCoveredFiles: a hard link to a hidden or protected file is
// covered like it, wherever it lies; one to another file is not.
func TestOtherNamesOfCoveredFiles(t *testing.T) {
	b, g := newBwrap(t), newGround(t)
	g.outside("mkdir -p .git/hooks sub .ssh && echo hunter2 > .env && echo hook > .git/hooks/pre-commit && echo key > .ssh/id && echo plain > plain && " +
		"ln .env sub/a && ln .git/hooks/pre-commit sub/b && ln .ssh/id sub/c && ln plain sub/d")
	r := g.inside(b, "cat sub/a; cat sub/b; echo evil > sub/b; cat sub/c; echo new > sub/d; cat plain")
	said := g.said.String()
	for _, want := range []string{"sub/a: Permission denied", "hook\n", "sub/b: Read-only file system", "sub/c: Permission denied", "new\n"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %q", want, said)
		}
	}
	if strings.Contains(said, "hunter2") || len(r.Planted) > 0 {
		t.Errorf("%q %+v", said, r.Planted)
	}
}

// TestNamesOutsideAreSaid: a file of the workspace that has a name elsewhere is
// written through; the sandbox says so. One with both names inside is no news.
func TestNamesOutsideAreSaid(t *testing.T) {
	c, g := newWarmPool(t), newGround(t)
	g.outside("mkdir a b && echo x > a/both && echo x > $OUT/store && ln $OUT/store a/package")
	warnings := func() []string {
		box, err := c.Prepare(context.Background(), plantedProfile(t, g.ws))
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
		return box.(confine.Warned).Warnings()
	}
	for range 2 {
		if w := warnings(); len(w) != 1 || !strings.Contains(w[0], "written to "+g.ws+"/a/package is") {
			t.Errorf("%q", w)
		}
		g.outside("ln a/both b/both")
	}
	g.outside("rm a/package")
	if w := warnings(); len(w) != 0 {
		t.Errorf("%q", w)
	}
}

// TestWhatIsOnlyReported: a link to what the tool may read is said and stays; one
// to what the system has, or inside, is not worth a word.
func TestWhatIsOnlyReported(t *testing.T) {
	b, g := newBwrap(t), newGround(t)
	p := plantedProfile(t, g.ws)
	p.Paths[g.out] = sandboxprofile.Read
	o := confinetest.Shell(t, b, p, g.ws, "mkdir -p d; ln -s "+g.out+" data; ln -s /usr/bin/python3 python; ln -s ../d d/up; ln -s /dev/null null; ln -s "+g.ws+"/d abs")
	if len(o.Planted) != 1 || o.Planted[0].Path != g.ws+"/data" || o.Planted[0].Kept != "" {
		t.Errorf("%+v", o.Planted)
	}
	for _, name := range []string{"data", "python", "d/up", "null", "abs"} {
		if _, err := os.Lstat(filepath.Join(g.ws, name)); err != nil {
			t.Error(err)
		}
	}
	if o := confinetest.Shell(t, b, p, g.ws, "true"); len(o.Planted) > 0 {
		t.Errorf("said again: %+v", o.Planted)
	}
}

// TestLettersOfAnyCase: names that a file system without regard to case takes for
// protected ones are protected.
func TestLettersOfAnyCase(t *testing.T) {
	b, g := newBwrap(t), newGround(t)
	r := g.inside(b, "echo x > .BashRC; mkdir -p .GIT/Hooks; echo x > .GIT/Hooks/pre-commit; echo x > bashrc; echo x > .MCP.json")
	var names []string
	for _, p := range r.Planted {
		names = append(names, strings.TrimPrefix(p.Path, g.ws+"/"))
	}
	if got := strings.Join(names, " "); got != ".BashRC .GIT/Hooks .MCP.json" {
		t.Errorf("planted: %s", got)
	}
	if _, err := os.Stat(g.ws + "/bashrc"); err != nil {
		t.Error(err)
	}
}

// TestMountsCannotUncover: no mount of the tool's own shows what is under a cover.
func TestMountsCannotUncover(t *testing.T) {
	b, g := newBwrap(t), newGround(t)
	g.outside(repo + "; echo hunter2 > .env")
	r := g.inside(b, "mkdir m; mount --bind $W m; umount .env; unshare -rm true; python3 -c '\nimport ctypes\nl = ctypes.CDLL(None, use_errno=True)\n"+
		"print(l.umount2(b\".env\", 2), ctypes.get_errno())\nprint(l.syscall(428, -100, b\".\", 1), ctypes.get_errno())'; cat .env; echo x > .git/config; cat m/.env")
	said := g.said.String()
	if strings.Contains(said, "hunter2") || strings.Count(said, "-1 1\n") != 2 || !strings.Contains(said, ".git/config: Read-only file system") || len(r.Planted) > 0 {
		t.Errorf("%s\n%+v", said, r.Planted)
	}
}

// TestManyPlantsAtOnce: a thousand planted names are undone within the call.
func TestManyPlantsAtOnce(t *testing.T) {
	b, g := newBwrap(t), newGround(t)
	started := time.Now()
	r := g.inside(b, "for i in $(seq 1000); do mkdir d$i; : > d$i/.envrc; done")
	if len(r.Planted) != 1000 {
		t.Errorf("%d are reported", len(r.Planted))
	}
	if left, _ := filepath.Glob(g.ws + "/*/.envrc"); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
	t.Logf("%v", time.Since(started))
}
