package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdHook has the hook rewrite a command, and runs in bash what comes of it.
func cmdHook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: hook RUNTIME FILE ARG... | hook arrives N")
	}
	if args[0] == "arrives" {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		arrives(ts, n)
		return
	}
	got := runRewritten(ts, args[0], []byte(ts.ReadFile(args[1])), args[2:]...)
	want := ts.ReadFile(args[1] + ".out")
	if got != want {
		ts.Fatalf("the command wrote\n%s\nwant\n%s", got, want)
	}
}

// runRewritten gives the standard output of the rewritten command.
func runRewritten(ts *testscript.TestScript, runtime string, event []byte, flags ...string) string {
	file := ts.MkAbs("event.json")
	ts.Check(os.WriteFile(file, event, 0o600))
	ts.Check(ts.Exec("bash", append([]string{"-c", `sandgate hook "$@" < event.json`, "hook", runtime}, flags...)...))
	var answer struct {
		Specific struct {
			Updated struct{ Command string } `json:"updatedInput"`
			Merged  struct{ Command string } `json:"tool_input"`
		} `json:"hookSpecificOutput"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &answer))
	command := answer.Specific.Updated.Command + answer.Specific.Merged.Command
	if command == "" {
		ts.Fatalf("the hook rewrote nothing: %s", ts.ReadFile("stdout"))
	}
	_ = ts.Exec("bash", "-c", command) // its status is the command's
	return ts.ReadFile("stdout")
}

// arrives runs commands that print what bash was given to run, inside the sandbox: what the
// model wrote has to come out, byte for byte.
func arrives(ts *testscript.TestScript, n int) {
	pieces := []string{`'`, `''`, `"`, `\`, "`", "$(id)", "${x}", "!", "*", "~", "\n", "\r", "\t", " ", "é", "\u202e", "\U0001F980", "\x01", "\x7f", "#", "--", "=", ";", "&", "|", "<", ">"}
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		var text strings.Builder
		for range 1 + random.IntN(40) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		command := "printf %s \"$BASH_EXECUTION_STRING\"; : <<'E_N_D'\n" + text.String() + "\nE_N_D\n"
		event, err := json.Marshal(map[string]any{
			"hook_event_name": "PreToolUse", "session_id": "s", "cwd": ts.MkAbs("."), "tool_name": "Bash", "tool_input": map[string]any{"command": command},
		})
		ts.Check(err)
		if got := runRewritten(ts, "claude-code", event); got != command {
			ts.Fatalf("of\n%q arrived\n%q", command, got)
		}
	}
}
