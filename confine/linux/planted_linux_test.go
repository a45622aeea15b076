package linux_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A plant is something that a tool leaves, and what the user does later.
type plant struct {
	name  string
	setup string // what the user has: run outside, in the workspace
	plant string // what the tool does: run inside, and for the twin outside
	fire  string // what the user does later: run outside
	// held means that a mount already refuses the plant: nothing is left to undo.
	held bool
	// fails means that not all of it can be undone: the call ends with an error.
	fails bool
	// lacks is a program that may be missing where nobody prepared the machine.
	lacks string
}

// In every script $W is the workspace, $C a file that only a program outside of the
// sandbox can make, and $OUT a directory beside the workspace.
const (
	repo = "git init -q . && echo x > file && git add file && git commit -qm first"
	// evil makes a whole repository in the directory evil whose status runs a program.
	evil    = "cp -r .git evil && git config -f evil/config core.bare false && git config -f evil/config core.fsmonitor 'touch '$C'; false' && git config -f evil/config alias.st '!touch '$C && "
	monitor = "'touch '$C'; false'"
	// bare makes what git takes for a repository once it has a configuration, which a branch of
	// the user's own repository brings.
	bare     = "mkdir -p n evil && cp -r .git/HEAD .git/objects .git/refs evil/ && "
	branched = "git checkout -qb feature && git update-index --add --cacheinfo 100644,$(printf '[core]\\n\\tbare = false\\n\\tfsmonitor = \"touch '$C'; false\"\\n\\tworktree = ../n\\n' | git hash-object -w --stdin),evil/config && git commit -qm e && git checkout -qf master"
	hookFile = "printf '#!/bin/sh\\ntouch '$C'\\n' > "
)

var plants = []plant{
	{name: "hook in a new repository", plant: "mkdir n && cd n && " + repo + " && " + hookFile + ".git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
		fire: "cd n && git commit --allow-empty -qm x"},
	{name: "monitor in a new repository", plant: "mkdir n && cd n && " + repo + " && git config core.fsmonitor " + monitor, fire: "cd n && git status"},
	{name: "alias in a new repository", plant: "mkdir n && cd n && " + repo + " && git config alias.st '!touch '$C", fire: "cd n && git st"},
	{name: "include in a new repository", plant: "mkdir n && cd n && " + repo + " && git config include.path ../more && git config -f more core.fsmonitor " + monitor,
		fire: "cd n && git status"},
	{name: "hooks path in a new repository", plant: "mkdir n h && cd n && " + repo + " && git config core.hooksPath ../h && " + hookFile + "../h/pre-commit && chmod +x ../h/pre-commit",
		fire: "cd n && git commit --allow-empty -qm x"},
	{name: "filter in a new repository", plant: "mkdir n && cd n && " + repo + " && git config filter.x.clean 'touch '$C'; cat' && echo '* filter=x' > .gitattributes",
		fire: "cd n && git add ."},
	{name: "diff driver in a new repository", plant: "mkdir n && cd n && " + repo + " && git config diff.x.command 'touch '$C && echo '* diff=x' > .gitattributes && echo y > file",
		fire: "cd n && git diff"},
	{name: "pager in a new repository", plant: "mkdir n && cd n && " + repo + " && git config core.pager 'touch '$C", fire: "cd n && script -qc 'git log' /dev/null"},
	{name: "header and key on one line", plant: "mkdir n && cd n && " + repo + " && echo '[core] fsmonitor = \"touch '$C'; false\" #]' >> .git/config", fire: "cd n && git status"},
	{name: "work tree elsewhere", plant: "mkdir n && cd n && " + repo + " && git config core.worktree $OUT", fire: "cd n && git checkout -qf HEAD -- . && cp $OUT/file $C"},

	{name: "work tree that is the git directory", plant: "mkdir n && cd n && " + repo + " && git checkout -qb evil && mkdir hooks && " + hookFile + "hooks/post-checkout && chmod +x hooks/post-checkout && git add hooks && git commit -qm e && git checkout -q - && git config core.worktree .",
		fire: "cd n && git checkout -q evil; git -C n checkout -qf master; true"},
	{name: "gitfile to its own directory", plant: "mkdir n && cd n && " + repo + " && git checkout -qb evil && mkdir hooks && " + hookFile + "hooks/post-checkout && chmod +x hooks/post-checkout && git add hooks && git commit -qm e && git checkout -q - && rm -rf .git/hooks && mv .git g && mv g/* . && rm -rf g && echo gitdir: . > .git; touch done",
		fire: "cd n && git checkout -qf evil; git checkout -qf master"},
	{name: "promisor remote", setup: repo, plant: "git config remote.evil.promisor true && git config extensions.partialClone evil", fire: "git config remote.evil.promisor && touch $C", held: true},
	{name: "where the user pushes", setup: repo + " && git remote add origin ../o", plant: "git config remote.origin.pushurl ext:evil || git config remote.origin.url /evil", fire: "git config remote.origin.pushurl && touch $C; git config remote.origin.url | grep evil && touch $C", held: true},

	{name: "hook in the user's repository", setup: repo, plant: hookFile + ".git/hooks/pre-commit && chmod +x .git/hooks/pre-commit",
		fire: "git commit --allow-empty -qm x", held: true},
	{name: "configuration of the user's repository", setup: repo, plant: "git config core.fsmonitor " + monitor, fire: "git status", held: true},
	{name: "the user's repository moved away", setup: "mkdir n && cd n && " + repo, plant: "mv n m && cp -r m n && git -C n config core.fsmonitor " + monitor,
		fire: "cd n && git status", held: true},
	{name: "worktree configuration", setup: repo + " && git config extensions.worktreeConfig true", plant: "git config -f .git/config.worktree core.fsmonitor " + monitor, fire: "git status"},
	{name: "configuration of a linked worktree", setup: repo + " && git config extensions.worktreeConfig true && git worktree add -q wt",
		plant: "git config -f .git/worktrees/wt/config.worktree core.fsmonitor " + monitor, fire: "cd wt && git status"},
	{name: "commondir", setup: repo, plant: evil + "echo $W/evil > .git/commondir", fire: "git status"},
	{name: "commondir of a linked worktree", setup: repo + " && git worktree add -q wt", plant: evil + "echo $W/evil > .git/worktrees/wt/commondir", fire: "cd wt && git status"},
	{name: "gitfile of a linked worktree", setup: repo + " && git worktree add -q wt", plant: evil + "echo gitdir: $W/evil > wt/.git", fire: "cd wt && git status"},
	{name: "gitfile in a new directory", setup: repo, plant: evil + "mkdir n && echo gitdir: ../evil > n/.git", fire: "cd n && git status"},
	{name: "link to a repository", setup: repo, plant: evil + "mkdir n && ln -s ../evil n/.git", fire: "cd n && git status"},
	{name: "gitfile with a NUL", setup: repo, plant: bare + "printf 'gitdir: ../evil\\0/.git\\n' > n/.git && " + branched, fire: "git checkout -qf feature; cd n && git status"},
	{name: "gitfile through a link below .git", setup: repo, plant: bare + "ln -s ../evil .git/foo && echo gitdir: ../.git/foo > n/.git && " + branched, fire: "git checkout -qf feature; cd n && git status"},
	{name: "moved submodule whose work tree is elsewhere", plant: "mkdir -p a/b/m && cd a/b/m && " + repo + " && git clone -q --bare . .git/modules/q && git config -f .git/modules/q/config core.bare false && " +
		"git config -f .git/modules/q/config core.worktree ../../../../../$(basename $OUT) && mkdir sub && echo gitdir: ../.git/modules/q > sub/.git && cd ../../.. && mv a/b/m m", fire: "cd m/sub && git checkout -qf; cp $OUT/file $C"},
	{name: "gitfile that leads out", setup: "cd $OUT && " + repo + " && git config core.fsmonitor " + monitor, plant: "mkdir n && echo gitdir: $OUT/.git > n/.git", fire: "cd n && git status"},
	{name: "long gitfile that leads out", setup: "cd $OUT && " + repo + " && git config core.fsmonitor " + monitor,
		plant: "mkdir n && { echo gitdir: $OUT/.git; head -c 100000 /dev/zero | tr '\\0' '\\n'; } > n/.git", fire: "cd n && git status"},
	{name: "directory dressed as a repository", setup: repo, plant: evil + "mkdir n && mv evil/* n/ && git config -f n/config core.worktree .", fire: "cd n && git status"},
	{name: "directory dressed by commondir", setup: repo, plant: evil + "mkdir n && cp evil/HEAD n/ && echo $W/evil > n/commondir",
		fire: "cd n && git st"},
	{name: "workspace dressed as a repository", plant: "mkdir t && cd t && " + repo + " && git config core.fsmonitor " + monitor + " && git config core.bare false && git config core.worktree . && mv .git/* .. ",
		fire: "git status"},
	{name: "dressed with programs in a link", setup: repo, plant: evil + "mkdir n && mv evil/config innocent && mv evil/* n/ && git config -f innocent core.worktree . && ln -s ../innocent n/config",
		fire: "cd n && git status"},
	{name: "submodule's hook", setup: "mkdir s && (cd s && " + repo + ") && " + repo,
		plant: "git -c protocol.file.allow=always submodule --quiet add ./s sub 2>/dev/null || { git clone -q --separate-git-dir=.git/modules/sub s sub; }; " +
			"mkdir -p .git/modules/sub/hooks && " + hookFile + ".git/modules/sub/hooks/pre-commit && chmod +x .git/modules/sub/hooks/pre-commit",
		fire: "cd sub && git commit --allow-empty -qm x"},
	{name: "hook of a submodule far down", setup: "mkdir s && (cd s && " + repo + ") && " + repo,
		plant: "mkdir -p .git/modules/a/b && git clone -q --separate-git-dir=.git/modules/a/b/c s sub && " + hookFile + ".git/modules/a/b/c/hooks/pre-commit && chmod +x .git/modules/a/b/c/hooks/pre-commit",
		fire:  "cd sub && git commit --allow-empty -qm x"},
	{name: "attributes that no review shows", setup: repo + " && git config filter.x.clean 'touch '$C'; cat'", plant: "mkdir -p .git/info && echo '* filter=x' > .git/info/attributes && echo y > file",
		fire: "git add file"},
	{name: "the user's own hooks path, empty so far", setup: repo + " && git config core.hooksPath tools/hooks",
		plant: "mkdir -p tools/hooks && " + hookFile + "tools/hooks/pre-commit && chmod +x tools/hooks/pre-commit", fire: "git commit --allow-empty -qm x"},
	{name: "the user's own hooks path", setup: repo + " && git config core.hooksPath tools/hooks && mkdir -p tools/hooks && echo '#!/bin/sh' > tools/hooks/pre-commit && chmod +x tools/hooks/pre-commit",
		plant: hookFile + "tools/hooks/pre-commit", fire: "git commit --allow-empty -qm x", held: true},
	{name: "what the user's configuration includes", setup: repo + " && git config include.path ../shared.cfg", plant: "git config -f shared.cfg core.fsmonitor " + monitor, fire: "git status"},
	{name: "a program that the user's configuration names", setup: repo + " && git config core.fsmonitor ./tools/monitor", plant: "mkdir tools && " + hookFile + "tools/monitor && chmod +x tools/monitor",
		fire: "git status"},
	{name: "commondir without HEAD", setup: "git init -q . && echo x > file && mkdir sub && cd sub && " + repo + " && cd .. && git add file && git commit -qm first",
		plant: "cp -r sub/.git x && git config -f x/config core.fsmonitor " + monitor + " && mkdir -p x/worktrees/n && cp x/HEAD x/worktrees/n/ && echo ../.. > x/worktrees/n/commondir && rm x/HEAD && " +
			"rm -rf sub/.git && echo gitdir: ../x/worktrees/n > sub/.git && git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub", fire: "git status"},
	{name: "repository in a new hidden directory", setup: repo, plant: "mkdir -p .azure/g && cd .azure/g && " + repo + " && git config core.fsmonitor " + monitor, fire: "cd .azure/g && git status"},
	{name: "gitfile into a new hidden directory", setup: repo, plant: "mkdir -p .gnupg sub && cp -r .git .gnupg/g && git config -f .gnupg/g/config core.bare false && git config -f .gnupg/g/config core.fsmonitor " + monitor + " && echo gitdir: ../.gnupg/g > sub/.git", fire: "cd sub && git status"},
	{name: "links through a new hidden directory", plant: "mkdir .azure && ln -s $OUT .azure/esc && ln -s .azure/esc out", fire: "echo x > out/result; cp $OUT/result $C"},
	{name: "work tree elsewhere, in quotes", plant: "mkdir n && cd n && " + repo + " && printf '[core]\n\tworktree = \"%s\"\n' $OUT >> .git/config", fire: "cd n && git checkout -qf HEAD -- . && cp $OUT/file $C"},
	{name: "link to a gitfile that leads out", setup: "cd $OUT && " + repo + " && git config core.fsmonitor " + monitor, plant: "mkdir n && echo gitdir: $OUT/.git > n/file && ln -s file n/.git", fire: "cd n && git status"},
	{name: "what an included file names", setup: repo + " && git config include.path ../shared.cfg && git config -f shared.cfg core.hooksPath tools/hooks",
		plant: "mkdir -p tools/hooks && " + hookFile + "tools/hooks/pre-commit && chmod +x tools/hooks/pre-commit", fire: "git commit --allow-empty -qm x"},
	{name: "hooks path in a linked worktree", setup: "mkdir m && cd m && " + repo + " && git config core.hooksPath tools/hooks && git worktree add -q ../wt",
		plant: "mkdir -p wt/tools/hooks && " + hookFile + "wt/tools/hooks/pre-commit && chmod +x wt/tools/hooks/pre-commit", fire: "cd wt && git commit --allow-empty -qm x"},
	{name: "hooks path where the workspace is a linked worktree", setup: "cd $OUT && " + repo + " && git config core.hooksPath tools/hooks && rmdir $W && git worktree add -q $W",
		plant: "mkdir -p tools/hooks && " + hookFile + "tools/hooks/pre-commit && chmod +x tools/hooks/pre-commit", fire: "git commit --allow-empty -qm x"},
	{name: "hooks path with a blank", setup: repo + " && git config core.hooksPath 'my hooks'",
		plant: "mkdir 'my hooks' && " + hookFile + "'my hooks/pre-commit' && chmod +x 'my hooks/pre-commit'", fire: "git commit --allow-empty -qm x"},
	{name: "a script without a slash", setup: repo + " && git config filter.x.clean 'bash clean.sh' && echo '* filter=x' > .gitattributes",
		plant: "echo 'touch '$C'; cat' > clean.sh && echo y > file", fire: "git add file"},
	{name: "the user's hooks path for every repository", setup: "mkdir -p ~ && git config --global core.hooksPath .tools/hooks; " + repo,
		plant: "mkdir -p .tools/hooks && " + hookFile + ".tools/hooks/pre-commit && chmod +x .tools/hooks/pre-commit", fire: "git commit --allow-empty -qm x"},
	{name: "hook behind a path that is too deep", plant: "mkdir n && cd n && " + repo + " && " + hookFile + ".git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && cd .. && " +
		"mkdir a && cd a && d=$(printf 'd%.0s' $(seq 200)); for i in $(seq 24); do mkdir $d && cd $d; done", fire: "cd n && git commit --allow-empty -qm x", fails: true},
	{name: "hook behind too many links", plant: "mkdir a && cd a && python3 -c 'import os\nfor i in range(10010): os.symlink(\"/nowhere\", \"l%d\" % i)' && cd .. && mkdir n && cd n && " +
		repo + " && " + hookFile + ".git/hooks/pre-commit && chmod +x .git/hooks/pre-commit", fire: "cd n && git commit --allow-empty -qm x", fails: true},
	{name: "make that asks git", setup: "printf 'all:\\n\\t@cd n && git status >/dev/null\\n' > Makefile", plant: "mkdir n && cd n && " + repo + " && git config core.fsmonitor " + monitor, fire: "make -s", lacks: "make"},

	{name: "start-up file of a shell", plant: "echo 'touch '$C > .bashrc", fire: "HOME=$W bash -ic true"},
	{name: "start-up file of a login shell", plant: "echo 'touch '$C > .bash_profile; echo 'touch '$C > .profile", fire: "HOME=$W bash -lc true"},
	{name: "settings of git in HOME", plant: "printf '[alias]\\n\\tst = !touch '$C'\\n' > .gitconfig", fire: "HOME=$W git st"},
	{name: "settings of an editor", plant: "echo 'call system(\"touch '$C'\")' > .vimrc", fire: "HOME=$W vim -T dumb --not-a-term -c qa </dev/null", lacks: "vim"},
	{name: "directory of an editor", plant: "mkdir -p .vim/plugin && echo 'call system(\"touch '$C'\")' > .vim/plugin/x.vim", fire: "HOME=$W vim -T dumb --not-a-term -c qa </dev/null", lacks: "vim"},
	{name: "editor and the hook of a closed directory", plant: "mkdir .vim && mkdir .vim/plugin && echo 'call system(\"touch '$C'\")' > .vim/plugin/x.vim && chmod 0311 .vim",
		fire: "chmod 0755 .vim; HOME=$W vim -T dumb --not-a-term -c qa </dev/null", lacks: "vim"},
	{name: "hard link to what may be written", plant: "echo 'touch '$C > plain && ln plain .bashrc", fire: "HOME=$W bash -ic true"},
	{name: "link to what may be written", plant: "echo 'touch '$C > plain && ln -s plain .bashrc", fire: "HOME=$W bash -ic true"},
	{name: "renamed into place", plant: "mkdir a && echo 'touch '$C > a/x && mv a/x a/.bashrc && mv a b", fire: "HOME=$W/b bash -ic true"},

	{name: "directory exchanged for a link", setup: "mkdir build", plant: "rmdir build && ln -s $OUT build", fire: "echo x > build/result; cp $OUT/result $C"},
	{name: "link over a link in the middle", setup: "mkdir -p a/b", plant: "ln -s a/b up && ln -s up/../../../$(basename $OUT) out", fire: "echo x > out/result; cp $OUT/result $C"},
	{name: "link over a link to the workspace", plant: "mkdir -p p/q/r && ln -s $W p/q/r/top && ln -s p/q/r/top/../out out", fire: "echo x > out/result; cp $OUT/result $C"},
	{name: "link over a link to the workspace, by its absolute path", plant: "mkdir -p p/q/r && ln -s $W p/q/r/top && ln -s $W/p/q/r/top/../out out", fire: "echo x > out/result; cp $OUT/result $C"},
	{name: "link over a name of dots", plant: "mkdir sub && ln -s . sub/... && ln -s .../../../$(basename $OUT) sub/out", fire: "echo x > sub/out/result; cp $OUT/result $C"},
	{name: "configuration whose work tree lies over a name of dots", plant: "git init -q r && cd r && echo 'touch '$C > f && git add f && git -c user.name=a -c user.email=a@b commit -qm m && ln -s . .git/... && git config core.worktree .../.../../../../$(basename $OUT)",
		fire: "cd r && git reset -q --hard; cp $OUT/f $C"},
	{name: "remote that no configuration shows", setup: "git init -q P && cd P && " + repo + " && git init -q --bare $OUT/o.git && printf '#!/bin/sh\\ntouch '$C'\\n' > $OUT/o.git/hooks/pre-receive && chmod +x $OUT/o.git/hooks/pre-receive",
		plant: "cd P && mkdir -p .git/remotes && printf 'URL: %s\\nPush: HEAD\\n' $OUT/o.git > .git/remotes/origin", fire: "cd P && git push origin HEAD:refs/heads/x"},
	{name: "branch that names a remote", setup: "git init -q P && cd P && " + repo + " && git init -q --bare $OUT/o.git && printf '#!/bin/sh\\ntouch '$C'\\n' > $OUT/o.git/hooks/pre-receive && chmod +x $OUT/o.git/hooks/pre-receive",
		plant: "cd P && mkdir -p .git/branches && mkdir t && echo $OUT/o.git > t/origin && mv t/origin .git/branches/origin", fire: "cd P && git push origin HEAD:refs/heads/x"},
	{name: "bare repository with a remote that no configuration shows", setup: "git init -q --bare $OUT/o.git && printf '#!/bin/sh\\ntouch '$C'\\n' > $OUT/o.git/hooks/pre-receive && chmod +x $OUT/o.git/hooks/pre-receive",
		plant: "mkdir b && mkdir b/remotes && printf 'URL: %s\\n' $OUT/o.git > b/remotes/origin && git init -q --bare c && " + repo + " && git push -q ./c HEAD:refs/heads/x && cp -r c/* b/", fire: "git -C b push origin x"},
	{name: "link into tmp", plant: "ln -s /tmp/sandgate-test-$(basename $OUT) out", fire: "echo x > out; cp /tmp/sandgate-test-$(basename $OUT) $C; rm -f /tmp/sandgate-test-$(basename $OUT)"},
}

// planted is a profile as the shipped configuration makes it.
func plantedProfile(t testing.TB, ws string) sandboxprofile.Profile {
	p := confinetest.Profile(t, ws)
	p.Protect, p.Hide = profiles.Protect(), profiles.Hide()
	p.Paths["/etc/passwd"] = sandboxprofile.Read
	return p
}

// TestNothingPlantedRuns: whatever a tool leaves against the protected patterns,
// the user's own git, shell, editor and make run nothing of it. The twin plants
// the same from outside, and there it runs.
func TestNothingPlantedRuns(t *testing.T) {
	b := newBwrap(t)
	for _, x := range plants {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			if _, err := exec.LookPath(x.lacks); x.lacks != "" && err != nil {
				if os.Getenv("CI") != "" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			twin := newGround(t)
			twin.outside(x.setup)
			twin.outside(x.plant)
			twin.outside(x.fire)
			if !twin.fired() {
				t.Fatalf("outside of a sandbox this does not run either, so it proves nothing: %s", twin.said.String())
			}
			g := newGround(t)
			t.Setenv("HOME", g.beside+"/home")
			g.outside(x.setup)
			r, err := g.tries(b, x.plant)
			if (err != nil) != x.fails {
				t.Errorf("the call: %v", err)
			}
			if !x.held && len(r.Planted) == 0 {
				t.Errorf("nothing was reported: %s", g.said.String())
			}
			for _, p := range r.Planted {
				if p.Kept == "" {
					t.Errorf("%s was left where it is", p.Path)
				} else if _, err := os.Lstat(p.Kept); err != nil {
					t.Errorf("%s is not kept: %v", p.Path, err)
				}
			}
			g.outside(x.fire)
			if g.fired() {
				t.Errorf("it runs; reported was %+v", r.Planted)
			}
		})
	}
}

// A ground is a workspace with a directory beside it.
type ground struct {
	t               *testing.T
	ws, out, beside string
	mu              sync.Mutex // of said
	said            strings.Builder
}

func (g *ground) say(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.said.WriteString(text)
}

func newGround(t *testing.T) *ground {
	// Plants write to ../.. too: without a sandbox that must not be everybody's directory.
	dir := confinetest.Workspace(t) + "/a/b"
	g := &ground{t: t, ws: dir + "/ws", out: dir + "/out", beside: dir + "/beside"}
	for _, d := range []string{g.ws, g.out, g.beside, g.beside + "/home"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *ground) canary() string { return filepath.Join(g.beside, "canary") }

func (g *ground) fired() bool {
	_, err := os.Lstat(g.canary())
	return err == nil
}

func (g *ground) script(s string) string {
	return "W=" + g.ws + " C=" + g.canary() + " OUT=" + g.out +
		"; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1; cd $W; " + s
}

// outside runs a script as the user does. Its status is the script's own affair:
// a plant that was refused, or is gone, lets it fail.
func (g *ground) outside(s string) {
	cmd := exec.Command("/bin/bash", "-c", g.script(s))
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + g.beside + "/home", "TERM=dumb"}
	out, err := cmd.CombinedOutput()
	g.say(string(out))
	if err != nil {
		g.say(err.Error())
	}
}

// tries is inside for a call that may fail.
func (g *ground) tries(c confine.Confiner, s string) (confine.Result, error) {
	g.t.Helper()
	box, err := c.Prepare(context.Background(), plantedProfile(g.t, g.ws))
	if err != nil {
		g.t.Fatal(err)
	}
	defer box.Close()
	return box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: "/bin/bash", Argv: []string{"bash", "-c", g.script(s)}, Dir: g.ws, Env: []string{"HOME=/home/tool", "PATH=/usr/bin:/bin"},
	}}, confine.Stdio{Stdout: writerOf(g.say), Stderr: writerOf(g.say)})
}

type writerOf func(string)

func (w writerOf) Write(b []byte) (int, error) {
	w(string(b))
	return len(b), nil
}

func (g *ground) inside(c confine.Confiner, s string) confine.Result {
	g.t.Helper()
	o := confinetest.Exec(g.t, context.Background(), c, plantedProfile(g.t, g.ws), g.ws, nil, "/bin/bash", "-c", g.script(s))
	g.say(o.Out + o.Err)
	return o.Result
}
