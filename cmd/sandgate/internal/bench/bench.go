package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"github.com/sandgate/sandgate/tools/shell"
)

// When Measure returns, it and its supervisors are done: a reader of the report may go
// away in the middle of it (SIGPIPE).
func Measure(ctx context.Context, o Options) (Report, error) {
	b, err := newBench(ctx, o)
	if err != nil {
		return Report{}, err
	}
	defer b.close()
	return b.run()
}

type Options struct {
	Version                   string // of this program
	Rounds, Sessions, Pending int
	Files                     int // in the workspace that is not empty
	Streamed                  int // bytes of output
}

// A bench makes the same measurements in several workspaces that nothing else uses.
type bench struct {
	Options
	ctx  context.Context
	dir  scratch
	self string

	empty, tree *fixture
}

// A fixture is a workspace, and a few supervisors of it with their clients.
type fixture struct {
	*bench
	workspace string
	bwrap     []string

	plain, loaded, unsynced, host *instance // host: with Landlock alone
	perSession                    float64   // resident kB that one open session of the loaded supervisor takes

	times   map[string][]time.Duration // of each act
	figures figures
}

// A instance is one supervisor.
type instance struct {
	dir, config string
	serve       *exec.Cmd
	start       time.Duration // from exec to the first answered connection
	agent       *client.Agent
	calls       *client.Session
	waiting     sync.WaitGroup
}

const benchConfig = `version: 1
sandbox:
  paths:
    workspace: {root: WORKSPACE, mode: rw, write_approval: false}
  limits: {output: 1GiB}
shell:
  default: {allowed: true, approval: false}
  rules:
    - {pattern: wait-for-an-answer, allowed: true, approval: true}
audit: {path: log/audit.jsonl, sync: decision}
`

func newBench(ctx context.Context, o Options) (_ *bench, err error) {
	b := &bench{Options: o, ctx: ctx}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.dir, err = newScratch(benchParent); err != nil {
		return nil, err
	}
	if b.empty, err = b.newFixture("empty", 0); err != nil {
		return nil, err
	}
	b.tree, err = b.newFixture("tree", o.Files)
	return b, err
}

// newFixture makes a workspace with files files and starts its supervisors. What it gives
// has to be closed, also with an error.
func (b *bench) newFixture(name string, files int) (*fixture, error) {
	g := &fixture{bench: b, workspace: filepath.Join(b.dir.Name(), name, "workspace"), times: map[string][]time.Duration{}}
	if err := errors.Join(os.MkdirAll(g.workspace, 0o700), plantTree(g.workspace, files),
		os.WriteFile(filepath.Join(g.workspace, "file"), []byte(strings.Repeat("0123456789abcde\n", 256)), 0o600)); err != nil {
		return g, err
	}
	for name, site := range map[string]**instance{"plain": &g.plain, "loaded": &g.loaded, "unsynced": &g.unsynced, "host": &g.host} {
		config := strings.Replace(benchConfig, "WORKSPACE", g.workspace, 1)
		if name == "unsynced" {
			config = strings.Replace(config, "sync: decision", "sync: never", 1)
		}
		var err error
		backend := "auto"
		if name == "host" {
			backend = "landlock"
		}
		if *site, err = g.open(name, config, backend); err != nil {
			return g, err
		}
	}
	if err := g.load(); err != nil {
		return g, err
	}
	return g, g.sameMounts()
}

// Files of a web project's node_modules: ten in a directory, ten directories in one
// above. One such project was found to have 57,000 files.
const (
	treeFiles       = 57_000
	treeDirectories = 5_500
)

// plantTree makes a tree of files below dir.
func plantTree(dir string, files int) error {
	directories := max(1, files*treeDirectories/treeFiles)
	at := make([]string, directories)
	for i := range at {
		at[i] = filepath.Join(dir, "node_modules", fmt.Sprintf("package-%d", i))
		if i%10 != 0 {
			at[i] = filepath.Join(at[i-i%10], fmt.Sprintf("lib-%d", i))
		}
		if files == 0 {
			return nil
		}
		if err := os.MkdirAll(at[i], 0o700); err != nil {
			return err
		}
	}
	for i := range files {
		if err := os.WriteFile(filepath.Join(at[i%directories], fmt.Sprintf("index-%d.js", i)), []byte("module.exports = {}\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// open starts a supervisor and dials it until it answers.
func (b *fixture) open(name, config, backend string) (*instance, error) {
	s := &instance{dir: filepath.Join(filepath.Dir(b.workspace), name)}
	s.config = filepath.Join(s.dir, "sandgate.yaml")
	for name, content := range map[string]string{
		"sandgate.yaml": config, "log/.keep": "",
	} {
		path := filepath.Join(s.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			return s, err
		}
	}
	agent := filepath.Join(s.dir, "agent.sock")
	s.serve = exec.CommandContext(b.ctx, b.self, "serve", "--backend", backend, "--config", s.config, "--socket", agent, "--operator-socket", filepath.Join(s.dir, "operator.sock"))
	begin := time.Now()
	if err := s.serve.Start(); err != nil {
		return s, err
	}
	for {
		a, err := client.DialAgent(b.ctx, agent, client.WithProgram("sandgate bench", b.Version))
		if err == nil {
			s.agent, s.start = a, time.Since(begin)
			break
		}
		if time.Since(begin) > 20*time.Second {
			return s, cli.WithStatus(cli.ExitInternal, fmt.Errorf("the supervisor did not start: %w", err))
		}
		time.Sleep(time.Millisecond)
	}
	var err error
	s.calls, err = s.agent.OpenSession(b.ctx, protocol.SessionOpen{Agent: "bench"})
	return s, err
}

// benchAsked is how many requests of one session wait. A session may ask for little
// more at once.
const benchAsked = 50

// load opens sessions and leaves calls waiting for an answer that never comes.
func (b *fixture) load() error {
	s := b.loaded
	before := residentKB(s.serve.Process.Pid)
	asking := []*client.Session{s.calls}
	for range b.Sessions {
		x, err := s.agent.OpenSession(b.ctx, protocol.SessionOpen{Agent: "bench"})
		if err != nil {
			return err
		}
		asking = append(asking, x)
	}
	if b.Sessions > 0 {
		b.perSession = float64(residentKB(s.serve.Process.Pid)-before) / float64(b.Sessions)
	}
	asked := make(chan error, b.Pending)
	for i := range b.Pending {
		session := asking[i/benchAsked%len(asking)]
		s.waiting.Go(func() {
			_, err := session.Call(b.ctx, "shell", map[string]any{"command": "wait-for-an-answer"}, client.OnState(func(st protocol.ToolState) {
				if st.State == protocol.Pending {
					asked <- nil
				}
			}))
			if err != nil {
				select {
				case asked <- err:
				default: // it was asked about, and ends with the supervisor
				}
			}
		})
	}
	for range b.Pending {
		if err := <-asked; err != nil {
			return err
		}
	}
	return nil
}

// sameMounts are the arguments that the supervisor's own sandboxes are built with.
func (b *fixture) sameMounts() error {
	cfg, err := settings.Load(b.plain.config, "")
	if err != nil {
		return err
	}
	p, operator, err := assemble.ProfileFor(*cfg, "shell", "")
	if err != nil {
		return err
	}
	p = sandboxprofile.Intersect(p, operator)
	facts, err := assemble.PathFacts(p)
	if err != nil {
		return err
	}
	if b.bwrap, err = bwrap.Compile(p, facts); err != nil {
		return err
	}
	// A bare bwrap does not get the files that are a sandbox's own: it has the host's.
	for i := slices.Index(b.bwrap, "--ro-bind-data"); i >= 2; i = slices.Index(b.bwrap, "--ro-bind-data") {
		path := b.bwrap[i+2]
		b.bwrap = slices.Replace(b.bwrap, i-2, i+3, "--ro-bind", path, path) // with --perms before it
	}
	return nil
}

func (b *bench) close() {
	for _, g := range []*fixture{b.empty, b.tree} {
		if g == nil {
			continue
		}
		for _, s := range []*instance{g.plain, g.loaded, g.unsynced, g.host} {
			s.close()
		}
	}
	b.dir.remove()
}

func (s *instance) close() {
	if s == nil {
		return
	}
	if s.serve != nil && s.serve.Process != nil {
		_ = s.serve.Process.Signal(os.Interrupt)
		_ = s.serve.Wait()
	}
	if s.agent != nil {
		s.agent.Close()
	}
	s.waiting.Wait()
}

// An act is one kind of thing that is measured.
type act struct {
	name string
	do   func() error
}

// The kinds that ratios are made of.
const (
	bareExec     = "bare exec"
	bareBash     = "bare bash -c true"
	bareBwrap    = "bare bwrap"
	shortBwrap   = "bwrap, its README's line"
	runCommand   = "sandgate run"
	runHost      = "sandgate run, landlock"
	shellTrue    = "shell true"
	hostTrue     = "shell true, landlock"
	shellInBash  = "shell with bash"
	readFile     = "read_file 4 KiB"
	writeFile    = "write_file 4 KiB"
	loadedTrue   = "shell true, loaded"
	unsyncedTrue = "shell true, not synced"
	unsyncedRead = "read_file, not synced"
)

func (b *fixture) acts() []act {
	run := func(argv ...string) func() error {
		return func() error {
			cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
			cmd.Dir = b.workspace
			said, err := cmd.CombinedOutput()
			if err != nil && len(said) > 0 {
				return fmt.Errorf("%w: %s", err, said)
			}
			return err
		}
	}
	call := func(s *instance, tool string, args map[string]any) func() error {
		return func() error {
			r, err := s.calls.Call(b.ctx, protocol.ToolName(tool), args)
			if err == nil && r.ExitCode != 0 {
				err = fmt.Errorf("%s: exit status %d", tool, r.ExitCode)
			}
			return err
		}
	}
	command := func(line string) map[string]any { return map[string]any{"command": line} }
	return []act{
		{bareExec, run("/usr/bin/true")},
		{bareBash, run("/bin/bash", "--norc", "--noprofile", "-c", "true")},
		{bareBwrap, run(append(append([]string{"bwrap"}, b.bwrap...), "/usr/bin/true")...)},
		{shortBwrap, run("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "/usr/bin/true")},
		{runCommand, run(b.self, "run", "--config", b.plain.config, "--", "/usr/bin/true")},
		{runHost, run(b.self, "run", "--backend", "landlock", "--config", b.plain.config, "--", "/usr/bin/true")},
		{shellTrue, call(b.plain, "shell", command("true"))},
		{hostTrue, call(b.host, "shell", command("true"))},
		{loadedTrue, call(b.loaded, "shell", command("true"))},
		{unsyncedTrue, call(b.unsynced, "shell", command("true"))},
		{shellInBash, call(b.plain, "shell", command("true && true"))},
		{readFile, call(b.plain, "read_file", map[string]any{"path": "file"})},
		{unsyncedRead, call(b.unsynced, "read_file", map[string]any{"path": "file"})},
		{writeFile, call(b.plain, "write_file", map[string]any{"path": "written", "content": strings.Repeat("x", 4096)})},
	}
}

// run measures round by round, in each workspace in turn.
func (b *bench) run() (Report, error) {
	r := Report{Rounds: b.Rounds, CPUs: runtime.NumCPU(), Sessions: b.Sessions, Pending: b.Pending, Files: b.Files}
	var err error
	if r.Decision, err = decisionTime(); err != nil {
		return r, err
	}
	grounds := []*fixture{b.empty, b.tree}
	for _, g := range grounds {
		g.figures.SessionKB, g.figures.SupervisorKB = g.perSession, residentKB(g.plain.serve.Process.Pid)
		g.figures.ServeStart = g.plain.start.Seconds() * 1000
	}
	for i := range b.Rounds + 3 {
		for _, g := range grounds {
			if err := g.round(i >= 3); err != nil { // the first build what the others use
				return r, err
			}
		}
	}
	for _, g := range grounds {
		if err := g.rest(); err != nil {
			return r, err
		}
	}
	r.figures, r.Tree = b.empty.figures, b.tree.figures
	r.compare()
	return r, nil
}

// round does each act once.
func (b *fixture) round(counts bool) error {
	for _, x := range b.acts() {
		begin := time.Now()
		if err := x.do(); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if counts {
			b.times[x.name] = append(b.times[x.name], time.Since(begin))
		}
	}
	return nil
}

// rest is measured when all rounds are over.
func (b *fixture) rest() error {
	f := &b.figures
	acts := b.acts()
	for _, x := range acts {
		f.Kinds = append(f.Kinds, summaryOf(x.name, b.times[x.name]))
	}
	f.BusyKB, f.AnonKB = residentKB(b.plain.serve.Process.Pid), statusKB(b.plain.serve.Process.Pid, "RssAnon:")
	f.WarmKB = warmKB(b.plain.serve.Process.Pid)
	f.Throughput = b.perSecond(acts)
	var err error
	f.Pipe, f.Streamed, err = b.streaming()
	return err
}

// perSecond counts how many of a kind all processors do in a second.
func (b *fixture) perSecond(acts []act) map[string]float64 {
	rates := map[string]float64{}
	for _, x := range acts {
		if x.name != bareExec && x.name != bareBwrap && x.name != shellTrue {
			continue
		}
		const span = 2 * time.Second
		var wg sync.WaitGroup
		counts := make([]int, 2*runtime.NumCPU())
		begin := time.Now()
		for w := range counts {
			wg.Go(func() {
				for time.Since(begin) < span && x.do() == nil {
					counts[w]++
				}
			})
		}
		wg.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		rates[x.name] = float64(total) / time.Since(begin).Seconds()
	}
	return rates
}

// streaming is how much a pipe carries from a program, and a call's output, in MB/s:
// medians of a few turns each.
func (b *fixture) streaming() (pipe, call float64, err error) {
	line := fmt.Sprintf("yes 0123456789012345678901234567890123456789 | head -c %d", b.Streamed)
	var pipes, calls []float64
	for range 5 {
		begin := time.Now()
		if err := b.throughPipe(line); err != nil {
			return 0, 0, err
		}
		pipes = append(pipes, float64(b.Streamed)/1e6/time.Since(begin).Seconds())
		begin, got := time.Now(), 0
		_, err := b.plain.calls.Call(b.ctx, "shell", map[string]any{"command": line}, client.OnRawOutput(func(o protocol.RawOutput) { got += len(o.Data) }))
		if err != nil {
			return 0, 0, err
		}
		if got != b.Streamed {
			return 0, 0, fmt.Errorf("streaming: %d bytes of %d came", got, b.Streamed)
		}
		calls = append(calls, float64(b.Streamed)/1e6/time.Since(begin).Seconds())
	}
	slices.Sort(pipes)
	slices.Sort(calls)
	return pipes[len(pipes)/2], calls[len(calls)/2], nil
}

func (b *bench) throughPipe(line string) error {
	cmd := exec.CommandContext(b.ctx, "/bin/bash", "-c", line)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, out)
	return errors.Join(err, cmd.Wait())
}

// decisionTime is the cost of parsing a command and matching it against rules, in
// microseconds.
func decisionTime() (float64, error) {
	no := false
	p, err := shell.NewPolicy(shell.Default{Allowed: true, Approval: true}, []shell.Rule{
		{Pattern: "git status", Approval: &no}, {Pattern: "go test", Approval: &no}, {Pattern: "rm", Allowed: &no},
	}, nil, nil)
	if err != nil {
		return 0, err
	}
	const n = 2000
	times := make([]time.Duration, n)
	for i := range times {
		begin := time.Now()
		p.Decide("go test ./... 2>&1 | tail -n 5 && git status", "bash")
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return float64(times[n/2].Nanoseconds()) / 1000, nil
}

// Of --work: how many rounds of a call stand for one, and how many files there are.
const (
	WorkRounds = 10
	WorkFiles  = 20_000
)
