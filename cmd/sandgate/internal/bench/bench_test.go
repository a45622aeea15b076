package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/server"
)

// The whole path of a call in this process, without the socket and over it: for
// profiles of processor time and memory.

func BenchmarkCallReadFile(b *testing.B)  { benchmarkCall(b, "read_file", `{"path": "file"}`) }
func BenchmarkCallShellTrue(b *testing.B) { benchmarkCall(b, "shell", `{"command": "true"}`) }

func BenchmarkSocketReadFile(b *testing.B) {
	benchmarkSocket(b, "read_file", map[string]any{"path": "file"})
}

func BenchmarkSocketShellTrue(b *testing.B) {
	benchmarkSocket(b, "shell", map[string]any{"command": "true"})
}

func benchmarkSocket(b *testing.B, tool string, args map[string]any) {
	r := benchSupervisor(b)
	defer r.Close()
	path := filepath.Join(b.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go server.New(r.Supervisor, server.Config{}).ServeAgent(ctx, l)
	agent, err := client.DialAgent(ctx, path)
	if err != nil {
		b.Fatal(err)
	}
	defer agent.Close()
	s, err := agent.OpenSession(ctx, protocol.SessionOpen{Agent: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	timed(b, func() error {
		_, err := s.Call(ctx, protocol.ToolName(tool), args)
		return err
	})
}

// timed reports the median beside the mean, which one call that had to wait for the
// machine moves.
func timed(b *testing.B, do func() error) {
	b.Helper()
	var times []time.Duration
	for b.Loop() {
		begin := time.Now()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "median-ns/op")
}

func benchmarkCall(b *testing.B, tool, args string) {
	r := benchSupervisor(b)
	defer r.Close()
	peer := unixsock.Peer{UID: os.Getuid()}
	s, err := r.OpenSession(peer, protocol.SessionOpen{Agent: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	timed(b, func() error {
		_, err := r.Call(context.Background(), peer, protocol.ToolsCall{
			SessionID: s.SessionID, CallID: "c", Tool: protocol.ToolName(tool), Args: json.RawMessage(args),
		}, nil)
		return err
	})
}

// BenchmarkJournal is what undo adds to a call that writes 20 files, to one that saves a file as editors do, and to one that creates a file for a moment, which could be a second name of any other: the same call with it and without, in turns, on trees of the same size.
func BenchmarkJournal(b *testing.B) {
	const writes = "for i in 0 1 2 3 4 5 6 7 8 9; do echo $RANDOM$i > 0/$i; echo $RANDOM$i > 1/5$i; done"
	const saves = "date > 0/tmp; mv 0/tmp 0/1"
	const creates = "date > 0/new; rm 0/new"
	for _, c := range []struct {
		files         int
		name, command string
	}{
		{10_000, "writes", writes}, {10_000, "saves", saves}, {10_000, "creates", creates},
		{100_000, "writes", writes}, {100_000, "saves", saves}, {100_000, "creates", creates},
	} {
		files := c.files
		b.Run(strconv.Itoa(files)+"/"+c.name, func(b *testing.B) {
			b.Setenv("XDG_STATE_HOME", b.TempDir())
			var calls []func() time.Duration
			for _, config := range []string{benchConfig, benchConfig + "undo: {enabled: true}\n"} {
				dir := b.TempDir()
				r := supervisorIn(b, dir, config)
				defer r.Close()
				for i := range files {
					_ = os.Mkdir(fmt.Sprintf("%s/workspace/%d", dir, i/50), 0o700)
					if err := os.WriteFile(fmt.Sprintf("%s/workspace/%d/%d", dir, i/50, i), fmt.Append(nil, i, strings.Repeat("line\n", i%400)), 0o600); err != nil {
						b.Fatal(err)
					}
				}
				peer := unixsock.Peer{UID: os.Getuid()}
				s, err := r.OpenSession(peer, protocol.SessionOpen{Agent: "bench"})
				if err != nil {
					b.Fatal(err)
				}
				call := func() time.Duration {
					begin := time.Now()
					res, err := r.Call(context.Background(), peer, protocol.ToolsCall{SessionID: s.SessionID, CallID: "c", Tool: "shell",
						Args: json.RawMessage(fmt.Sprintf(`{"command": %q}`, c.command))}, nil)
					if err != nil || len(res.Warnings) > 0 {
						b.Fatal(err, res.Warnings)
					}
					return time.Since(begin)
				}
				call()
				calls = append(calls, call)
			}
			var times [2][]time.Duration
			for b.Loop() {
				for i, call := range calls {
					times[i] = append(times[i], call())
				}
			}
			for i, unit := range []string{"without-µs", "with-µs"} {
				slices.Sort(times[i])
				b.ReportMetric(float64(times[i][len(times[i])/2].Microseconds()), unit)
				b.ReportMetric(float64(times[i][0].Microseconds()), "least-"+unit)
			}
		})
	}
}

func benchSupervisor(b *testing.B) *assemble.Running {
	b.Helper()
	return supervisorIn(b, b.TempDir(), benchConfig)
}

func supervisorIn(b *testing.B, dir, text string) *assemble.Running {
	b.Helper()
	for name, content := range map[string]string{"sandgate.yaml": strings.Replace(text, "WORKSPACE", "workspace", 1), "workspace/file": "text", "log/.keep": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	env, err := assemble.Env()
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Load(filepath.Join(dir, "sandgate.yaml"), env)
	if err != nil {
		b.Fatal(err)
	}
	r, err := assemble.Start(cfg, assemble.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkStream is what carries a program's output to the agent.
func BenchmarkStream(b *testing.B) {
	b.SetBytes(16 << 20)
	benchmarkSocket(b, "shell", map[string]any{"command": "yes 0123456789012345678901234567890123456789 | head -c 16M"})
}

// TestBareBwrapHasTheSandboxsMounts: what sandgate is compared with runs, also where a
// sandbox has files of its own that nobody hands to it.
func TestBareBwrapHasTheSandboxsMounts(t *testing.T) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("there is no bubblewrap")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "sandgate.yaml")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "workspace"), 0o700),
		os.WriteFile(config, []byte(strings.Replace(benchConfig, "WORKSPACE", filepath.Join(dir, "workspace"), 1)), 0o600)); err != nil {
		t.Fatal(err)
	}
	g := &fixture{plain: &instance{config: config}}
	if err := g.sameMounts(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("bwrap", append(g.bwrap, "/usr/bin/true")...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
