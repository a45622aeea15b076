package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/mcphost"
)

// launch carries out the calls that the MCP servers of a session are.
func (s *Supervisor) launch(x *session) mcphost.Launch {
	return func(ctx context.Context, p *mcphost.Process, n int) (confine.Result, error) {
		name := p.Server().ProcessName()
		req := protocol.ToolsCall{SessionID: x.id, CallID: protocol.CallID(fmt.Sprintf("%s.%d", name, n)), Tool: protocol.ToolName(name)}
		began := false
		notice := func(_ protocol.Method, params any) {
			if state, ok := params.(protocol.ToolState); ok && state.State == protocol.Running {
				began = true
				p.Started()
			}
		}
		k := &ofServer{process: p}
		r, err := s.carryOut(ctx, nil, k, x.peer, req, notice)
		if err == nil && !began && len(r.Content) > 0 {
			err = errors.New(strings.TrimPrefix(strings.TrimSpace(r.Content[0].Text), "sandgate: ")) // its program was not found
		}
		return k.ended, err
	}
}
