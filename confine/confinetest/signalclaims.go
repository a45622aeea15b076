package confinetest

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
)

// signals: a program starts with every signal at its default and none blocked, whatever
// its init does with them. No signal of a program ends the init: it leaves none at its
// default, which ends a process 1 too while one of its threads blocks the signal.
func signals(t *testing.T, c confine.Confiner) {
	fresh, init := signalStates(t, c, "/proc/self/status"), signalStates(t, c, "/proc/1/status")
	if fresh["SigBlk"]|fresh["SigIgn"] != 0 {
		t.Errorf("a program starts with %#x blocked and %#x ignored", fresh["SigBlk"], fresh["SigIgn"])
	}
	for n := unix.Signal(1); n <= 64; n++ {
		if n != unix.SIGKILL && n != unix.SIGSTOP && (init["SigIgn"]|init["SigCgt"])&(1<<(n-1)) == 0 {
			t.Errorf("signal %d is at its default in process 1", n)
		}
	}
	hostSignals(t, c)
	toInit(t, c)
}

// signalStates are the masks of proc_pid_status(5).
func signalStates(t *testing.T, c confine.Confiner, file string) map[string]uint64 {
	t.Helper()
	ws := Workspace(t)
	o := Shell(t, c, Profile(t, ws), ws, "exec grep ^Sig "+file)
	states := map[string]uint64{}
	for line := range strings.Lines(o.Out) {
		name, mask, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
		if err == nil {
			states[name] = n
		}
	}
	for _, name := range []string{"SigBlk", "SigIgn", "SigCgt"} {
		if _, ok := states[name]; !ok {
			t.Fatalf("%s says nothing of %s: %q %q", file, name, o.Out, o.Err)
		}
	}
	return states
}

// hostSignals asks bash, which lists what was ignored when it began.
func hostSignals(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	defer box.Close()
	twin := ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", "trap '' USR1; exec bash -c 'trap -p'")
	if !strings.Contains(twin.Out, "SIGUSR1") {
		t.Errorf("bash does not list what is ignored: %q %q", twin.Out, twin.Err)
	}
	if o := ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", "trap -p"); o.Out != "" || o.ExitCode != 0 {
		t.Errorf("a program starts with signals ignored: %q %q", o.Out, o.Err)
	}
}

// toInit sends each signal to process 1 as the first thing that a program does: init's
// thread may then still be on its way out of the fork, with signals blocked.
func toInit(t *testing.T, c confine.Confiner) {
	ws := Workspace(t)
	box, err := c.Prepare(context.Background(), Profile(t, ws))
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	defer box.Close()
	for n := 1; n <= 64; n++ {
		o := ExecIn(t, context.Background(), box, ws, nil, "/bin/bash", "-c", "kill -"+strconv.Itoa(n)+" 1; echo sent")
		if o.Out != "sent\n" || o.ExitCode != 0 {
			t.Fatalf("signal %d: %q %q %+v", n, o.Out, o.Err, o.Result)
		}
	}
}
