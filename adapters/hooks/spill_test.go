package hooks

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/internal/ownfile"
	"github.com/sandgate/sandgate/protocol"
)

// TestSpills: a model can read what its runtime has put aside for it, and nothing else
// for that. What is not left to the runtime is decided about, and denied here.
func TestSpills(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// The directories above it are those of the machine that the test runs on.
	alone := func(path string) bool { return ownfile.AloneBelow(dir, path) }
	tasks := dir + "/tmp/claude"
	for _, file := range []string{
		dir + "/h/.claude/projects/p/s1/tool-results/b1.txt", dir + "/h/.claude/projects/q/s2/tool-results/b1.txt",
		dir + "/h/.claude/projects/p/s1.jsonl", dir + "/h/.claude/settings.json", dir + "/h/.ssh/id",
		dir + "/open/projects/p/s1/tool-results/b1.txt",
		tasks + "/p/tasks/t1.output", tasks + "/p/s1/tasks/t1.output", tasks + "/q/tasks/t1.output",
		dir + "/h/.gemini/tmp/p/tool-outputs/s1/out.txt", dir + "/h/.gemini/tmp/p/chats/c.json",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		dir + "/h/.claude/projects/p/s1/tool-results/link.txt": dir + "/h/.ssh/id",
		tasks + "/p/tasks/ssh":                                 dir + "/h/.ssh",
	} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir+"/open", 0o777); err != nil { // no sticky bit: anybody can put another directory there
		t.Fatal(err)
	}
	claude, gemini := dir+"/h/.claude/projects/p/s1.jsonl", dir+"/h/.gemini/tmp/p/chats/c.json"
	for _, x := range []struct {
		runtime, transcript, tool, path string
		writable                        protocol.CheckDecision
		want                            Verdict
	}{
		{"claude-code", claude, "Read", dir + "/h/.claude/projects/p/s1/tool-results/b1.txt", "", Abstain},
		{"claude-code", claude, "Read", tasks + "/p/tasks/t1.output", "", Abstain},
		{"claude-code", claude, "Read", tasks + "/p/s1/tasks/t1.output", "", Abstain},
		{"claude-code", claude, "Read", dir + "/h/.claude/projects/q/s2/tool-results/b1.txt", "", Deny}, // of another project
		{"claude-code", claude, "Read", tasks + "/q/tasks/t1.output", "", Deny},
		{"claude-code", claude, "Read", dir + "/h/.claude/projects/p/s1.jsonl", "", Deny},
		{"claude-code", claude, "Read", dir + "/h/.claude/settings.json", "", Deny},
		{"claude-code", claude, "Read", dir + "/h/.claude/projects/p/s1/tool-results/link.txt", "", Deny},
		{"claude-code", claude, "Read", tasks + "/p/tasks/ssh/id", "", Deny},
		{"claude-code", claude, "Read", tasks + "/p/tasks", "", Deny},
		{"claude-code", claude, "Write", tasks + "/p/tasks/t1.output", "", Deny},
		{"claude-code", claude, "Read", tasks + "/p/tasks/t1.output", protocol.CheckAllow, Deny}, // a tool may write there
		{"claude-code", claude, "Read", tasks + "/p/tasks/t1.output", protocol.CheckAsk, Deny},
		{"claude-code", dir + "/open/projects/p/s1.jsonl", "Read", dir + "/open/projects/p/s1/tool-results/b1.txt", "", Deny},
		{"claude-code", "", "Read", tasks + "/p/tasks/t1.output", "", Deny},
		{"gemini-cli", gemini, "read_file", dir + "/h/.gemini/tmp/p/tool-outputs/s1/out.txt", "", Abstain},
		{"gemini-cli", gemini, "read_file", gemini, "", Deny},
		{"codex", claude, "Read", tasks + "/p/tasks/t1.output", "", Deny},
	} {
		session := told{writable: x.writable, decide: protocol.Errorf(protocol.CodeBlocked, "outside the paths that tools may read")}
		if x.writable == "" {
			session.writable = protocol.CheckDeny
		}
		runtime := Runtimes()[x.runtime]
		h := Hook{Runtime: runtime, Program: "/usr/bin/sandgate", Scratch: tasks, Alone: alone, Open: func(context.Context, string) (Session, error) {
			return &programOutOfReach{&session}, nil
		}}
		event, err := json.Marshal(map[string]any{
			"session_id": "s1", "cwd": dir, "hook_event_name": runtime.before, "transcript_path": x.transcript,
			"tool_name": x.tool, "tool_input": map[string]any{"file_path": x.path, "content": ""},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Answer(t.Context(), event); got.Verdict != x.want || got.Broken {
			t.Errorf("%s: %s %s: %+v, want %v", x.runtime, x.tool, x.path, got, x.want)
		}
	}
}

// programOutOfReach is a session in which no tool may write to the hook's own program.
type programOutOfReach struct {
	*told
}

func (s *programOutOfReach) Check(ctx context.Context, tool protocol.ToolName, args any, opts ...client.CallOption) (protocol.CheckResult, error) {
	if path := args.(map[string]any)["path"]; path == "/usr/bin/sandgate.new" {
		return protocol.CheckResult{Decision: protocol.CheckDeny}, nil
	}
	return s.told.Check(ctx, tool, args, opts...)
}
