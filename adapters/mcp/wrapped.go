package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// Wrapped is Supervisor for a client that takes us for one MCP server: it sees the
// tools of that one alone, under the names that the server gives them.
func Wrapped(path, agent, version, server string) Backend {
	return &wrapped{remote: remote{client.Reconnecting{
		Path: path, Open: protocol.SessionOpen{Agent: agent},
		Options: []client.Option{client.WithProgram("sandgate mcp wrap", version)},
	}}, server: server}
}

type wrapped struct {
	remote
	server string

	mu    sync.Mutex
	names map[protocol.ToolName]protocol.ToolName // the supervisor's, by the server's
}

// Tools implements Backend. A server that cannot be asked is an error: there is no
// other whose tools could be listed.
func (w *wrapped) Tools(ctx context.Context) ([]protocol.Tool, error) {
	s, err := w.Session(ctx)
	if err != nil {
		return nil, err
	}
	all, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(all.Warnings) > 0 {
		return nil, errors.New(strings.Join(all.Warnings, "; "))
	}
	var list []protocol.Tool
	names := map[protocol.ToolName]protocol.ToolName{}
	for _, t := range all.Tools {
		if t.Origin != nil && t.Origin.Server == w.server {
			own := protocol.ToolName(t.Origin.Tool)
			names[own], t.Name = t.Name, own
			list = append(list, t)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names = names
	return list, nil
}

// Call implements Backend. A name that the server has not listed does not exist:
// the supervisor's other tools are not within reach.
func (w *wrapped) Call(ctx context.Context, tool protocol.ToolName, args json.RawMessage, watch Watch) (protocol.CallResult, error) {
	name, ok := w.name(tool)
	if !ok {
		if _, err := w.Tools(ctx); err != nil {
			return protocol.CallResult{}, err
		}
		if name, ok = w.name(tool); !ok {
			return protocol.CallResult{}, protocol.Errorf(protocol.CodeUnknownTool, "the server has no tool %.64q", tool)
		}
	}
	return w.remote.Call(ctx, name, args, watch)
}

func (w *wrapped) name(own protocol.ToolName) (protocol.ToolName, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, ok := w.names[own]
	return name, ok
}
