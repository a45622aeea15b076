package mcp

import (
	"context"
	"encoding/json"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// Supervisor is the backend for the agent socket at path; "" is the user's own
// supervisor. It connects at the first request, and again when the supervisor was
// restarted: the session is then a new one.
func Supervisor(path string, open protocol.SessionOpen, version string) Backend {
	return &remote{client.Reconnecting{
		Path: path, Open: open,
		Options: []client.Option{client.WithProgram("sandgate mcp serve", version)},
	}}
}

type remote struct{ client.Reconnecting }

func (r *remote) Tools(ctx context.Context) ([]protocol.Tool, error) {
	s, err := r.Session(ctx)
	if err != nil {
		return nil, err
	}
	return s.Tools(ctx)
}

func (r *remote) SessionID(ctx context.Context) (protocol.SessionID, error) {
	s, err := r.Session(ctx)
	if err != nil {
		return "", err
	}
	return s.SessionID, nil
}

func (r *remote) Call(ctx context.Context, tool protocol.ToolName, args json.RawMessage, w Watch) (protocol.CallResult, error) {
	opts := []client.CallOption{client.OneStream()} // a model reads one text
	if w.Call != "" {
		opts = append(opts, client.WithCallID(w.Call))
	}
	if w.Output != nil {
		opts = append(opts, client.OnOutput(w.Output))
	}
	if w.State != nil {
		opts = append(opts, client.OnState(w.State))
	}
	return r.Reconnecting.Call(ctx, tool, args, opts...)
}
