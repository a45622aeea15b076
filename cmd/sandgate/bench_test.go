package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/config"
)

// The whole path of a call in this process, without the socket: for profiles of
// processor time and memory.

func BenchmarkCallReadFile(b *testing.B)  { benchmarkCall(b, "read_file", `{"path": "file"}`) }
func BenchmarkCallShellTrue(b *testing.B) { benchmarkCall(b, "shell", `{"command": "true"}`) }

func benchmarkCall(b *testing.B, tool, args string) {
	dir := b.TempDir()
	for name, content := range map[string]string{"sandgate.yaml": benchConfig, "workspace/file": "text", "log/.keep": ""} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	env, err := configEnv()
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Load(filepath.Join(dir, "sandgate.yaml"), env)
	if err != nil {
		b.Fatal(err)
	}
	r, err := build(cfg, buildOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	peer := unixsock.Peer{UID: os.Getuid()}
	s, err := r.OpenSession(peer, protocol.SessionOpen{Agent: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		_, err := r.Call(context.Background(), peer, protocol.ToolsCall{
			SessionID: s.SessionID, CallID: "c", Tool: protocol.ToolName(tool), Args: json.RawMessage(args),
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
}
