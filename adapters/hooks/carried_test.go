package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// A keeper allows everything, and keeps what it was asked about.
type keeper struct {
	told
	args map[string]any
}

func (k *keeper) Decide(_ context.Context, d protocol.ToolsDecide) (protocol.ToolsDecided, error) {
	return protocol.ToolsDecided{}, json.Unmarshal(d.Args, &k.args)
}

// TestACommandRunsAsItWasDecided: where the runtime carries commands out itself, what is
// decided about is the line that it runs, where it runs it; what could be another is refused.
func TestACommandRunsAsItWasDecided(t *testing.T) {
	for _, x := range []struct {
		runtime *Runtime
		tool    string
		input   string // besides the command
		command string
		dir     string // "" is refused
	}{
		{gemini(), "run_shell_command", ``, "make test", "/w"},
		{gemini(), "run_shell_command", `,"dir_path":"/tmp/evil","description":"d"`, "make test", "/tmp/evil"},
		{gemini(), "run_shell_command", `,"directory":"sub"`, "make test", "/w/sub"},
		{gemini(), "run_shell_command", `,"directory":"/a","dir_path":"/b"`, "make test", ""},
		{gemini(), "run_shell_command", `,"dir_path":"../x"`, "make test", ""},
		{gemini(), "run_shell_command", `,"shell":"zsh"`, "make test", ""},
		{gemini(), "run_shell_command", ``, "bash -c 'cat a' '; touch x '", ""},
		{gemini(), "run_shell_command", ``, " \t/any/BASH  -c 'cat a'", ""},
		{gemini(), "run_shell_command", ``, "zsh -c cat", ""},
		{gemini(), "run_shell_command", ``, "powershell.exe -NoProfile -Command x", ""},
		{gemini(), "run_shell_command", ``, "bash script.sh", "/w"},
		{claudeCode(), "Bash", `,"timeout":5,"run_in_background":true`, "bash -c 'cat a'", "/w"},
		{claudeCode(), "Bash", `,"cwd":"/tmp"`, "cat a", ""},
		{codex(), "Bash", `,"workdir":"/tmp/x"`, "cat a", "/tmp/x"},
		{codex(), "Bash", `,"shell":"fish"`, "cat a", ""},
	} {
		command, err := json.Marshal(x.command)
		if err != nil {
			t.Fatal(err)
		}
		k := &keeper{told: told{writable: protocol.CheckDeny}}
		h := Hook{Runtime: x.runtime, Program: "/usr/bin/sandgate", Open: func(context.Context, string) (Session, error) { return k, nil }}
		got := h.Answer(t.Context(), fmt.Appendf(nil, `{"session_id":"s","cwd":"/w","hook_event_name":%q,"tool_name":%q,"tool_input":{"command":%s%s}}`,
			x.runtime.before, x.tool, command, x.input))
		if x.dir == "" {
			if got.Verdict != Deny || got.Reason == "" || k.args != nil {
				t.Errorf("%s %q%s: %+v, decided %v", x.runtime.Name, x.command, x.input, got, k.args)
			}
			continue
		}
		if got.Verdict != Allow || k.args["dir"] != x.dir || k.args["command"] != x.command {
			t.Errorf("%s %q%s: %+v, decided %v", x.runtime.Name, x.command, x.input, got, k.args)
		}
	}
}
