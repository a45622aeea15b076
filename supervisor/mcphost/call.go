package mcphost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/mcpconn"
	"github.com/sandgate/sandgate/tools"
)

// Tools is where the tools are found that the server has listed.
func (p *Process) Tools() *tools.Registry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named
}

// Enforced says how the process is confined.
func (p *Process) Enforced() confine.Enforced { return p.enforced }

// lookEvery is how long a server is left alone between two looks at what it does. A look
// that takes long is made less often.
const lookEvery = time.Second

// watch looks at the process between its calls: it stays for as long as its session does, and
// needs no call to leave something where a program of the user's would run it. One that does is
// ended, so that it fills no quarantine.
func (p *Process) watch() {
	next := time.NewTimer(lookEvery)
	defer next.Stop()
	for {
		select {
		case <-p.over:
			return
		case <-next.C:
		}
		began := time.Now()
		if err := p.lookBetween(false); err != nil {
			p.stop(err)
			return
		}
		next.Reset(max(lookEvery, 50*time.Since(began)))
	}
}

func (p *Process) lookBetween(begins bool) error {
	p.mu.Lock()
	calls, told := p.calls, p.told
	p.mu.Unlock()
	if calls > 0 || p.look == nil {
		return nil // its end looks
	}
	all, err := p.look(begins)
	if err == nil && len(all) > told {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.calls == 0 && p.told == told {
			err = fmt.Errorf("%s was made between its calls", all[told].Path)
		}
	}
	return err
}

// called counts a call, until end is called.
func (p *Process) called() (end func()) {
	count := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls += n
	}
	count(1)
	return func() { count(-1) }
}

// Left gives what the process, and the one before it, have left where a program of the user's would run or follow it,
// since this was last asked. A process that cannot be held to its profile any more is ended.
func (p *Process) Left() (left []confine.Planted, err error) {
	if p.look == nil {
		return nil, nil
	}
	all, err := p.ended.Planted, error(nil)
	if !isClosed(p.over) {
		all, err = p.look(false)
	}
	p.mu.Lock()
	left = slices.Concat(p.unsaid, all[min(p.told, len(all)):])
	p.told, p.unsaid = len(all), nil
	p.mu.Unlock()
	if err != nil {
		err = p.End(err)
	}
	return left, err
}

// Drift returns why a planned call is not the one that could be made now: the process and the
// definition must be those that were approved. nil means that nothing changed. A server that has said
// since that its tools are others is asked for them again: a person may have taken hours to answer.
func (l *Processes) Drift(ctx context.Context, op tools.MCPCall) error {
	p := l.Running(op.Server)
	if p != nil && p.Changed() {
		var err error
		if p, err = l.Ready(ctx, p.server); err != nil {
			return err
		}
	}
	if p == nil || p.digest != op.Process {
		return fmt.Errorf("the MCP server %s is not the one that was to be called", op.Server)
	}
	if t := p.tool(op.Tool); t == nil || t.Digest() != op.Definition {
		return fmt.Errorf("the MCP server %s now describes %s otherwise", op.Server, op.Tool)
	}
	return nil
}

// An Answer is the result of a call.
type Answer struct {
	Content    []protocol.Content
	Structured json.RawMessage
	IsError    bool
	Truncated  bool
}

// Call makes a call that was let through, within its time, and gives as much of the answer
// as limits let through.
//
// What the server has left by then (Left) is given with an error, too.
func (p *Process) Call(ctx context.Context, op tools.MCPCall, limits sandboxprofile.Limits) (a Answer, left []confine.Planted, err error) {
	defer p.called()()
	a, err = p.call(ctx, op, limits)
	left, unheld := p.Left()
	if err == nil {
		err = unheld
	}
	return a, left, err
}

func (p *Process) call(ctx context.Context, op tools.MCPCall, limits sandboxprofile.Limits) (Answer, error) {
	if err := p.cfg.Approved.Put(p.known(), op.Tool, op.Definition); err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Wall, errCallWall)
	defer cancel()
	r, err := p.conn.Call(ctx, op.Tool, op.Args)
	var refused *mcpconn.ServerError
	switch {
	case err == nil:
	case errors.As(err, &refused):
		r = mcpconn.Result{IsError: true, Content: []mcpconn.Item{{Text: refused.Error()}}}
	case errors.Is(err, errCallWall):
		// It may still be at work, and may never listen again.
		_ = p.End(errCallWall)
		return Answer{}, protocol.Errorf(protocol.CodeTimedOut, "the MCP server %s did not answer within %v, and was ended", p.server.Name, limits.Wall).
			WithHint("ask for less at a time; the next call starts the server again")
	case p.cfg.Cancelled(err):
		return Answer{}, err
	default:
		return Answer{}, p.End(err)
	}
	a := Answer{Structured: r.Structured, IsError: r.IsError}
	a.Content, a.Truncated = contentOfItems(r.Content, limits.Output)
	if int64(len(r.Structured)) > limits.Output {
		a.Structured, a.Truncated = nil, true
	}
	return a, nil
}

// contentOfItems is as much of a result as the limit lets through.
func contentOfItems(items []mcpconn.Item, limit int64) (list []protocol.Content, truncated bool) {
	list = []protocol.Content{}
	left := min(limit, sandboxprofile.Unlimited)
	var omitted int64
	for _, i := range items {
		c := protocol.Content{Type: protocol.ContentText, Text: i.Text, MIMEType: i.MIMEType}
		size := int64(len(i.Text))
		if i.Blob != nil {
			c, size = protocol.Content{Type: protocol.ContentBlob, Blob: i.Blob, MIMEType: i.MIMEType}, int64(len(i.Blob))
		}
		if size > left {
			if i.Blob != nil {
				omitted += size
				continue
			}
			keep := left
			for keep > 0 && !utf8.RuneStart(i.Text[keep]) {
				keep--
			}
			omitted, c.Text, size = omitted+size-keep, i.Text[:keep], keep
		}
		left -= size
		if size > 0 || omitted == 0 {
			list = append(list, c)
		}
	}
	if omitted == 0 {
		return list, false
	}
	return append(list, protocol.Content{
		Type: protocol.ContentText, Omitted: omitted, Text: fmt.Sprintf("\n[sandgate: %d bytes are left out here]\n", omitted),
	}), true
}

// List lists what the servers of the session offer, each started if it does not run. One
// that fails has its error in failed, and does not keep the others away.
func (l *Processes) List(ctx context.Context) (list []protocol.Tool, failed []error) {
	servers := l.cfg.Servers
	offered, errs := make([][]protocol.Tool, len(servers)), make([]error, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			p, err := l.Ready(ctx, server)
			if err != nil {
				errs[i] = err
				return
			}
			offered[i] = p.offered()
		})
	}
	wg.Wait()
	return slices.Concat(offered...), slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// offered are the tools as the server last listed them.
func (p *Process) offered() (list []protocol.Tool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.tools {
		d := t.Definition()
		list = append(list, protocol.Tool{
			Name: protocol.ToolName(d.Name), Description: d.Description, InputSchema: d.InputSchema,
			Annotations: d.Annotations, Unavailable: t.Unavailable(),
			Origin: &protocol.Origin{Server: p.server.Name, Tool: t.Own()},
		})
	}
	return list
}
