package assemble_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// TestNothingRunsUnaskedThatCannotBeUndone: a call can leave more than is recorded. Those after it that would run only
// because they can be undone need an approval then, commands and file tools; they run without one otherwise, and where
// the person has allowed them.
func TestNothingRunsUnaskedThatCannotBeUndone(t *testing.T) {
	const byPolicy = "policy: balanced\nundo: {enabled: true, size: 1MiB, file: 64KiB}\n"
	const byWord = byPolicy + "shell: {default: {allowed: true, approval: false}}\nsandbox: {paths: {workspace: {root: workspace, mode: rw, write_approval: false}}}\n"
	for name, c := range map[string]struct {
		config string
		broken bool // the place of the records, and not by a call
		asked  bool
	}{
		"by policy": {byPolicy, false, true}, "by the person's word": {byWord, false, false},
		"by policy, no records": {byPolicy, true, true}, "by the person's word, no records": {byWord, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"} {
				t.Setenv(key, filepath.Join(dir, key))
			}
			ws, file := filepath.Join(dir, "workspace"), filepath.Join(dir, "sandgate.yaml")
			text := "version: 1\n" + c.config
			if !strings.Contains(text, "sandbox:") {
				text += "sandbox: {paths: {workspace: {root: workspace, mode: rw}}}\n"
			}
			for _, d := range []string{ws, filepath.Join(dir, "HOME"), filepath.Join(dir, "XDG_STATE_HOME")} {
				if err := os.Mkdir(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{file: text, ws + "/work": "a person's", ws + "/more": "a person's", ws + "/text": "a"} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env, err := assemble.Env()
			if err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(file, env)
			if err != nil {
				t.Fatal(err)
			}
			r, err := assemble.Start(cfg, assemble.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			peer := unixsock.Peer{UID: os.Getuid()}
			s, err := r.OpenSession(peer, protocol.SessionOpen{Agent: "test", Mode: "strict"})
			if err != nil {
				t.Fatal(err)
			}
			call := func(tool, args string) error {
				res, err := r.Call(context.Background(), peer, protocol.ToolsCall{SessionID: s.SessionID, CallID: "c", Tool: protocol.ToolName(tool), Args: json.RawMessage(args)}, nil)
				if err == nil && res.ExitCode != 0 {
					t.Errorf("%s: %+v", args, res)
				}
				return err
			}
			fill := "head -c 3000000 /dev/urandom | split -b 50000 - f"
			if c.broken {
				fill = "true"
			}
			if err := call("shell", fmt.Sprintf(`{"command": "echo 1 > ok; %s"}`, fill)); err != nil {
				t.Fatal(err)
			}
			if c.broken {
				l, _ := filepath.Glob(dir + "/XDG_STATE_HOME/sandgate/changes/*/running")
				if len(l) != 1 {
					t.Fatalf("%q", l)
				}
				if err := os.Remove(l[0]); err != nil {
					t.Fatal(err)
				}
			}
			for tool, args := range map[string]string{
				"shell": `{"command": "rm work"}`, "write_file": `{"path": "more", "content": ""}`, "edit_file": `{"path": "text", "old_string": "a", "new_string": "b"}`,
			} {
				err := call(tool, args)
				if (err != nil) != c.asked {
					t.Errorf("%s: %v", tool, err)
				}
			}
			if _, err := os.Stat(ws + "/work"); (err == nil) != c.asked {
				t.Errorf("a person's file: %v", err)
			}
		})
	}
}
