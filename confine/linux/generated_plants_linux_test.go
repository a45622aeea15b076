package linux_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine/linux"
)

var (
	generated     = flag.Int("plants", 20, "how many generated plants TestGeneratedPlantsDoNotRun tries")
	generatedSeed = flag.Uint64("plants.seed", 0, "what they are generated from; 0 is the time")
)

// A gardener combines what plants are made of: names that git follows, in directories
// that git may take for repositories, made in each way that a file or a name can be made,
// in any order, and moved about afterwards.
type gardener struct{ *rand.Rand }

func (g gardener) one(list ...string) string { return list[g.IntN(len(list))] }

func (g gardener) dir() string {
	return g.one("x", "x", "y", "y", "sub", "x/in", ".azure/g", "x/worktrees/n", ".git/modules/a/b", ".git/worktrees/w", "n", "n/.git")
}

// target is where a link or a file of git's leads.
func (g gardener) target() string {
	return g.one("../x", "../y", "x", "../.azure/g", "$PWD/x", "$PWD/y", "../x/worktrees/n", "../..", "$OUT/.git", "$OUT", "../../../out", "/tmp", "y/../../out", "../sub/up/../out", ".../../../out", "../.../../../out")
}

// put makes the file name with content, in one of the ways there are.
func (g gardener) put(content, name string) string {
	tmp := fmt.Sprintf("t%d", g.IntN(1000))
	write := fmt.Sprintf("printf '%%b' \"%s\"", content)
	return g.one(
		write+" > "+name,
		write+" >> "+name,
		write+" > "+tmp+"; mv "+tmp+" "+name,
		write+" > "+tmp+"; mv -f "+tmp+" "+name,
		write+" > "+tmp+"; ln -f "+tmp+" "+name,
		write+" > "+tmp+"; ln -sf $PWD/"+tmp+" "+name,
		write+" > "+tmp+"; cp "+tmp+" "+name,
		"touch "+name+"; "+write+" | dd of="+name+" conv=notrunc status=none",
		write+" > "+tmp+"; exec 7>>"+tmp+"; mv "+tmp+" "+name+"; "+write+" >&7; exec 7>&-",
		"{ sleep 0.02; "+write+"; } > "+name+" & "+"wait",
		"python3 -c 'import os,sys; d=os.open(os.path.dirname(sys.argv[1]) or \".\",os.O_RDONLY); f=os.open(os.path.basename(sys.argv[1]),os.O_CREAT|os.O_RDWR,0o755,dir_fd=d); os.write(f,sys.argv[2].encode().decode(\"unicode_escape\").encode())' "+name+" \""+content+"\"",
	)
}

const evilConfig = `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = $RUN\n[alias]\n\tst = !$RUN\n`

// step is one thing that a tool does.
func (g gardener) step() string {
	d, e := g.dir(), g.dir()
	switch g.IntN(16) {
	case 0:
		return g.put(evilConfig, d+"/"+g.one("config", "config", "config.worktree"))
	case 1:
		return g.put(g.one(evilConfig+`\tworktree = $OUT\n`, `[core]\n\tbare = false\n\tworktree = \"$OUT\"\n`, `[include]\n\tpath = ../../inc\n`, `[core]\n\thooksPath = ../h\n`), d+"/config")
	case 2:
		return "mkdir -p " + d + "/hooks; " + g.put(`#!/bin/sh\ntouch $C\n`, d+"/hooks/"+g.one("pre-commit", "post-checkout", "post-index-change")) + "; chmod +x " + d + "/hooks/*"
	case 3:
		return g.put(`ref: refs/heads/master\n`, d+"/HEAD")
	case 4:
		return g.one("mkdir -p "+d+"/objects "+d+"/refs", "mkdir "+d+"/refs; cp -r .git/objects "+d+"/", "mkdir o r; mv o "+d+"/objects; mv r "+d+"/refs", "ln -s $PWD/.git/objects "+d+"/objects; ln -s $PWD/.git/refs "+d+"/refs")
	case 5:
		return "rm -rf " + d + "/" + g.one("objects", "refs", "config", "commondir", "HEAD")
	case 6, 7:
		return g.put("gitdir: "+g.target()+`\n`, e+"/.git")
	case 8:
		return g.put(g.target()+`\n`, d+"/commondir")
	case 9:
		return "ln -s " + g.target() + " " + g.one(d, e+"/up", e+"/.git", d+"/config", d+"/hooks", d+"/commondir", "file2")
	case 15:
		return "ln -s . " + g.one("", "sub/", "x/", d+"/") + "..."
	case 10:
		return "mv -T " + d + " " + e
	case 11:
		return "cp -r .git " + d
	case 12:
		return "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD)," + g.one("sub", "n", "x")
	case 13:
		return "git -C " + d + " config core.fsmonitor $RUN; git -c core.worktree=. config -f " + d + "/config core.fsmonitor $RUN"
	default: // 14
		return g.put(evilConfig, "inc") + "; mkdir -p h; " + g.put(`#!/bin/sh\ntouch $C\n`, "h/post-index-change") + "; chmod +x h/*"
	}
}

func (g gardener) plant() string {
	steps := []string{"export RUN=$C.sh; mkdir -p x y sub x/in x/worktrees/n n"}
	whole := []string{ // the usual parts, in any order, so that they often make something
		g.put(evilConfig, "x/config"), "mkdir x/objects", "mkdir x/refs", g.put(`ref: refs/heads/master\n`, "x/HEAD"),
		g.put("gitdir: ../"+g.one("x", "x/worktrees/n", "y")+`\n`, "sub/.git"),
		"git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub",
	}
	g.Shuffle(len(whole), func(i, j int) { whole[i], whole[j] = whole[j], whole[i] })
	steps = append(steps, whole...)
	for range 2 + g.IntN(8) {
		at := 1 + g.IntN(len(steps))
		steps = append(steps[:at], append([]string{g.step()}, steps[at:]...)...)
	}
	return "{ " + strings.Join(steps, "; } 2>/dev/null\n{ ") + "; } 2>/dev/null\ntrue\n"
}

// everyLevel is what the user does later, wherever git could take something for a
// repository.
const everyLevel = `export GIT_TERMINAL_PROMPT=0; printf '#!/bin/sh\ntouch %s; false\n' $C > $C.sh; chmod +x $C.sh
find . \( -name objects -prune \) -o \( -name .git -o -name HEAD -o -name commondir \) -printf '%h\n' 2>/dev/null | sort -u | head -8 | { cat; echo .; } | while read d; do
	(cd "$d" 2>/dev/null || exit; git status; git checkout -qf . ; git commit -q --allow-empty -m x; echo x > up/written; echo x > written) >/dev/null 2>&1 </dev/null
done
{ git log -1; git submodule --quiet update; echo x > file2; } >/dev/null 2>&1 </dev/null`

// TestGeneratedPlantsDoNotRun: of what a program combines at random of the forms that
// plants have, the user's git runs nothing, at no level, and writes nothing outside. Some
// of the same, planted without a sandbox, does run.
func TestGeneratedPlantsDoNotRun(t *testing.T) {
	seed := *generatedSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-plants.seed %d", seed)
	l := newLandlock(t, linux.LandlockOptions{})
	// So many in one call, each in a directory of its own: starting costs more than planting.
	const together, twins = 20, 8
	ran := 0
	for from := 0; from < *generated; from += together {
		top := newGround(t)
		t.Setenv("HOME", top.beside+"/home")
		plots := make([]*ground, min(together, *generated-from))
		scripts := make([]string, len(plots))
		var all strings.Builder
		for i := range plots {
			scripts[i] = gardener{rand.New(rand.NewPCG(seed, uint64(from+i)))}.plant()
			plots[i] = &ground{t: t, ws: fmt.Sprintf("%s/%d", top.ws, i), out: fmt.Sprintf("%s/%d", top.out, i), beside: fmt.Sprintf("%s/%d", top.beside, i)}
			for _, d := range []string{plots[i].ws, plots[i].out, plots[i].beside, plots[i].beside + "/home"} {
				mkdir(t, d)
			}
			plots[i].outside(repo)
			(&ground{t: t, ws: plots[i].out, out: plots[i].out, beside: plots[i].beside}).outside(repo + " && git config core.fsmonitor " + plots[i].canary() + ".sh")
			fmt.Fprintf(&all, "( %s\n%s )\n", plots[i].script(""), scripts[i])
		}
		if _, err := top.tries(l, all.String()); err != nil {
			t.Errorf("the call: %v", err)
		}
		for i, p := range plots {
			was := describeTree(t, p.out)
			p.outside(everyLevel)
			if p.fired() {
				t.Errorf("plant %d runs:\n%s", from+i, scripts[i])
			}
			if now := describeTree(t, p.out); now != was {
				t.Errorf("plant %d leads out:\n%s\nbefore\n%s\nafter\n%s", from+i, scripts[i], was, now)
			}
		}
		if from > 0 {
			continue
		}
		for i := range min(len(scripts), twins) {
			twin := newGround(t)
			twin.outside(repo)
			(&ground{t: t, ws: twin.out, out: twin.out, beside: twin.beside}).outside(repo)
			if err := os.WriteFile(filepath.Join(twin.beside, "script"), []byte(scripts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
			twin.outside(scripts[i])
			twin.outside(everyLevel)
			if twin.fired() {
				ran++
			}
		}
	}
	if ran == 0 {
		t.Error("outside of a sandbox none of them runs, so it proves nothing")
	}
	t.Logf("%d of the first %d run outside of a sandbox", ran, twins)
}
