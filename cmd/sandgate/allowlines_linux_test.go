package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/profiles"
)

// TestAllowLinesAllow follows the line of the configuration that a supervisor's client is told
// with a refusal: with it the same command works.
func TestAllowLinesAllow(t *testing.T) {
	if ok, err := scriptCondition("sandbox"); err != nil || !ok {
		t.Skip("this host cannot build a bubblewrap sandbox", err)
	}
	dir := outside(t)
	if err := os.Mkdir(filepath.Join(dir, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "below/x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("data\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	other := "sandbox: {paths: {other: {root: " + dir + ", mode: ro}}}"
	for _, c := range []struct{ name, base, command, want, more string }{
		{"a file to read", "", "cat " + dir + "/x", "sandbox.paths.extra", ""},
		{"a directory to read", "", "ls " + dir, "sandbox.paths.extra", ""},
		{"a file to write", other, `python3 -c 'open("` + dir + `/below/x", "a")'`, "sandbox.paths.extra", ""},
		{"a new file", other, `python3 -c 'open("` + dir + `/below/new", "w")'`, "sandbox.paths.extra", ""},
		{"a hidden file", "", "cat .env", "sandbox.hide", ""},
		{"a protected file", "", `python3 -c 'open(".git/hooks/pre-commit", "w")'`, "sandbox.protect", ""},
		{"a tracer", "", "strace -o /dev/null true", "sandbox.debug", ""},
		{"open files", "sandbox: {limits: {open_files: 40}}", `python3 -c 'l = [open("/dev/null") for i in range(60)]'`, "sandbox.limits.open_files", ""},
		{"time", "sandbox: {limits: {timeout: 1s}}", "sleep 1.3", "sandbox.limits.timeout", "60s"},
		{"processor time", "sandbox: {limits: {cpu: 1s}}", "python3 -c 'import time\nwhile time.process_time() < 1.5: pass'", "sandbox.limits.cpu", "60s"},
		{"memory", "sandbox: {limits: {memory: 128MiB}}", `python3 -c 'len(b"x" * (150 << 20))'`, "sandbox.limits.memory", "1GiB"},
		{"processes", "sandbox: {limits: {pids: 20}}", "for i in $(seq 25); do sleep 1 & done; wait", "sandbox.limits.pids", "300"},
		{"size of a file", "sandbox: {limits: {file_size: 1MiB}}", "exec head -c 1500000 /dev/zero >big", "sandbox.limits.file_size", "4MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			home, ws := t.TempDir(), t.TempDir()
			for _, d := range []string{".git/hooks", ".git/objects", ".git/refs"} {
				if err := os.MkdirAll(filepath.Join(ws, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "", ".env": "TOKEN=x\n"} {
				if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			said, status := served(t, home, ws, c.base, c.command)
			if status == 0 {
				t.Fatalf("it works at once: %s", said)
			}
			cfg := map[string]any{}
			if err := yaml.Unmarshal([]byte(c.base), &cfg); err != nil {
				t.Fatal(err)
			}
			if c.more != "" { // the hint names what to set, and not to what
				if !strings.Contains(said, strings.TrimPrefix(c.want, "sandbox.")) {
					t.Errorf("%s is not named in %s", c.want, said)
				}
				follow(t, cfg, c.want+": "+c.more)
			} else if line := regexp.MustCompile(`(?m)to allow it: (.*)$`).FindStringSubmatch(said); line == nil || !strings.HasPrefix(line[1], c.want+": ") {
				t.Fatalf("no line for %s in %s", c.want, said)
			} else {
				follow(t, cfg, line[1])
			}
			text, err := yaml.Marshal(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if said, status := served(t, home, ws, string(text), c.command); status != 0 {
				t.Errorf("status %d with\n%s%s", status, text, said)
			}
		})
	}
}

// served has a supervisor of its own run a command, and gives what was said.
func served(t *testing.T, home, ws, config, command string) (string, int) {
	t.Helper()
	file := filepath.Join(home, "sandgate.yaml")
	if err := os.WriteFile(file, []byte("version: 1\n"+config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home+"/state", "XDG_CONFIG_HOME="+home+"/config", "XDG_RUNTIME_DIR="+home)
	sandgate := func(args ...string) *exec.Cmd {
		cmd := exec.Command("sandgate", args...)
		cmd.Dir, cmd.Env = ws, env
		return cmd
	}
	var log bytes.Buffer
	serve := sandgate("serve", "--approve-all", "--config", file)
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, &log)
		}
	}()
	socket := filepath.Join(home, "sandgate/agent.sock")
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no supervisor comes: %s", &log)
		}
	}
	out, err := sandgate("call", "shell", "command="+command).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if err != nil {
		return string(out), err.(*exec.ExitError).ExitCode()
	}
	return string(out), 0
}

// follow sets what a line says in a configuration.
func follow(t *testing.T, cfg map[string]any, line string) {
	t.Helper()
	key, value, _ := strings.Cut(line, ": ")
	names := strings.Split(key, ".")
	var set any
	if pattern, ok := strings.CutPrefix(value, "a list without "); ok {
		list := map[string][]string{"hide": profiles.Hide(), "protect": profiles.Protect()}[names[len(names)-1]]
		before := len(list)
		set = slices.DeleteFunc(list, func(p string) bool { return `"`+p+`"` == pattern })
		if len(set.([]string)) != before-1 {
			t.Errorf("%s is not in the list", pattern)
		}
	} else if err := yaml.Unmarshal([]byte(value), &set); err != nil {
		t.Fatal(err)
	}
	for _, name := range names[:len(names)-1] {
		below, _ := cfg[name].(map[string]any)
		if below == nil {
			below = map[string]any{}
			cfg[name] = below
		}
		cfg = below
	}
	cfg[names[len(names)-1]] = set
}
