package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
)

// TestARefusedPathOnATerminal: what a call was refused is one question that names it, for the
// command of a runtime's hook too, in the plain prompt and on the screen, and a yes there runs
// it once more with that.
func TestARefusedPathOnATerminal(t *testing.T) {
	b := prepareMCPBench(t, mcpConfig)
	b.start()
	b.ready()
	outside := filepath.Join(b.dir, "outside")
	if err := os.WriteFile(outside, []byte("from outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	approvers := func(n int) {
		b.eventually("approvers are there", func() bool {
			p, err := client.DialApprover(t.Context(), b.operator)
			if err != nil {
				return false
			}
			defer p.Close()
			st, err := p.Status(t.Context())
			return err == nil && st.Approvers == n
		})
	}
	want := "Run again, and let it read " + outside

	var seen bytes.Buffer
	plain := b.command("approve", "--plain", "--operator-socket", b.operator)
	plain.Stdin, plain.Stdout, plain.Stderr = strings.NewReader("y\n"), &seen, &seen
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	approvers(1)
	hook := b.command("hook", "claude-code", "--socket", b.agent)
	hook.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":"s-1","cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%q}}`,
		filepath.Join(b.dir, "ws"), "cat "+outside))
	said, err := hook.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	var h struct {
		HookSpecificOutput struct{ UpdatedInput struct{ Command string } }
	}
	if err := json.Unmarshal(said, &h); err != nil || h.HookSpecificOutput.UpdatedInput.Command == "" {
		t.Fatalf("%v: %s", err, said)
	}
	rewritten := exec.Command("bash", "-c", h.HookSpecificOutput.UpdatedInput.Command)
	rewritten.Env, rewritten.Dir = b.env, filepath.Join(b.dir, "ws")
	out, err := rewritten.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "from outside") {
		t.Errorf("%v: %s", err, out)
	}
	if err := plain.Wait(); err != nil || !strings.Contains(strings.ReplaceAll(seen.String(), "\n", " "), want) {
		t.Errorf("%v: no %q in %s", err, want, &seen)
	}

	x := newTerminal(t, "xterm")
	approvers(0)
	ended := make(chan int, 1)
	go func() {
		ended <- execute(newApp(x.slave, x.slave, x.slave), []string{"approve", "--operator-socket", b.operator})
	}()
	approvers(1)
	result := make(chan string, 1)
	go func() {
		out, err := b.command("call", "--socket", b.agent, "shell", "command=cat "+outside).CombinedOutput()
		result <- fmt.Sprint(string(out), err)
	}()
	x.see("was refused to read")
	time.Sleep(aMoment)
	x.press("y")
	if got := <-result; !strings.Contains(got, "from outside") {
		t.Errorf("on the screen: %s", got)
	}
	x.quit(ended)
}
