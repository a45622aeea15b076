package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A work is something that takes long or changes much: what a broker costs shows
// there, and not in one call.
type work struct {
	name  string
	needs string // a program; without it the row says so
	// script is for bash, in a directory of its own that the scripts before it have left
	// behind. Only its own time counts, and not that of before.
	before, script string
	idle           string     // does all but the work; its processor time does not count
	hidden         bool       // with a hidden file beside, so that Landlock withholds the directory
	aim            [2]float64 // of bare, with bubblewrap and with landlock; 0 is none
}

const (
	openings = 5000
	openFor  = "python3 -c \"import os, time\nfd = os.open('opened', os.O_CREAT | os.O_WRONLY, 0o644); os.close(fd)\nt = time.time()\nfor _ in range(%d):\n    os.close(os.open('opened', os.%s))\nprint('took %%f %%f' %% (t, time.time()))\""
)

// npmLike makes files as an unpacking package manager does: some at once, out of something
// compressed.
const npmLike = `
const fs = require('fs'), zlib = require('zlib');
const text = zlib.gzipSync(Buffer.alloc(2000, 'module.exports = {}\n'));
const names = [...Array(FILES).keys()].map(i => 'npm/p' + i % 500 + '/lib' + i % 1000 + '/f' + i + '.js');
async function worker() {
	for (let name; name = names.pop(); ) {
		await fs.promises.mkdir(name.slice(0, name.lastIndexOf('/')), {recursive: true});
		await fs.promises.writeFile(name, zlib.gunzipSync(text), {mode: 0o644});
	}
}
Promise.all([...Array(10)].map(worker));
`

const pythonTests = `
import os, tempfile, unittest
class T(unittest.TestCase):
    def check(self):
        with tempfile.TemporaryDirectory() as d:
            with open(d + '/x', 'w') as f: f.write('x' * 1000)
            self.assertEqual(len(open(d + '/x').read()), 1000)
        self.assertEqual(sum(i * i for i in range(20000)), 2666466670000)
for i in range(200): setattr(T, 'test_%d' % i, T.check)
`

// works are in the order that they need. FILES is how many files there are.
var works = []work{
	{name: "open for writing", script: fmt.Sprintf(openFor, openings, "O_WRONLY"), idle: fmt.Sprintf(openFor, 0, "O_WRONLY"), aim: [2]float64{0, 12}},
	{name: "open for reading", script: fmt.Sprintf(openFor, openings, "O_RDONLY"), idle: fmt.Sprintf(openFor, 0, "O_RDONLY"), aim: [2]float64{1.2, 1.2}},
	{name: "tar x", before: "rm -rf tree", script: "mkdir tree && tar -C tree -xf ../archive/files.tar", aim: [2]float64{3, 4}},
	{name: "git status", before: "[ -e .git ] || { git init -q . && git add tree; }; git status >/dev/null", script: "git status --short >/dev/null", aim: [2]float64{1.1, 1.2}},
	{name: "grep -r", script: "grep -rq absent tree || true", aim: [2]float64{1.1, 1.2}},
	{name: "rm -rf", before: "rm -rf gone && cp -r tree gone", script: "rm -rf gone", aim: [2]float64{3.5, 3.5}},
	{name: "git clone", before: "rm -rf clone", script: "git clone -q ../origin clone", aim: [2]float64{2.2, 2.5}},
	{name: "npm-like unpack", needs: "node", before: "rm -rf npm", script: "node -e \"$NPM\"", aim: [2]float64{1.5, 1.8}},
	{name: "go build", needs: "go", before: "rm -rf cache && mkdir -p go && cp ../go/* go", script: "cd go && GOCACHE=$OLDPWD/cache GOFLAGS=-mod=mod GOTOOLCHAIN=local go build -o out .", aim: [2]float64{1.1, 1.2}},
	{name: "python tests", before: "printf %s \"$TESTS\" >test_it.py", script: "python3 -m unittest -q test_it 2>/dev/null", aim: [2]float64{1.1, 1.2}},
	{name: "git status, reads redirected", hidden: true, before: "[ -e tree ] || { mkdir tree && tar -C tree -xf ../archive/files.tar && git init -q . && git add tree; }; git status >/dev/null", script: "git status --short >/dev/null", aim: [2]float64{1.1, 9}},
	{name: "grep -r, reads redirected", hidden: true, script: "grep -rq absent tree || true", aim: [2]float64{1.1, 6}},
}

// A WorkReport is the result of `sandgate bench --work`, in seconds.
type WorkReport struct {
	Rounds int       `json:"rounds"`
	CPUs   int       `json:"cpus"`
	Files  int       `json:"files"`
	Works  []workRow `json:"works"`
}

type workRow struct {
	Name    string     `json:"name"`
	Lacks   string     `json:"lacks,omitempty"` // a program that this host does not have
	Medians []float64  `json:"medians"`         // bare, bwrap, landlock
	CPU     []float64  `json:"cpu"`             // processor time of all processes, the least of all rounds
	Aims    [2]float64 `json:"aims"`
}

// ways are how each work is done, in this order.
var ways = []string{"", "bwrap", "landlock"}

// MeasureWork does each work in each way, one after the other in each round.
func MeasureWork(ctx context.Context, rounds, files int) (WorkReport, error) {
	r := WorkReport{Rounds: rounds, CPUs: runtime.NumCPU(), Files: files}
	dir, err := newScratch(benchParent)
	if err != nil {
		return r, err
	}
	defer dir.remove()
	b := workBench{ctx: ctx, dir: dir.Name(), files: files}
	if b.self, err = os.Executable(); err != nil {
		return r, err
	}
	if err := b.prepare(); err != nil {
		return r, err
	}
	type figures struct{ times, cpu, idle []float64 }
	measured := make([][3]figures, len(works))
	for range rounds {
		for i, w := range works {
			if _, err := exec.LookPath(w.needs); w.needs != "" && err != nil {
				continue
			}
			for j, way := range ways {
				idle := w
				idle.before, idle.script = "", w.idle
				took, cpu, err := b.do(w, way)
				_, start, err2 := b.do(idle, way)
				if err := errors.Join(err, err2); err != nil {
					return r, fmt.Errorf("%s %s: %w", w.name, way, err)
				}
				f := &measured[i][j]
				f.times, f.cpu, f.idle = append(f.times, took), append(f.cpu, cpu), append(f.idle, start)
			}
		}
	}
	for i, w := range works {
		row := workRow{Name: w.name, Aims: w.aim}
		for _, f := range measured[i] {
			if len(f.times) == 0 {
				row.Lacks = w.needs
				break
			}
			slices.Sort(f.times)
			row.Medians = append(row.Medians, f.times[len(f.times)/2])
			row.CPU = append(row.CPU, slices.Min(f.cpu)-slices.Min(f.idle))
		}
		r.Works = append(r.Works, row)
	}
	return r, nil
}

type workBench struct {
	ctx       context.Context
	dir, self string
	files     int
}

const workConfig = `version: 1
sandbox:
  paths:
    workspace: {root: WORKSPACE, mode: rw, write_approval: false}
    files: {root: DIR/archive, mode: ro, read_approval: false}
    origin: {root: DIR/origin, mode: ro, read_approval: false}
    go: {root: DIR/go, mode: ro, read_approval: false}
  hide: [hidden-by-bench]
  env:
    allow: [PATH, HOME, LANG, OLDPWD, NPM, TESTS]
  limits: {output: 1GiB, timeout: 10m, cpu: 10m}
shell:
  default: {allowed: true, approval: false}
audit: {path: DIR/log/audit.jsonl, sync: never}
`

// prepare makes what the works are about: an archive of files, a repository with half of
// them, and a program.
func (b workBench) prepare() error {
	tree := filepath.Join(b.dir, "tree")
	if err := plantTree(tree, b.files); err != nil {
		return err
	}
	const program = "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"built\")) }\n"
	for name, content := range map[string]string{"go/main.go": program, "go/go.mod": "module example.org/bench\n\ngo 1.21\n", "log/.keep": "", "open/.keep": "", "hidden/hidden-by-bench": "x"} {
		path := filepath.Join(b.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			return err
		}
	}
	for _, ws := range []string{"open", "hidden"} {
		text := strings.NewReplacer("WORKSPACE", filepath.Join(b.dir, ws), "DIR", b.dir).Replace(workConfig)
		if err := os.WriteFile(filepath.Join(b.dir, ws+".yaml"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	out, err := b.bash(b.dir, fmt.Sprintf(`set -e
mkdir archive && tar -C tree -cf archive/files.tar .
mkdir origin && cd origin && git init -q .
(cd ../tree && find . -type f | head -n %d | tar -cf - -T -) | tar -xf -
git add . && git -c user.name=a -c user.email=a@example.org commit -qm all
cd .. && rm -rf tree`, b.files/2)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("prepare: %w: %s", err, out)
	}
	return nil
}

func (b workBench) bash(dir, script string) *exec.Cmd {
	return b.command(dir, "/bin/bash", "--norc", "--noprofile", "-c", script)
}

func (b workBench) command(dir string, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "NPM="+strings.ReplaceAll(npmLike, "FILES", strconv.Itoa(b.files/2)), "TESTS="+pythonTests)
	return cmd
}

var took = regexp.MustCompile(`(?m)^took (\d+\.\d+) (\d+\.\d+)$`)

// do gives how long the script takes, in seconds, as it says itself: without the start of
// the sandbox. What it says first counts, so that a program's own start can be left out. The
// processor time is that of every process, with the start.
func (b workBench) do(w work, way string) (wall, cpu float64, err error) {
	ws := "open"
	if w.hidden {
		ws = "hidden"
	}
	dir := filepath.Join(b.dir, ws)
	if out, err := b.bash(dir, "set -e\n"+w.before).CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, out)
	}
	// The same clock inside and outside; `.` is the locale's otherwise.
	script := "LC_ALL=C; t=$EPOCHREALTIME; (:;" + w.script + "); s=$?; echo took $t $EPOCHREALTIME; exit $s"
	cmd := b.bash(dir, script)
	if way != "" {
		cmd = b.command(dir, b.self, "run", "--config", filepath.Join(b.dir, ws+".yaml"), "--backend", way, "--", "/bin/bash", "--norc", "--noprofile", "-c", script)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %s%s", err, out, &errs)
	}
	said := took.FindSubmatch(out)
	if said == nil {
		return 0, 0, fmt.Errorf("it did not say how long it took: %q", out)
	}
	begin, err1 := strconv.ParseFloat(string(said[1]), 64)
	end, err2 := strconv.ParseFloat(string(said[2]), 64)
	cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	return end - begin, cpu, errors.Join(err1, err2)
}

func (r WorkReport) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%d files, median of %d\tbare, ms\tbwrap / bare\taim\t\tlandlock / bare\taim\t\tprocessor time: bwrap / bare\tlandlock / bare\t\n", r.Files, r.Rounds)
	for _, row := range r.Works {
		if row.Lacks != "" {
			fmt.Fprintf(w, "%s\tnot measured: this host has no %s\t\t\t\t\t\t\t\t\n", row.Name, row.Lacks)
			continue
		}
		fmt.Fprintf(w, "%s\t%.1f", row.Name, row.Medians[0]*1000)
		for i, aim := range row.Aims {
			ratio := row.Medians[i+1] / row.Medians[0]
			verdict := map[bool]string{true: "met", false: "not met"}[ratio <= aim]
			text := strconv.FormatFloat(aim, 'g', -1, 64)
			if aim == 0 {
				verdict, text = "", ""
			}
			fmt.Fprintf(w, "\t%.2f\t%s\t%s", ratio, text, verdict)
		}
		fmt.Fprintf(w, "\t%.2f\t%.2f\t\n", row.CPU[1]/row.CPU[0], row.CPU[2]/row.CPU[0])
	}
	return w.Flush()
}
