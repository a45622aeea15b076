package linux_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// killedRounds is how many supervisors are killed; SANDGATE_KILLED sets more.
const killedRounds = 12

// TestKilledSupervisorsLeaveNoProcess: a supervisor that is killed while it builds many
// sandboxes leaves no process, at whatever step of bubblewrap the kill came.
func TestKilledSupervisorsLeaveNoProcess(t *testing.T) {
	switch os.Getenv("SANDGATE_TEST_ROLE") {
	case "reaper":
		reaper(t)
		return
	case "builder":
		builder(t)
		return
	}
	rounds := killedRounds
	if s := os.Getenv("SANDGATE_KILLED"); s != "" {
		var err error
		if rounds, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	// The reaper is the parent of all that loses its own, and of nothing else.
	cmd := role(t, "reaper")
	cmd.Env = append(cmd.Env, "SANDGATE_KILLED="+strconv.Itoa(rounds), "SANDGATE_TEST_WORKSPACE="+confinetest.Workspace(t))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// role is this test again, in another role.
func role(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestKilledSupervisorsLeaveNoProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), "SANDGATE_TEST_ROLE="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// reaper kills supervisors, and waits until nothing of them is left.
func reaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	rounds, err := strconv.Atoi(os.Getenv("SANDGATE_KILLED"))
	if err != nil {
		t.Fatal(err)
	}
	for range rounds {
		cmd := role(t, "builder")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "builds\n" {
			t.Fatalf("the supervisor said %q: %v", line, err)
		}
		time.Sleep(rand.N(60 * time.Millisecond)) // any moment will do
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		left := waitForOrphans(30 * time.Second)
		if left != "" {
			t.Fatalf("left by a killed supervisor: %s", left)
		}
	}
}

// waitForOrphans waits until this process has no child, and names one that stays.
func waitForOrphans(patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return ""
		case pid > 0 || errors.Is(err, unix.EINTR):
			continue
		case time.Now().After(deadline):
			b, _ := os.ReadFile("/proc/self/task/" + strconv.Itoa(os.Getpid()) + "/children")
			return fmt.Sprintf("children %s", b)
		}
		time.Sleep(time.Millisecond)
	}
}

// builder is a supervisor that builds sandboxes until it is killed.
func builder(t *testing.T) {
	p := confinetest.Profile(t, os.Getenv("SANDGATE_TEST_WORKSPACE"))
	b, err := linux.NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Prepare(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	fmt.Println("builds")
	for range 8 {
		go func() {
			for {
				if s, err := b.Prepare(context.Background(), p); err == nil {
					_ = s.Close()
				}
			}
		}()
	}
	select {}
}
