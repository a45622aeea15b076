package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
		if ran := ranIn(t, got.Input); got.Verdict != Allow || !strings.HasSuffix(ran, " 'bash' '--norc' '--noprofile' '-c' '--' "+CommandLine([]string{x.command})) {
			t.Errorf("%s %q%s: %+v, runs %s", x.runtime.Name, x.command, x.input, got, ran)
		}
		if got.Verdict != Allow || k.args["dir"] != x.dir || k.args["command"] != x.command {
			t.Errorf("%s %q%s: %+v, decided %v", x.runtime.Name, x.command, x.input, got, k.args)
		}
	}
}

// ranIn is the command in an input.
func ranIn(t *testing.T, input json.RawMessage) string {
	t.Helper()
	var in struct{ Command string }
	if err := json.Unmarshal(input, &in); err != nil {
		t.Fatalf("%s: %v", input, err)
	}
	return in.Command
}

// TestBashReadsWhatWasDecidedForBash: whichever shell the runtime has, what bash takes for data is none of
// its orders. The twin is the same line as it was: each of these shells there runs what stands in it.
func TestBashReadsWhatWasDecidedForBash(t *testing.T) {
	tried := 0
	for _, x := range []struct {
		shell []string
		line  string
	}{
		{[]string{"zsh", "-fc"}, "true; exit 'path[$(touch made)]'"},
		{[]string{"zsh", "-fc"}, "shift 'path[$(touch made)]'"},
		{[]string{"ksh", "-c"}, "exit 'a[$(touch made)]'"},
		{[]string{"mksh", "-c"}, "exit 'a[$(touch made)]'"},
		{[]string{"sh", "-c"}, "test '[[' = '[[' && [[ -e / ]] || touch made"}, // dash has no [[
		{[]string{"sh", "-c"}, `echo '\0143' | grep -q c && touch made; :`},    // dash's echo expands
	} {
		if _, err := exec.LookPath(x.shell[0]); err != nil {
			continue
		}
		k := &keeper{told: told{writable: protocol.CheckDeny}}
		h := Hook{Runtime: claudeCode(), Program: "/usr/bin/sandgate", Open: func(context.Context, string) (Session, error) { return k, nil }}
		line, err := json.Marshal(x.line)
		if err != nil {
			t.Fatal(err)
		}
		got := h.Answer(t.Context(), fmt.Appendf(nil, `{"cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":%s}}`, line))
		makes := func(line string) bool {
			dir := t.TempDir()
			c := exec.Command(x.shell[0], append(x.shell[1:len(x.shell):len(x.shell)], line)...)
			c.Dir = dir
			out, _ := c.CombinedOutput()
			_, err := os.Lstat(filepath.Join(dir, "made"))
			t.Logf("%q: %s", line, out)
			return err == nil
		}
		if makes(ranIn(t, got.Input)) {
			t.Errorf("%v: %q makes a file as it is run", x.shell, x.line)
		}
		if makes(x.line) {
			tried++
		}
	}
	if tried == 0 {
		t.Error("no shell here reads a line in another way than bash")
	}
}

// TestNobodyEditsForARuntime: an editor that git opens would read its orders from the line's input.
func TestNobodyEditsForARuntime(t *testing.T) {
	k := &keeper{told: told{writable: protocol.CheckDeny}}
	h := Hook{Runtime: claudeCode(), Program: "/usr/bin/sandgate", Open: func(context.Context, string) (Session, error) { return k, nil }}
	got := h.Answer(t.Context(), []byte(`{"cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo $(git var GIT_EDITOR) $EDITOR $VISUAL $PAGER"}}`))
	for _, x := range []struct{ line, want string }{{ranIn(t, got.Input), ": false false cat"}, {k.args["command"].(string), "orders orders orders orders"}} {
		c := exec.Command("bash", "-c", x.line)
		c.Env = append(os.Environ(), "GIT_EDITOR=orders", "EDITOR=orders", "VISUAL=orders", "PAGER=orders")
		if out, err := c.Output(); err != nil || strings.TrimSpace(string(out)) != x.want {
			t.Errorf("%s: %q, %v, want %q", x.line, out, err, x.want)
		}
	}
}
