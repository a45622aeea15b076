package mcphost

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/mcpconn"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/mcp"
)

// TestDrift: a call is made of the process, and by the definition, that was approved.
func TestDrift(t *testing.T) {
	server := mcp.New(mcp.Config{Name: "s", Default: tools.Ask})
	var raw []json.RawMessage
	for _, name := range []string{"write", "home"} {
		raw = append(raw, json.RawMessage(`{"name": "`+name+`", "description": "of `+name+`", "inputSchema": {"type": "object"}}`))
	}
	offered := server.Offered(mcp.Process{Approved: func(string) string { return "" }}, raw)
	if len(offered) != 2 {
		t.Fatal(offered)
	}
	p := &Process{server: server, digest: "one", over: make(chan struct{}), conn: mcpconn.New(nil, neverRead{make(chan struct{})}, mcpconn.Limits{}, nil), byKey: map[string]*mcp.Tool{"write": offered[0], "home": offered[1]}}
	l := &Processes{slots: map[string]*slot{"s": {process: p}}}
	op := tools.MCPCall{Server: "s", Tool: "write", Process: "one", Definition: offered[0].Digest()}
	if err := l.Drift(t.Context(), op); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*tools.MCPCall){
		"another process":    func(op *tools.MCPCall) { op.Process = "two" },
		"another server":     func(op *tools.MCPCall) { op.Server = "r" },
		"no such tool":       func(op *tools.MCPCall) { op.Tool = "read" },
		"another definition": func(op *tools.MCPCall) { op.Definition = offered[1].Digest() },
	} {
		other := op
		change(&other)
		if l.Drift(t.Context(), other) == nil {
			t.Error(name + " is no drift")
		}
	}
	p.byKey["write"] = offered[1]
	if l.Drift(t.Context(), op) == nil {
		t.Error("a definition that the server has changed since is no drift")
	}
}

// neverRead is a server that says nothing.
type neverRead struct{ c chan struct{} }

func (n neverRead) Read([]byte) (int, error) { <-n.c; return 0, nil }

// TestContentIsCutToItsLimit: what a server answers beyond the limit is left out, and said.
func TestContentIsCutToItsLimit(t *testing.T) {
	list, truncated := contentOfItems([]mcpconn.Item{{Text: "aaäa"}, {Blob: make([]byte, 10)}}, 3)
	if !truncated || len(list) != 2 || list[0].Text != "aa" || list[1].Omitted != 13 {
		t.Errorf("%+v, %v", list, truncated)
	}
	if list, truncated = contentOfItems([]mcpconn.Item{{Text: "aaäa"}}, sandboxprofile.Unlimited); truncated || len(list) != 1 {
		t.Errorf("%+v, %v", list, truncated)
	}
}
