package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageCodexRunsTheHook: the real Codex is asked whether it runs the hook:
// not one that was only installed, and one that was trusted.
func TestPageCodexRunsTheHook(t *testing.T) {
	needsScreens(t)
	if _, err := exec.LookPath("codex"); err != nil {
		t.Fatal("no codex on the PATH: `make page` installs it")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CODEX_HOME", filepath.Join(home, ".codex"))
	dir := t.TempDir()
	sandgate := func(args ...string) (string, error) {
		cmd := exec.Command("sandgate", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if err := os.Mkdir(filepath.Join(home, ".codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := sandgate("hook", "codex", "--check"); err == nil || !strings.Contains(out, "sandgate's hook is not installed") {
		t.Errorf("without a hook: %v, %s", err, out)
	}
	if out, err := sandgate("hook", "codex", "--install", "--write"); err != nil {
		t.Fatal(err, out)
	}
	if out, err := sandgate("hook", "codex", "--check"); err == nil || !strings.Contains(out, "the hook is untrusted") {
		t.Errorf("installed: %v, %s", err, out)
	}
	// What Codex writes when a person trusts the hook on its screen.
	key, hash := codexHook(t, dir)
	state := fmt.Sprintf("[hooks.state.%q]\ntrusted_hash = %q\n", key, hash)
	if err := os.WriteFile(filepath.Join(home, ".codex", "config.toml"), []byte(state), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := sandgate("hook", "codex", "--check"); err != nil {
		t.Errorf("trusted: %v, %s", err, out)
	}
}

// codexHook is how Codex names its first hook, and what it says of its content.
func codexHook(t *testing.T, dir string) (key, hash string) {
	t.Helper()
	cmd := exec.Command("codex", "app-server")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	fmt.Fprintf(in, `{"id":0,"method":"initialize","params":{"clientInfo":{"name":"test","version":"1"}}}
{"method":"initialized"}
{"id":1,"method":"hooks/list","params":{"cwds":[%q]}}
`, dir)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var m struct {
			ID     int
			Result struct {
				Data []struct {
					Hooks []struct{ Key, CurrentHash string }
				}
			}
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID == 1 && len(m.Result.Data) == 1 && len(m.Result.Data[0].Hooks) == 1 {
			h := m.Result.Data[0].Hooks[0]
			return h.Key, h.CurrentHash
		}
	}
	t.Fatal("no answer of codex")
	return "", ""
}
