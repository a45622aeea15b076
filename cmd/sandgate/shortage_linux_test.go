package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/protocol"
)

// boundedProcesses is a cgroup of this host with room for so many processes, which a
// command enters by this prefix.
func boundedProcesses(t *testing.T, most int) (prefix []string) {
	t.Helper()
	for _, parent := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		dir := filepath.Join(parent, fmt.Sprintf("sandgate-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = unix.Rmdir(dir) })
		if os.WriteFile(dir+"/pids.max", fmt.Append(nil, most), 0o644) == nil {
			return []string{"sh", "-c", "echo $$ > " + dir + "/cgroup.procs && exec \"$@\"", "sh"}
		}
	}
	t.Skipf("uid %d may not make a cgroup with the pids controller on this machine\nhint: `scripts/vm cgroups` boots one that has it", os.Geteuid())
	return nil
}

// outcomes are how calls of many sessions ended, by code; "" is well, "closed" a
// connection that ended without a word.
type outcomes struct {
	mu    sync.Mutex
	count map[string]int
}

func (o *outcomes) add(err error) {
	code := ""
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
		code = string(e.Code)
	case err != nil:
		code = "closed"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count[code]++
}

// callsOf lets each of n sessions make one call, over their own connections or over one.
func (h *host) callsOf(n int, own bool, command string) map[string]int {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	socket := h.dir + "/rt/sandgate/agent.sock"
	shared, err := client.DialAgent(ctx, socket)
	if err != nil {
		h.t.Fatal(err)
	}
	defer shared.Close()
	o := outcomes{count: map[string]int{}}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			agent := shared
			if own {
				var err error
				if agent, err = client.DialAgent(ctx, socket); err != nil {
					o.add(err)
					return
				}
				defer agent.Close()
			}
			s, err := agent.OpenSession(ctx, protocol.SessionOpen{Agent: fmt.Sprintf("agent-%d", i)})
			if err == nil {
				_, err = s.Call(ctx, "shell", map[string]any{"command": command})
			}
			o.add(err)
		})
	}
	all.Wait()
	return o.count
}

// operatorAnswers asks for the status, and has the answer within a bound.
func (h *host) operatorAnswers() protocol.Status {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	p, err := client.DialApprover(ctx, h.dir+"/rt/sandgate/operator.sock")
	if err != nil {
		h.t.Fatal(err)
	}
	defer p.Close()
	st, err := p.Status(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	return st
}

// asBefore: when it is over a call is as confined as the first was, the log is whole and
// nothing has ended the supervisor.
func (h *host) asBefore() {
	h.t.Helper()
	const act = `command=test -e /proc/1/status && ! test -e /proc/` + "$OUTER" + ` && grep -q '^Seccomp:.2' /proc/self/status && ! cat ../home/x 2>/dev/null && echo confined`
	out, err := h.command("call", "shell", strings.Replace(act, "$OUTER", strconv.Itoa(h.serve.Process.Pid), 1)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "confined") {
		h.t.Errorf("the next call: %v\n%s", err, out)
	}
	if st := h.operatorAnswers(); !st.Sandbox.Ready || st.Sandbox.EnforcedBy.Backend != "bwrap" {
		h.t.Errorf("status: %+v", st.Sandbox)
	}
	if out, err := h.command("audit", "verify").CombinedOutput(); err != nil {
		h.t.Errorf("the log: %v\n%s", err, out)
	}
	h.interrupt()
	if err := h.serve.Wait(); err != nil {
		h.t.Errorf("the supervisor: %v", err)
	}
}

// TestTheSupervisorOutlivesItsTools: a tool that starts all the processes that there may
// be in a container ends for it, and not the supervisor; others are told to call again.
func TestTheSupervisorOutlivesItsTools(t *testing.T) {
	h := newHost(t)
	h.prefix = boundedProcesses(t, 300)
	h.start()
	h.call(0, "shell", "command=true")
	for range 3 {
		h.call(124, "shell", "command=for i in $(seq 400); do sleep 8 & done; wait")
		h.operatorAnswers()
	}
	got := h.callsOf(12, false, "for i in $(seq 60); do sleep 1 & done; wait")
	for code, n := range got {
		switch protocol.Code(code) {
		case "", protocol.CodeLimitExceeded, protocol.CodeTooManyRequests, protocol.CodeTimedOut:
		default:
			t.Errorf("%d calls ended with %q", n, code)
		}
	}
	t.Logf("%v", got)
	h.asBefore()
}

// TestFewDescriptors: with room for few sandboxes and connections, calls wait or are told
// to come again, and nobody is left without a word.
func TestFewDescriptors(t *testing.T) {
	h := newHost(t)
	h.prefix = []string{"sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"}
	h.start()
	h.call(0, "shell", "command=true")
	for _, own := range []bool{true, false} {
		got := h.callsOf(64, own, "true")
		for code, n := range got {
			if code != "" && code != string(protocol.CodeTooManyRequests) {
				t.Errorf("%d calls ended with %q", n, code)
			}
		}
		if got[""] < 16 {
			t.Errorf("only %d of 64 calls ended well", got[""])
		}
		t.Logf("%v", got)
	}
	h.asBefore()
}

// TestManySessions: standing sandboxes are bounded over all sessions, and those that wait
// go when a call needs room.
func TestManySessions(t *testing.T) {
	h := newHost(t)
	h.prefix = []string{"sh", "-c", "ulimit -n 1024 && exec \"$@\"", "sh"}
	h.start()
	const n = 300
	got := h.callsOf(n, false, "true")
	if got[""] != n {
		t.Errorf("%v, want all %d to end well", got, n)
	}
	if standing := len(proctree.Descendants(h.serve.Process.Pid)); standing > 3*64 {
		t.Errorf("%d processes stand below the supervisor", standing)
	}
	h.asBefore()
}
