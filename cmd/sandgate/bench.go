package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"github.com/sandgate/sandgate/tools/shell"
)

func newBenchCmd(a *app) *cobra.Command {
	var asJSON bool
	var rounds int
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure sandgate against bare exec and bare bubblewrap on this host",
		Long: `bench starts a supervisor of its own and measures, round by round and one of
each kind after the other, so that a busy machine slows all of them alike: a
command started bare, in bubblewrap with the same mounts, by sandgate run and by a
call over the socket, and the file tools. Every decision is in the audit log on
disk before its tool starts. Ratios come first; absolute figures are this
machine's.`,
		Example: "  sandgate bench\n  sandgate bench --rounds 300 --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newBench(cmd.Context())
			if err != nil {
				return err
			}
			defer b.close()
			r, err := b.run(rounds)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, r)
			}
			return r.print(a.out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().IntVar(&rounds, "rounds", 100, "`number` of rounds")
	return c
}

// A bench is a supervisor with a workspace that nobody else uses, and a client.
type bench struct {
	ctx    context.Context
	dir    string
	self   string
	serve  *exec.Cmd
	start  time.Duration // from exec to the first answered connection
	agent  *client.Agent
	calls  *client.Session
	bwrap  []string
	config string
}

const benchConfig = `version: 1
sandbox:
  paths:
    workspace: {root: workspace, mode: rw, write_approval: false}
  limits: {output: 1GiB}
shell:
  default: {allowed: true, approval: false}
audit: {path: log/audit.jsonl}
`

func newBench(ctx context.Context) (_ *bench, err error) {
	b := &bench{ctx: ctx}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	// Not below /tmp, which is the sandbox's own inside.
	if b.dir, err = os.MkdirTemp("/var/tmp", "sandgate-bench-"); err != nil {
		return nil, err
	}
	b.config = filepath.Join(b.dir, "sandgate.yaml")
	for name, content := range map[string]string{
		"sandgate.yaml": benchConfig, "workspace/file": strings.Repeat("0123456789abcde\n", 256), "log/.keep": "",
	} {
		path := filepath.Join(b.dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			return nil, err
		}
	}
	if err := b.startServe(); err != nil {
		return nil, err
	}
	return b, b.sameMounts()
}

// startServe starts a supervisor and dials it until it answers.
func (b *bench) startServe() error {
	agent := filepath.Join(b.dir, "agent.sock")
	b.serve = exec.CommandContext(b.ctx, b.self, "serve", "--config", b.config, "--socket", agent, "--operator-socket", filepath.Join(b.dir, "operator.sock"), "--approve-all")
	var said strings.Builder
	b.serve.Stderr = &said
	begin := time.Now()
	if err := b.serve.Start(); err != nil {
		return err
	}
	for {
		a, err := client.DialAgent(b.ctx, agent, client.WithProgram("sandgate bench", version))
		if err == nil {
			b.agent, b.start = a, time.Since(begin)
			break
		}
		if time.Since(begin) > 20*time.Second {
			return withStatus(exitInternal, fmt.Errorf("the supervisor did not start: %w", err))
		}
		time.Sleep(time.Millisecond)
	}
	var err error
	b.calls, err = b.agent.OpenSession(b.ctx, protocol.SessionOpen{Agent: "bench"})
	return err
}

// sameMounts are the arguments that the supervisor's own sandboxes are built with.
func (b *bench) sameMounts() error {
	p, err := derivedProfile(b.config, "shell")
	if err != nil {
		return err
	}
	facts, err := keyFacts(p)
	if err != nil {
		return err
	}
	b.bwrap, err = bwrap.Compile(p, facts)
	return err
}

func (b *bench) close() {
	if b.agent != nil {
		b.agent.Close()
	}
	if b.serve != nil && b.serve.Process != nil {
		_ = b.serve.Process.Signal(os.Interrupt)
		_ = b.serve.Wait()
	}
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// An act is one kind of thing that is measured.
type benchAct struct {
	name string
	do   func() error
}

func (b *bench) acts() []benchAct {
	run := func(argv ...string) func() error {
		return func() error {
			cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
			cmd.Dir = filepath.Join(b.dir, "workspace")
			return cmd.Run()
		}
	}
	call := func(s *client.Session, tool string, args map[string]any) func() error {
		return func() error {
			r, err := s.Call(b.ctx, protocol.ToolName(tool), args)
			if err == nil && r.ExitCode != 0 {
				err = fmt.Errorf("%s: exit status %d", tool, r.ExitCode)
			}
			return err
		}
	}
	return []benchAct{
		{"bare exec", run("/usr/bin/true")},
		{"bare bwrap", run(append(append([]string{"bwrap"}, b.bwrap...), "/usr/bin/true")...)},
		{"sandgate run", run(b.self, "run", "--config", b.config, "--", "/usr/bin/true")},
		{"shell true", call(b.calls, "shell", map[string]any{"command": "true"})},
		{"run true", call(b.calls, "run", map[string]any{"argv": []string{"/usr/bin/true"}})},
		{"read_file 4 KiB", call(b.calls, "read_file", map[string]any{"path": "file"})},
		{"write_file 4 KiB", call(b.calls, "write_file", map[string]any{"path": "written", "content": strings.Repeat("x", 4096)})},
	}
}

func (b *bench) run(rounds int) (benchReport, error) {
	r := benchReport{Rounds: rounds, CPUs: runtime.NumCPU(), ServeStart: b.start.Seconds() * 1000}
	times := map[string][]time.Duration{}
	acts := b.acts()
	for i := range rounds + 3 {
		for _, x := range acts {
			begin := time.Now()
			if err := x.do(); err != nil {
				return r, fmt.Errorf("%s: %w", x.name, err)
			}
			if i >= 3 { // the first build what the others use
				times[x.name] = append(times[x.name], time.Since(begin))
			}
		}
	}
	for _, x := range acts {
		r.Kinds = append(r.Kinds, benchSummary(x.name, times[x.name]))
	}
	r.Throughput = b.perSecond(acts)
	var err error
	if r.Decision, err = decisionTime(); err != nil {
		return r, err
	}
	r.SupervisorKB = residentKB(b.serve.Process.Pid)
	r.CellKB = cellKB(b.serve.Process.Pid)
	r.compare()
	return r, nil
}

// perSecond counts how many of a kind all processors do in a second.
func (b *bench) perSecond(acts []benchAct) map[string]float64 {
	rates := map[string]float64{}
	for _, x := range acts {
		if x.name != "bare exec" && x.name != "bare bwrap" && x.name != "shell true" {
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

// decisionTime is what parsing a command and holding it against rules costs, in
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
