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
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGQUIT: 131} {
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

// TestAReaderOfARunGoesAway: head(1) reads a line and ends. The program learns of it as it
// does outside, and the call ends and is recorded: the next one finds nothing interrupted.
func TestAReaderOfARunGoesAway(t *testing.T) {
	for _, backend := range []string{"auto", "landlock"} {
		for name, line := range map[string]string{
			"a signal":   "while :; do echo y; done",
			"an error":   "trap '' PIPE; while echo y; do :; done; exit 141",
			"in stderr":  "exec >&2; while :; do echo y; done",
			"afterwards": "echo y; while :; do echo y; done; :",
		} {
			h := newHost(t)
			cmd := h.command("run", "--backend", backend, "--config", "../sandgate.yaml", "--", "sh", "-c", line)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout, cmd.Stderr = w, w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			w.Close()
			if _, err := r.Read(make([]byte, 2)); err != nil {
				t.Error(err)
			}
			r.Close()
			var ended *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 141 {
				t.Errorf("%s, %s: %v, want status 141", backend, name, err)
			}
			next, err := h.command("run", "--backend", backend, "--config", "../sandgate.yaml", "--", "echo", "next").CombinedOutput()
			if err != nil || string(next) != "next\n" {
				t.Errorf("%s, %s: the next call: %v %q", backend, name, err, next)
			}
		}
	}
}

// TestOutputThatCannotBeWritten: a full disk is no success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	h := newHost(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for status, to := range map[int]*os.File{0: nil, 141: full} {
		cmd := h.command("run", "--config", "../sandgate.yaml", "--", "sh", "-c", "while [ $((n += 1)) -lt 99999 ]; do echo y; done")
		if to != nil {
			cmd.Stdout = to
		}
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != status {
			t.Errorf("%v, want status %d", err, status)
		}
	}
}
