package shell

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// TestClass lists everyday commands that only read, with the programs that they
// execute, and their neighbours that do more.
func TestClass(t *testing.T) {
	p := mustPolicy(t, Default{Allowed: true, Approval: true}, nil)
	for command, programs := range map[string]string{
		"ls -la": "ls", "cat a.go b.go": "cat", "head -20 f": "head", "tail -n 5 f": "tail", "wc -l f": "wc", "grep -rn foo src": "grep", "rg -n foo": "rg",
		"find . -name '*.go'": "find", "pwd": "pwd", "which go": "sh which", "stat f": "stat", "file f": "file", "diff a b": "diff", "sort f | uniq -c": "sort uniq",
		"cut -d: -f1 f": "cut", "tr a b < f": "tr", "du -sh .": "du", "df -h": "df", "date": "date", "env": "env", "git show HEAD": "git", "git branch -a": "git",
		"git rev-parse HEAD": "git", "git blame f": "git", "git log --oneline": "git", "git status -s": "git", "git diff": "git",
		"for f in a b; do wc -l $f; done": "wc", "timeout 5 cat f": "cat timeout", "cd src && cat a.go": "cat cd", "cat f > /dev/null 2>&1": "cat", "true": "true",
		"bash -c 'ls; cat f'": "bash cat ls", "python3 --version": "python3", "sed -n 1,5p f": "sed", "awk '{print $1}' f": "awk", "echo $(git rev-parse HEAD)": "echo git",
	} {
		want := strings.Fields(programs)
		if d := p.Decide(command, "bash"); !d.Free() || d.Analysis.Class != Read || !slices.Equal(d.Analysis.Programs, want) {
			t.Errorf("%q: free %v, %+v, want class read with %q: %+v", command, d.Free(), d.Analysis, want, d.Parts)
		}
	}
	for _, command := range []string{
		"rm x", "cat /etc/shadow", "cat .env", "cat f > out", "cat f >> out", "ls; touch x", "env FOO=1 ls", "env LD_PRELOAD=x ls", "sort -o out f", "find . -delete", "./ls", "x/ls",
		"sh x.sh", "python3 x.py", "git commit -m x", "git branch new", "git -C /x log", "cd x && git status", "$x", "eval ls", "cat $x", "cd / && cat etc/shadow", "tee f", "man ls", "cat f > /tmp/x",
		"make", "unknown", "ls && unknown", "xargs rm", "exec 3>f", "f() { touch x; }; f", "ls() { touch x; }; ls", "sudo ls", "ls 'x", "nice2 ls", "bash5 -c ls", "cat2 f", "fooawk '{print}' f", "git2 log", "python3.11 x",
	} {
		if d := p.Decide(command, "bash"); d.Free() || d.Analysis.Class != Unknown || d.Analysis.Programs != nil {
			t.Errorf("%q: free %v, %+v", command, d.Free(), d.Analysis)
		}
	}
}

// TestClassAndRules: a rule that asks or denies holds for what only reads too, and the
// default that denies.
func TestClassAndRules(t *testing.T) {
	for rules, free := range map[string]bool{"": true, "ask:cat": false, "deny:cat": false, "deny:*": false, "cat": true, "deny:rm": true} {
		d := decideFor(t, rules, "cat f")
		if d.Free() != free || d.Analysis.Class != Read {
			t.Errorf("rules %q: free %v, class %v, want %v and read (%v)", rules, d.Free(), d.Analysis.Class, free, d.Effect)
		}
	}
	if d := decideFor(t, "allow:*;deny:cat", "cat f"); d.Free() || d.Effect != tools.Deny {
		t.Errorf("%+v", d)
	}
}

// TestClassWritesScratch: what the sandbox throws away may be written, however its name
// is spelled, and nothing beside it.
func TestClassWritesScratch(t *testing.T) {
	paths := tools.Paths{Cwd: "/w", Home: "/h", Scratch: []string{"/tmp", "/h"}, Open: []string{"/tmp"}, Rules: []tools.PathRule{{Name: "w", Root: "/w", Write: true, WriteApproval: true}, {Name: "t", Root: "/tmp/w", Write: true, WriteApproval: true}}}
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, nil, pathFiles{paths}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]Class{
		"ls > /tmp/x": Read, "cd /tmp && ls > x": Read, "ls >> /tmp/a/../x": Read,
		"ls > /tmp/w/x": Unknown, "cd /tmp/w && ls > x": Unknown, "ls > /tmp/wx": Read, // a root below a private directory
		"ls > /tmp/../w/x": Unknown, "ls > /tmpx": Unknown, "ls > /tmp/*": Unknown, "ls > $x": Unknown, "ls > x": Unknown, "ls > /dev/tcp/h/1": Unknown,
		"ls > ~/x": Unknown, "ls > /h/x": Unknown, "cd /h && ls > x": Unknown, // private, and not writable for a line that only reads
	} {
		if d := p.Decide(command, "bash"); d.Analysis.Class != want || d.Free() != (want == Read) {
			t.Errorf("%q: %v, want %v: %+v", command, d.Analysis, want, d.Parts)
		}
	}
}

// TestRulesAreForTheProject: a rule that allows what a project says, or a script by a
// relative name, does not speak about files that a call may write unasked, nor about a script
// of that name elsewhere. Neither does a pattern that is remembered.
func TestRulesAreForTheProject(t *testing.T) {
	root := t.TempDir()
	for _, link := range []string{"out", "sub/out"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "sub"), 0o700), os.Symlink("/tmp", filepath.Join(root, link))); err != nil {
			t.Fatal(err)
		}
	}
	paths := tools.Paths{Cwd: root, Scratch: []string{"/tmp", "/home/x"}, Home: "/home/x", Rules: []tools.PathRule{{Name: "w", Root: root, Write: true, WriteApproval: true}}}
	var rules []Rule
	for _, pattern := range []string{"make", "npm test", "go test", "go version", "pytest", "python3 -m pytest", "python3 scripts/gen.py", "node build.js", "bash scripts/ci.sh", "mytool"} {
		rules = append(rules, allowing(pattern))
	}
	files := pathFiles{paths}
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, rules, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	none, err := NewPolicy(Default{Allowed: true, Approval: true}, nil, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	var patterns []approval.Pattern
	for _, r := range rules {
		patterns = append(patterns, approval.Pattern{Kind: approval.ArgvPrefix, Value: r.Pattern})
	}
	decide := func(dir, command string, want tools.Effect) {
		t.Helper()
		for name, q := range map[string]*Policy{"rules": p, "patterns": none.with(patterns)} {
			if d := q.In(dir).Decide(command, "bash"); d.Effect != want {
				t.Errorf("%s, in %s: %q: %v, want %v: %s", name, dir, command, d.Effect, want, d.Reason)
			}
		}
	}
	for _, command := range []string{"make", "npm test", "go test ./...", "pytest tests", "python3 -m pytest", "python3 scripts/gen.py", "node build.js", "bash scripts/ci.sh", "mytool a"} {
		decide(root, command, tools.Allow)
		for _, dir := range []string{"/tmp", "/tmp/deep", "/home/x", root + "/out"} {
			decide(dir, command, tools.Ask)
			decide(root, "cd "+dir+" && "+command, tools.Ask)
		}
		decide(root, "cd sub; cd $x; "+command, tools.Ask)
	}
	for _, command := range []string{"make", "npm test", "go test ./...", "pytest tests"} { // a part of the project
		decide(root+"/sub", command, tools.Allow)
	}
	for _, command := range []string{"make", "npm test"} {
		decide(root+"/vendor/dep", command, tools.Ask)
		decide(root, "cd node_modules/dep && "+command, tools.Ask)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "node_modules/dep"), 0o700), os.Symlink("node_modules/dep", filepath.Join(root, "app")), os.Symlink("sub", filepath.Join(root, "part"))); err != nil {
		t.Fatal(err)
	}
	decide(root, "cd app && npm test", tools.Ask)
	decide(root, "cd /tmp && go version", tools.Ask)
	decide(root, "cd sub && go version", tools.Allow)
	decide(root, "cd part && npm test", tools.Allow)
	for _, command := range []string{"python3 -m pytest", "python3 scripts/gen.py", "node build.js", "bash scripts/ci.sh"} {
		decide(root+"/sub", command, tools.Ask)
	}
	for _, command := range []string{"go test /tmp/evil", "pytest /tmp/test_evil.py", "pytest out/test_evil.py", "mytool ../../../../../../../tmp/x", "python3 -m pytest /tmp/test_x.py", "make -C/tmp", "make --directory=/tmp", "make -f /tmp/M"} {
		decide(root, command, tools.Ask)
	}
}

// TestNothingIsBroughtToPrivatePlaces: a rule by name does not speak of a word that leads to a private place,
// or may, unless the program takes data alone: what that brings to HOME is gone with the call, and in a line of several
// programs it brings nothing there (TestProgramsOfALine).
func TestNothingIsBroughtToPrivatePlaces(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.Symlink("/home/x", filepath.Join(root, "out")), os.Mkdir(filepath.Join(root, "doc"), 0o700)); err != nil {
		t.Fatal(err)
	}
	paths := tools.Paths{Cwd: root, Home: "/home/x", Scratch: []string{"/tmp", "/home/x"}, Rules: []tools.PathRule{{Name: "w", Root: root, Write: true, WriteApproval: true}}}
	var rules []Rule
	for _, pattern := range []string{"cp", "mv", "tee", "git add", "git clone", "tar", "wget http://h/ok", "unheard-of"} {
		rules = append(rules, allowing(pattern))
	}
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, rules, pathFiles{paths}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for bad, good := range map[string]string{
		"git clone https://h/r ~/.config": "git clone https://h/r doc/r", "git clone -- https://h/r $x": "git clone -- https://h/r doc/x", "git add -- $x": "git add ./*.go", "tar xf a -C ~": "tar xf a -C doc",
		"unheard-of /home/x/a": "unheard-of doc", "unheard-of out/a": "cp doc/rc ~/.curlrc", "cd /tmp && unheard-of": "cp doc/rc /tmp/x; mv a \"$x\"", "tar xf $x": "tee out/.npmrc < a",
	} {
		if d := p.Decide(bad, "bash"); d.Effect != tools.Ask {
			t.Errorf("%q: %v", bad, d.Effect)
		}
		if d := p.Decide(good, "bash"); d.Effect != tools.Allow {
			t.Errorf("%q: %v: %+v", good, d.Effect, d.Parts)
		}
	}
}

// TestNoRuleIsForWhatALineBringsAlong: what a program is given to read, and what is in the memory of one, was written
// by the line: no rule for what a project says speaks about it, however the line spells it.
func TestNoRuleIsForWhatALineBringsAlong(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.Symlink("/dev/stdin", filepath.Join(root, "in")), os.Mkdir(filepath.Join(root, "test"), 0o700)); err != nil {
		t.Fatal(err)
	}
	paths := tools.Paths{Cwd: root, Home: "/home/x", Scratch: []string{"/tmp", "/home/x"}, Rules: []tools.PathRule{{Name: "w", Root: root, Write: true, WriteApproval: true}}}
	rules := []Rule{allowing("npm test"), allowing("pytest"), allowing("cat"), allowing("unheard-of")}
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, rules, pathFiles{paths}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for bad, good := range map[string]string{
		"npm test /dev/stdin <<< code": "npm test test/a.js <<< data", "npm test in < a": "npm test test/in < a", "npm test /dev/fd/3 3<<E\ncode\nE": "npm test /dev/null",
		"pytest /proc/self/fd/0 < a": "pytest test < a", "unheard-of --x=/proc/1/environ": "unheard-of test/environ", "npm test ./../../../../dev/stdin <<< x": "npm test ./test/../test/a",
		"npm test ./\"$x\" <<< code": "npm test ./\"$x\"", "npm test /de[v]/stdin <<< x": "npm test test/[v]*.js", "npm test /tm[p]/x.js": "npm test ./*.js", "pytest ./.*/../x": "pytest ./*/x.py",
		"npm test /dev/shm/x.js": "cat /dev/stdin <<< x",
	} {
		if d := p.Decide(bad, "bash"); d.Effect != tools.Ask {
			t.Errorf("%q: %v", bad, d.Effect)
		}
		if d := p.Decide(good, "bash"); d.Effect != tools.Allow {
			t.Errorf("%q: %v: %+v", good, d.Effect, d.Parts)
		}
	}
}

// TestRulesAndRootsWithoutAQuestion: where writes to the workspace are asked about, a rule for what
// the project says is not for a root that takes writes unasked. Where both do, or both ask, it is.
func TestRulesAndRootsWithoutAQuestion(t *testing.T) {
	root := t.TempDir()
	cache := filepath.Join(root, "cache")
	if err := errors.Join(os.Mkdir(cache, 0o700), os.Symlink("cache", filepath.Join(root, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		workspace, cache bool // asks
		above            bool // the cache asks because the workspace's own file says so
		want             tools.Effect
	}{{true, false, false, tools.Ask}, {true, true, true, tools.Ask}, {false, false, false, tools.Allow}, {true, true, false, tools.Allow}} {
		paths := tools.Paths{Cwd: root, Rules: []tools.PathRule{{Name: "w", Root: root, Write: true, WriteApproval: x.workspace}, {Name: "c", Root: cache, Write: true, WriteApproval: x.cache}}}
		if x.above {
			above := paths
			above.Rules = []tools.PathRule{paths.Rules[0], {Name: "c", Root: cache, Write: true}}
			paths.Above = &above
		}
		p, err := NewPolicy(Default{Allowed: true, Approval: true}, []Rule{allowing("npm test"), allowing("make"), allowing("pytest"), allowing("cp")}, pathFiles{paths}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"cd cache && make test", "cd link && npm test", "pytest cache/test_x.py", "npm test link/x.js", "make cache/all"} {
			if d := p.Decide(command, "bash"); d.Effect != x.want {
				t.Errorf("%+v: %q: %v: %s", x, command, d.Effect, d.Reason)
			}
		}
		for _, command := range []string{"make", "npm test"} {
			if d := p.In(cache).Decide(command, "bash"); d.Effect != x.want {
				t.Errorf("%+v: %q in the cache: %v: %s", x, command, d.Effect, d.Reason)
			}
			if d := p.Decide(command+"; cp a cache/b", "bash"); d.Effect != tools.Allow {
				t.Errorf("%+v: %q: %v: %s", x, command, d.Effect, d.Reason)
			}
		}
	}
}

// TestVariablesOfTheEnvironment: a variable that came in the environment is exported with
// each new value, however it gets one, and then no rule speaks of later programs.
func TestVariablesOfTheEnvironment(t *testing.T) {
	f := newFixture(t, allowing("ls"))
	f.config.Env = append(f.config.Env, "TARGET=staging")
	for command, want := range map[string]tools.Effect{
		"ls": tools.Allow, "other=prod; ls": tools.Allow, "OTHER=prod; ls": tools.Ask, "LANG=C LANG=$x; ls": tools.Ask, "for x in prod; do ls; done": tools.Allow, "LANG=C; ls": tools.Allow,
		"TARGET=prod ls": tools.Ask, "TARGET=prod; ls": tools.Ask, "TARGET=prod && ls": tools.Ask, "for TARGET in prod; do ls; done": tools.Ask, "read TARGET <<< prod; ls": tools.Ask,
		"read -r TARGET < a.txt; ls": tools.Ask, "if TARGET=prod; then ls; fi": tools.Ask, "unset TARGET; ls": tools.Ask, "while ls; do TARGET=prod; done": tools.Ask, "while ls; do read TARGET < a.txt; done": tools.Ask,
	} {
		if got := f.effect(t, command+"; ls -Z"); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

// TestBeyondOneProgramTellsTheNextNothing: with the network of the host no two programs of a line that can
// write run by rules: what one leaves for the next (HOME/.curlrc), by an option, a link or an archive, no word shows.
func TestBeyondOneProgramTellsTheNextNothing(t *testing.T) {
	const curl = "curl http://a.example/ok"
	for command, want := range map[string]tools.Effect{
		"cp a.txt sub; " + curl: tools.Ask, "unzip -o x.zip && " + curl: tools.Ask, curl + " & unzip -o x.zip": tools.Ask,
		"tar xf x.tar | " + curl: tools.Ask, curl: tools.Allow, "unzip -o x.zip": tools.Allow, curl + " | jq .": tools.Allow, "cat a.txt; mkdir -p d; " + curl: tools.Allow, "timeout 5 " + curl: tools.Allow,
	} {
		for _, network := range []sandboxprofile.NetworkMode{sandboxprofile.NetworkHost, sandboxprofile.NetworkNone} {
			f := newFixture(t, allowing(curl), allowing("cp"), allowing("unzip"), allowing("tar"), allowing("mkdir"), allowing("jq"), allowing("cat"))
			f.config.Profile.Network.Mode = network
			if got := f.effect(t, command); network == sandboxprofile.NetworkHost && got != want || network != sandboxprofile.NetworkHost && got != tools.Allow {
				t.Errorf("%q with network %v: %v", command, network, got)
			}
		}
	}
}

// TestBeyondStartsNothingThatIsFreeToChange: a command that a rule allows, and that reaches
// the network of the host, starts no file that calls may change, also where the file tools ask
// first: a rule or an answer can let another call write it. The twins: without such a reach,
// and where calls cannot write.
func TestBeyondStartsNothingThatIsFreeToChange(t *testing.T) {
	free, asks, cannot := tools.PathRule{Write: true}, tools.PathRule{Write: true, WriteApproval: true}, tools.PathRule{}
	for _, x := range []struct {
		network sandboxprofile.NetworkMode
		root    tools.PathRule
		command string
		want    tools.Effect
	}{
		{sandboxprofile.NetworkHost, free, "./run.sh", tools.Ask}, {sandboxprofile.NetworkHost, asks, "./run.sh", tools.Ask}, {sandboxprofile.NetworkHost, cannot, "./run.sh", tools.Allow},
		{sandboxprofile.NetworkNone, free, "./run.sh", tools.Allow}, {sandboxprofile.NetworkHost, free, "ls", tools.Allow},
		{sandboxprofile.NetworkHost, free, "make", tools.Ask}, {sandboxprofile.NetworkHost, asks, "make", tools.Ask}, {sandboxprofile.NetworkHost, cannot, "make", tools.Allow},
	} {
		f := newFixture(t, allowing("./run.sh"), allowing("ls"), allowing("make"))
		f.must(t, os.WriteFile(f.path("ws/Makefile"), []byte("all:\n"), 0o644))
		f.config.Profile.Network.Mode = x.network
		f.config.Paths.Rules[0].Write, f.config.Paths.Rules[0].WriteApproval = x.root.Write, x.root.WriteApproval
		if got := f.effect(t, x.command); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
	// Whatever is in the place of the script now: a call may put another thing there.
	for name, put := range map[string]func(path string) error{
		"a link to a program": func(path string) error { return os.Symlink("/usr/bin/env", path) },
		"a link to nothing":   func(path string) error { return os.Symlink("/nonexistent", path) },
		"a loop":              func(path string) error { return os.Symlink("gen.sh", path) },
		"a pipe":              func(path string) error { return unix.Mkfifo(path, 0o700) },
		"a directory":         func(path string) error { return os.Mkdir(path, 0o700) },
		"nothing":             func(string) error { return nil },
	} {
		f := newFixture(t, allowing("bash gen.sh"), allowing("bash /proc/self/cwd/gen.sh"))
		f.must(t, put(f.path("ws/gen.sh")))
		f.config.Profile.Network.Mode = sandboxprofile.NetworkHost
		for _, command := range []string{"bash gen.sh --version", "bash /proc/self/cwd/gen.sh"} {
			if got := f.effect(t, command); got != tools.Ask {
				t.Errorf("%s: %q: %v", name, command, got)
			}
		}
	}
}

// TestBeyondTrustsNoProgramThatItDoesNotKnow: a program of which no table says that it starts
// nothing of where it is counts as starting all of it, and so does what runs the user's filters of git, and a script
// that is not where the line names it. The twins: without the network of the host, where calls cannot write, what starts nothing, and a script that no call can change.
func TestBeyondTrustsNoProgramThatItDoesNotKnow(t *testing.T) {
	effect := func(command string, network sandboxprofile.NetworkMode, fixed bool) tools.Effect {
		t.Helper()
		f := newFixture(t, allowing(command))
		f.must(t, os.WriteFile(f.path("ws/build.js"), []byte("1"), 0o644))
		f.config.Profile.Network.Mode = network
		f.config.Paths.Rules[0].Write = !fixed
		return f.effect(t, command)
	}
	const host, none = sandboxprofile.NetworkHost, sandboxprofile.NetworkNone
	for _, command := range []string{
		"go test ./...", "go build ./...", "go run ./cmd", "go vet ./...", "prettier --check .", "pylint src", "mypy src", "flake8 src", "tsc", "swift build", "unheard-of",
		"node build", "node ./build", "python3 -um gen", "python3 -mgen", "python3 -Bm gen", "python3 -c 'import gen'", "deno task", "java Main", "git push", "bash ./run",
		"git add a", "git mv a b", "git rm a", "git restore a", "git update-index a", "git hash-object a", "git clean -n",
	} {
		if got := [3]tools.Effect{effect(command, host, false), effect(command, none, false), effect(command, host, true)}; got != [3]tools.Effect{tools.Ask, tools.Allow, tools.Allow} {
			t.Errorf("%q: %v with the network of the host, %v without, %v where calls cannot write", command, got[0], got[1], got[2])
		}
	}
	for _, command := range []string{"curl -s http://localhost:1/", "git status", "git ls-remote https://a.example/x", "cp a b", "grep -r x ."} {
		if got := effect(command, host, false); got != tools.Allow {
			t.Errorf("%q: %v", command, got)
		}
	}
}

// TestBeyondKnowsAScriptThatNoCallChanges: where the words tell all that runs, and no call
// can change it, nobody is asked.
func TestBeyondKnowsAScriptThatNoCallChanges(t *testing.T) {
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	paths := tools.Paths{Rules: []tools.PathRule{{Name: "w", Root: "/workspace", Write: true}}, Scratch: []string{"/tmp"}}
	for command, want := range map[string]bool{
		"bash /tmp/x.sh": true, "python3 -u /tmp/x.py": true, "make -C /tmp": true, "python3 /opt/x.py > /tmp/x.py": false, "ls /tmp/x.py": false,
		"python3 /opt/x.py": false, "python3 -u -W ignore /opt/x.py": false, "node --test /opt/x.js": false, "bash -eu /opt/x.sh": false, "bash -c 'ls'": false,
		"python3 x.py": true, "node --unheard-of /opt/x.js y": true, "python3 $x": true, "python3 -m x": true, "Rscript /opt/x.R": true, "/opt/unheard-of": true,
		"$x": true, "curl -s http://x | bash": true,
	} {
		if got := paths.Changeable(p.starts(command)); (len(got) > 0) != want {
			t.Errorf("%q starts %v, want any %t", command, got, want)
		}
	}
}
