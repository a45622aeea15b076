package linux

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTheLargestIsChosen: of several calls the one that holds the most, also in shared memory, is told to
// end, and the next one only if that does not give back what is missing.
func TestTheLargestIsChosen(t *testing.T) {
	running := map[*performance]bool{}
	holds := func(mib int, how string) *performance {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("/usr/bin/python3 -c 'import mmap, time; n = %d << 20; x = %s; time.sleep(600)'; true", mib, how))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL); _ = cmd.Wait() })
		p := &performance{pid: cmd.Process.Pid, starved: make(chan struct{})}
		for running[p] = true; heldBelow(cmd.Process.Pid) < int64(mib)<<20; {
			time.Sleep(time.Millisecond)
		}
		return p
	}
	const own, shared = `b"x" * n`, `mmap.mmap(-1, n); [x.write(b"x" * 4096) for _ in range(n >> 12)]`
	small, large, medium := holds(5, own), holds(90, shared), holds(40, own)
	ends := func() string { return fmt.Sprint(large.ends, medium.ends, small.ends) }
	for _, x := range []struct {
		missing int64
		want    string
	}{{-1, "false false false"}, {1, "true false false"}, {60 << 20, "true false false"}, {140 << 20, "true true false"}, {1 << 40, "true true false"}} {
		endLargest(running, x.missing, 30<<20)
		if got := ends(); got != x.want {
			t.Errorf("%d MiB missing: %s end, want %s", x.missing>>20, got, x.want)
		}
	}
	<-large.starved
	<-medium.starved
}
