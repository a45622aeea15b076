package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestASignalToTheGroupEndsARun: as a terminal or timeout(1) sends it. The status is that
// of the signal, and nobody is told of a fault.
func TestASignalToTheGroupEndsARun(t *testing.T) {
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		h := newHost(t)
		var said bytes.Buffer
		cmd := h.command("run", "--config", "../sandgate.yaml", "--", "sh", "-c", "echo > started; exec sleep 79.5")
		cmd.SysProcAttr, cmd.Stderr = &syscall.SysProcAttr{Setpgid: true}, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(waitforLimit); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(h.dir + "/ws/started"); err == nil {
				break
			} else if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
		if err := syscall.Kill(-cmd.Process.Pid, signal); err != nil {
			t.Fatal(err)
		}
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != status {
			t.Errorf("%v: %v, want status %d", signal, err, status)
		}
		if strings.Contains(said.String(), "sandgate: error") || strings.Contains(said.String(), "died") {
			t.Errorf("%v: %s", signal, said.String())
		}
	}
}
