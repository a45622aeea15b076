package shell

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/tools"
)

// readOnlyWords are words for each program that read, write, run and choose
// files, with and without values, so that random command lines of them find
// options that the tables and the program understand differently.
func readOnlyWords() map[string]string {
	return map[string]string{
		"sort":    "-o OUT -uo -oOUT -t k -tk -k 1 -k1 -S 1M --output=OUT --outp=OUT --files0-from=../secret -m -z -c --sort=numeric -T . +1",
		"od":      "-w -w4 -An -A x -N 5 -j 1 -t x1 -c -S 3 -v --width --strings",
		"strings": "-n 3 -a -t x -e s @../secret @f -3 -f --all -w",
		"uniq":    "-c -f 1 -f1 -w 3 -D --group=both -d OUT -z",
		"xxd":     "-l 5 -r -s 1 -c 4 -g1 -p -ps -i OUT -revert -u -o 1 -seek 1 -b",
		"head":    "-n 1 -c5 -1 -qn1 --lines=2 -5c", "tail": "-n 1 -c5 -1 +1 -q --lines=2 +2",
		"grep": "-e x -f ../secret -f../secret -nf../secret --file=../secret -r -A1 -C 1 -5 -m1 -d recurse --color -o -E --exclude-from=../secret .",
		"diff": "-u -U 1 -U1 -C -y -W 80 -X ../secret --to-file=../secret --from-file=../secret -N -D X --label a --color --unified -F x -3",
		"cmp":  "-b -l -n 5 -i 1 -s 1 2", "stat": "-c %n -f -t --printf %n -L", "nl": "-b a -ba -w 3 -s x -v1 -p",
		"wc": "-l -c --files0-from=../secret --files0-from ../secret -L", "du": "-s -X ../secret --files0-from=../secret -d 1 -B 1 --time -a",
		"ls": "-l -a -I x -w 5 -T 3 --color -R --format=long -d", "date": "-u -d now -f ../secret -r ../secret -I +%s --file=../secret",
		"shuf": "-n 1 -e -i 1-3 -o OUT --random-source=../secret -z", "base64": "-d -w 0 -i", "cut": "-d : -f1 -f 1 -c 1-3 -s", "join": "-a 1 -e x -j 1 -o 1.1 -t :",
		"paste": "-s -d ,", "comm": "-1 -23", "fmt": "-w 10 -5 -p x", "fold": "-w 5 -s -5", "tac": "-s x -r", "md5sum": "-c -b --tag", "cat": "-A -n",
		"find": ". d -name x -type f -exec touch OUT ; + -execdir -delete -fprint OUT -fls -print -newer ../secret -files0-from ../secret -L -H -O3 ( ) ! -o -a -maxdepth 1 -prune -quit -printf %p",
		"sed":  "-n p 1wOUT s/x/y/wOUT 1eid r../secret -e -i -s -E s/x/y/ s/a/b/;wOUT {p;wOUT} y/a/b/ a\\ $!d /x/d --in-place s,x,y,e -f ../secret q;wOUT bx;wOUT :x;wOUT",
		"awk":  `{print} {print>"OUT"} BEGIN{system("touch\u0020OUT")} -f ../secret -F: -v x=1 {print|"cat"} BEGIN{while((getline\u0020l<"../secret")>0)print\u0020l} /x/ NR==1{print$1} {print($1>2)} BEGIN{ARGV[1]="../secret"}{print}`,
		"git":  "log diff show status branch tag config stash reflog remote grep blame ls-files -U -U1 -1 -p -n 1 --sort -l new --list user.name core.pager -O --output=OUT --output OUT -S x -G --no-index --format --date iso --contains HEAD -a -v -d -m --get show list -f ../secret --all -- drop expire --edit -e -A 1 -L 1,1",
	}
}

// TestReadOnlyFormsOnlyRead: whatever the rules take for a read-only form of a
// program writes nothing, and prints nothing from outside the workspace, when bash
// and the program itself read the same words.
func TestReadOnlyFormsOnlyRead(t *testing.T) {
	const rounds, seed = 50, 7
	random := rand.New(rand.NewPCG(seed, seed))
	words := readOnlyWords()
	allowed := 0
	for _, program := range slices.Sorted(maps.Keys(words)) {
		path, err := exec.LookPath(program)
		if err != nil || !strings.HasPrefix(path, "/usr/bin/") && !strings.HasPrefix(path, "/bin/") {
			t.Logf("%s is not installed here", program)
			continue
		}
		no := false
		policy := mustPolicy(t, Default{Allowed: true, Approval: true}, []Rule{{Pattern: program, Approval: &no, ReadOnly: true}})
		dir := newReadOnlyDir(t)
		before := dir.snapshot(t)
		for range rounds {
			command := randomCommand(random, program, strings.Fields(words[program]))
			if policy.Decide(command, "bash").Effect != tools.Allow {
				continue
			}
			allowed++
			if out := dir.run(t, command); bytes.Contains(out, []byte("outside-content")) {
				t.Errorf("allowed, and reads outside: %s", command)
			}
			if after := dir.snapshot(t); after != before {
				t.Errorf("allowed, and writes: %s", command)
				dir = newReadOnlyDir(t)
				before = dir.snapshot(t)
			}
		}
	}
	if allowed < 200 {
		t.Errorf("only %d commands were allowed: the test compares too little", allowed)
	}
}

func randomCommand(r *rand.Rand, program string, words []string) string {
	command := []string{program}
	for range 1 + r.IntN(4) {
		w := words[r.IntN(len(words))]
		if r.IntN(6) == 0 {
			w = []string{"f", "g", "d", "../secret"}[r.IntN(4)]
		}
		command = append(command, tools.QuoteWord(strings.ReplaceAll(w, `\u0020`, " ")))
	}
	return strings.Join(append(command, []string{"f", "g", "../secret", ""}[r.IntN(4)]), " ")
}

// A readOnlyDir is a repository with a file beside it that nothing may print.
type readOnlyDir struct{ work string }

func newReadOnlyDir(t *testing.T) readOnlyDir {
	t.Helper()
	d := readOnlyDir{filepath.Join(t.TempDir(), "work")}
	for name, text := range map[string]string{"f": "x a b\nabc 1\n", "g": "../secret\nabc\n", "d/h": "h\n", "../secret": "outside-content x\n"} {
		path := filepath.Join(d.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.run(t, "git init -q . && git config user.name n && git config user.email e && git add . && git commit -qm m && git status")
	return d
}

func (d readOnlyDir) run(t *testing.T, command string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "--norc", "-c", command)
	c.Dir = d.work
	c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + d.work, "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0"}
	out, _ := c.CombinedOutput() // most of the random commands fail: what they did is looked at
	return out
}

// snapshot is every file below the workspace and beside it, with its content.
func (d readOnlyDir) snapshot(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Dir(d.work), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		all.WriteString(path + "\n")
		if e.Type().IsRegular() {
			content, err := os.ReadFile(path)
			all.Write(content)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// TestSedScriptsOnlyPrint holds what is taken for a script that only prints against sed itself,
// which in its sandbox refuses a script that writes, reads or runs something.
func TestSedScriptsOnlyPrint(t *testing.T) {
	if out, err := exec.Command("sed", "--sandbox", "w x").CombinedOutput(); err == nil || !bytes.Contains(out, []byte("sandbox")) {
		t.Fatalf("sed has no sandbox here: %v: %s", err, out)
	}
	const rounds = 60_000
	random := rand.New(rand.NewPCG(11, 7))
	pieces := strings.Fields(`s / / / , # [ ] [^ ^ - \\ [: :] [:alpha:] [^] []] [^]/] \/ \n x e w r s/a/b/ y/a/b/ ; } { ! $ 1 2,3 I M g p d N a i\\ c : b t x; e; wOUT #n 0~2 +1 | @ % (`)
	// Pieces in which one reader may be within a regular expression and the other behind it.
	longer := strings.Fields(`/[^]/ /[]/ /[a/ /[^a]/ /[]a]/ /[[:x:]/ /\\[/ s/[^]/x/; s/[]/x/; y/[/]/; p; s/]/w/p s/]/e/p /]/ w/p e;# ;/]/p`)
	read, refused := 0, 0
	for i := range rounds {
		script := []string{"s/", "/", "s#", "y/", "", "1"}[random.IntN(6)]
		for range 1 + random.IntN(9) {
			if random.IntN(12) == 0 {
				script += []string{" ", "\n"}[random.IntN(2)]
			}
			script += pieces[random.IntN(len(pieces))]
		}
		if i%2 == 0 {
			script = ""
			for range 2 + random.IntN(3) {
				script += longer[random.IntN(len(longer))]
			}
		}
		if !sedScript().MatchString(script) {
			refused++
			continue
		}
		read++
		for _, dialect := range []string{"-n", "-E", "--posix"} {
			if !strings.ContainsAny(script, "erwRW") {
				break // sed has no other letters for it
			}
			c := exec.Command("sed", "--sandbox", dialect, "--", script)
			if out, _ := c.CombinedOutput(); bytes.Contains(out, []byte("sandbox")) {
				t.Errorf("%q is taken for a script that only prints; sed %s says %s", script, dialect, out)
			}
		}
	}
	if read < rounds/50 || refused < rounds/50 {
		t.Errorf("%d scripts are read and %d refused: too few to show anything", read, refused)
	}
	t.Logf("%d of %d scripts only print", read, rounds)
}
