package shell

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/tools"
)

// TestStarts: the files that command lines start. "?" marks one that is held if it can be
// executed, "~" one that the program rewrites, "-" one that need not be there.
func TestStarts(t *testing.T) {
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, want string }{
		{"ls -l", ""},
		{"./build.sh", "./build.sh"},
		{"sub/x/../build.sh a b", "sub/x/../build.sh"},
		{"/workspace/build.sh", "/workspace/build.sh"},
		{"/usr/bin/ls", ""},
		{"cd sub && ./b.sh", "sub:./b.sh"},
		{"cd sub; ./b.sh", "./b.sh sub:./b.sh"},
		{"env A=b timeout 5 ./b.sh", "./b.sh"},
		{". ./env.sh", "./env.sh"},
		{"source env.sh", "env.sh"},
		{"bash b.sh arg", "b.sh"},
		{"bash -eu -o pipefail b.sh", "b.sh"},
		{"bash -c './b.sh; . c'", "./b.sh c"},
		{"python3 x.py out.txt", "x.py ?out.txt"},
		{"python3 -W ignore x.py", "x.py"},
		{"python3 -m pkg.mod", "-pkg/mod.py -pkg/mod/__main__.py -pkg/mod/__init__.py ?pkg.mod"},
		{"node --require ./hook.js app.js", "./hook.js app.js"},
		{"node --import=./hook.mjs app.js", "./hook.mjs app.js"},
		{"node -r./hook.js app.js", "./hook.js app.js"},
		{"node inspect app.js", "app.js"},
		{"cat x.py | python3", "-x.py"},
		{"cat x.py | python3 y.py", "y.py ?-x.py"},
		{"sh < b.sh", "-b.sh"},
		{"sort < in > out", "?-in"},
		{"python3 < x.py > x.py", "~-x.py"},
		{"make -s -C sub -f M2 all", "-M2 -GNUmakefile -makefile -Makefile -sub/GNUmakefile -sub/makefile -sub/Makefile"},
		{"just -f jf t", "-jf"},
		{"unknown-tool ./a --with=./b", "?./a ?--with=./b ?./b"},
		{"sed -n -f p.sed x", "-p.sed ?-x"},
		{"go run main.go", "main.go"},
		{"docker compose -f dev.yml up", "-dev.yml -compose.yaml"},
		{"eval './b.sh'", "./b.sh ?./b.sh"},
	} {
		var got []string
		for _, s := range p.starts(c.command) {
			mark := ""
			for _, m := range []struct {
				set  bool
				text string
			}{{s.Doubtful, "?"}, {s.Written, "~"}, {s.Optional, "-"}} {
				if m.set {
					mark += m.text
				}
			}
			dir := ""
			if sub, ok := strings.CutPrefix(s.Dir, lexicalRoot+"/"); ok {
				dir = sub + ":"
			}
			got = append(got, mark+dir+s.Name)
		}
		for _, want := range strings.Fields(c.want) {
			if !slices.Contains(got, want) {
				t.Errorf("%q starts %v, want %s too", c.command, got, want)
			}
		}
		got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "?") }) // any word may be one
		if c.want == "" && len(got) > 0 {
			t.Errorf("%q starts %v, want nothing", c.command, got)
		}
	}
	if list := p.starts("npm install x"); len(list) == 0 || !list[0].Written {
		t.Errorf("npm rewrites package.json: %+v", list)
	}
	if list := p.starts("npm test"); len(list) == 0 || list[0].Written {
		t.Errorf("npm test does not: %+v", list)
	}
}

// TestStartsFindsAProgramInAnyPlace: wherever a line runs a program by a path, it is
// found.
func TestStartsFindsAProgramInAnyPlace(t *testing.T) {
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	around := []string{
		"%s", "(%s)", "{ %s; }", "true && %s", "false || %s", "%s &", "if %s; then :; fi", "while %s; do break; done", "for i in a b; do %s; done",
		"echo \"$(%s)\"", "echo `%s`", "cat <(%s)", "env A=b %s", "timeout 5 %s", "nice -n 5 %s", "sh -c '%s'", "eval '%s'", "case a in *) %s;; esac",
		"! %s", "time %s", "x=$(%s)", "f() { %s; }; f", "trap '%s' EXIT", "%s | cat", "cat /dev/null | %s", "xargs %s < /dev/null", "cat <<E\n$(%s)\nE",
		"[[ -n $(%s) ]]", ": \"${x:-$(%s)}\"", "coproc %s", "find . -exec %s {} +", "exec %s", "command %s", "setsid %s", "nohup %s",
	}
	rapid.Check(t, func(t *rapid.T) {
		line := "./b.sh"
		for range rapid.IntRange(1, 3).Draw(t, "layers") {
			shape := rapid.SampledFrom(around).Draw(t, "around")
			if strings.ContainsAny(line, "'`\n") && strings.ContainsAny(shape, "'`") {
				continue
			}
			line = fmt.Sprintf(shape, line)
		}
		if _, err := parse(line, bash); err != nil {
			t.Skip(err)
		}
		for _, s := range p.starts(line) {
			if s.Name == "./b.sh" {
				return
			}
		}
		t.Fatalf("%q starts %+v", line, p.starts(line))
	})
}

// TestEveryRuleLineSaysWhatItsProgramStarts: who adds a program to the table says whether
// it may start or load files of the directory it is in.
func TestEveryRuleLineSaysWhatItsProgramStarts(t *testing.T) {
	k := known()
	marked := func(name string) bool {
		return k.inert[name] || k.reads[name] != nil || k.in("starts-nothing", name) || k.in("starts-anything", name) || k.in("builtins", name) ||
			k.carriers[name] != nil || k.coded[name] != "" || k.wrappers[name] != nil
	}
	for name := range k.rules {
		program, _, _ := strings.Cut(name, "/")
		if !marked(name) && !marked(program) {
			t.Errorf("%s has no mark: starts-nothing, starts-anything, inert, carry or code", name)
		}
	}
}

// TestALineThatDoesNotTellWhatItStartsIsAnsweredOnce: where the words do not tell which code
// runs, or it is not there yet, the prompt says so and no answer is remembered. The twins,
// whose scripts are there and named, are held and can be.
func TestALineThatDoesNotTellWhatItStartsIsAnsweredOnce(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"build.js", "gen.py", "s1.sh", "p.gz", "Main.class", "cmd/main.go", "q/a.sh"} {
		f.must(t, errors.Join(os.MkdirAll(filepath.Dir(f.path("ws/"+name)), 0o755), os.WriteFile(f.path("ws/"+name), []byte("text\n"), 0o644)))
	}
	plan := func(command string) tools.Proposal {
		p, err := f.tool(t).Plan(call(map[string]any{"command": command}))
		if err != nil || p.Request == nil {
			t.Fatalf("%q: %v, %+v", command, err, p.Request)
		}
		return p
	}
	for _, command := range []string{
		"node build", "node ./build", "node -r ./build build.js", "node --unheard-of a build.js", "java Main", "go run ./cmd", "python3 $x", "python3 -m $x",
		"bash s*.sh", "find q -name '*.sh' -exec sh {} \\;", "find q -exec sh {} +", "bash \"$F\"", "./s*.sh", ". ./s*.sh", "for f in *.sh; do bash \"$f\"; done", "ls *.sh | xargs -n1 bash", "ls | xargs sh -c",
		"dd if=s1.sh | sh", "parallel < s1.sh", "cat *.sh | sh", "cat \"$F\" | sh", "sh < \"$F\"", "unheard-of s1.sh | sh", "git show HEAD:s1.sh | sh", "eval \"$x\"", "$x", "bash <(cat s1.sh)",
		"cp s1.sh r0.sh && bash r0.sh", "tar -xOf p.gz | sh",
	} {
		p := plan(command)
		if p.Request.Once == "" || !slices.ContainsFunc(p.Cautions, func(c string) bool { return strings.Contains(c, "not all files") }) {
			t.Errorf("%q can be remembered: %v", command, p.Cautions)
		}
	}
	for command, held := range map[string]string{
		"node build.js": "build.js", "node -r ./build.js build.js": "build.js", "bash s1.sh": "s1.sh", "sh < s1.sh": "s1.sh", "cat s1.sh | sh": "s1.sh", "zcat p.gz | sh": "p.gz", "gunzip -c p.gz | sh": "p.gz",
		"python3 -um gen": "gen.py", "python3 -mgen": "gen.py", "python3 -Bm gen": "gen.py", "python3 -uX dev gen.py": "gen.py", "python3 -W ignore gen.py *.txt": "gen.py", "go run cmd/main.go": "cmd/main.go",
	} {
		p := plan(command)
		if files, _ := p.Request.Payload["files"].(map[string]any); files[f.path("ws/"+held)] == nil || p.Request.Once != "" {
			t.Errorf("%q holds %v, once %q", command, files, p.Request.Once)
		}
	}
}

// TestWhatFollowsAnInterpretersNameIsHeld: of a line in which a shell or an interpreter is named
// at any place, as a word or in one, the word behind it is compared, whatever its mode is: what
// runs it may be an option of a program that no table knows so well. The twin names none.
func TestWhatFollowsAnInterpretersNameIsHeld(t *testing.T) {
	p, err := NewPolicy(Default{Allowed: true, Approval: true}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]bool{
		"tar --checkpoint=1 --checkpoint-action=exec='sh e.txt' -cf x.tar a": true, "git bisect run sh e.txt": true, "git rebase -x 'sh e.txt' HEAD": true,
		"git -c core.pager='sh e.txt' -p log": true, "npm exec -c 'sh e.txt'": true, "make SHELL='sh e.txt' x": true, "go test -exec 'python3 -u e.txt' ./...": true,
		"rsync -e 'sh e.txt' a h:b": true, "ssh -o ProxyCommand='sh e.txt' h": true, "vim -c '!sh e.txt'": true, "less +'!sh e.txt' a": true,
		"sort --compress-program='/bin/sh e.txt' a": true, `awk 'BEGIN{system("sh e.txt")}'`: true, "sed '1e sh e.txt' a": true, "unheard-of node e.txt": true,
		"unheard-of e.txt": false, "git add e.txt": false, "sort --output=sh.txt e.txt": false,
	} {
		held := slices.ContainsFunc(p.starts(command), func(s tools.Started) bool { return s.Name == "e.txt" && !s.Doubtful })
		if held != want {
			t.Errorf("%q: held %v, want %v", command, held, want)
		}
	}
}
