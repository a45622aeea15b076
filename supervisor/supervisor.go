package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/mcphost"
)

// New starts a supervisor and records that it did.
func New(cfg Config) (*Supervisor, error) {
	cfg.MCP = cfg.MCP.WithDefaults()
	cfg.MCP.Version, cfg.MCP.Cancelled = cfg.Version, failure.IsCancelled
	if cfg.Faults == nil {
		cfg.Faults = slog.New(slog.DiscardHandler)
	}
	s := &Supervisor{cfg: cfg, profiles: bounds.NewProfiles(), started: time.Now(),
		sessions: map[protocol.SessionID]*session{}, named: map[sessionName]*session{}, calls: map[int64]*call{}}
	s.enforced.Store(&cfg.Tried)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.unsubscribe = cfg.Approvals.Subscribe(s.endDeferred)
	data := map[string]any{
		"version": cfg.Version, "config": cfg.ConfigFile, "mode": cfg.Mode, "warnings": slices.Concat(cfg.Warnings, cfg.Notices), "tools": cfg.Tools.Digest(),
	}
	if len(cfg.Sources) > 0 {
		data["sources"] = cfg.Sources
	}
	if len(cfg.Recovered) > 0 {
		data["planted"] = cfg.Recovered
	}
	err := s.append(context.Background(), audit.Record{Kind: audit.KindStart, Data: data})
	if err == nil && cfg.Orphans != nil {
		err = s.endOrphans(cfg.Orphans)
	}
	if err != nil {
		s.unsubscribe()
		s.stop()
		return nil, err
	}
	return s, nil
}

// Close ends every session, waits for the calls, and records the stop.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	open := make([]*session, 0, len(s.sessions))
	for _, x := range s.sessions {
		open = append(open, x)
	}
	s.mu.Unlock()
	for _, x := range open {
		x.end(failure.ErrShuttingDown)
	}
	s.running.Wait()
	for _, x := range open {
		_, _ = s.CloseSession(x.id)
	}
	s.stop() // a draft that nobody has answered for stays
	s.reviews.Wait()
	s.unsubscribe()
	return s.append(context.Background(), audit.Record{Kind: audit.KindStop})
}

// OpenSession implements server.Supervisor.
func (s *Supervisor) OpenSession(peer unixsock.Peer, p protocol.SessionOpen) (protocol.SessionOpened, error) {
	if p.Name != "" && p.Review {
		return protocol.SessionOpened{}, protocol.Errorf(protocol.CodeInvalidParams, "a session with a name cannot be reviewed: nothing says when it ends").
			WithHint("leave name out, or review")
	}
	if p.Name != "" {
		return s.openNamed(peer, p)
	}
	return s.openSession(peer, p, nil)
}

// OpenLocal opens a session whose programs read and write the given streams.
func (s *Supervisor) OpenLocal(peer unixsock.Peer, p protocol.SessionOpen, streams Streams) (protocol.SessionOpened, error) {
	return s.openSession(peer, p, &streams)
}

func (s *Supervisor) openSession(peer unixsock.Peer, p protocol.SessionOpen, streams *Streams) (protocol.SessionOpened, error) {
	x := &session{
		id:       protocol.SessionID("s-" + rand.Text()[:16]),
		agent:    p.Agent,
		name:     p.Name,
		peer:     peer,
		mode:     bounds.Stricter(s.cfg.Mode, p.Mode),
		metadata: history.Told(s.cfg.Log, p.Metadata),
		opened:   time.Now(),
		sink:     streams,
	}
	x.servers = mcphost.New(&s.cfg.MCP, s.launch(x))
	if streams != nil {
		x.stdin = streams.Stdin
	}
	x.confiner, x.done = s.cfg.Confiner, func() {}
	if s.cfg.Confiner != nil && s.cfg.SessionConfiner != nil {
		own := s.cfg.SessionConfiner()
		x.confiner, x.done = own, func() { _ = own.Close() } // ends processes; nothing is left to report
	}
	x.ctx, x.end = context.WithCancelCause(context.Background())
	opened := protocol.SessionOpened{SessionID: x.id, Mode: x.mode}
	if p.Review {
		d, err := s.beginDraft(s.ctx, x)
		if err != nil {
			x.done()
			return protocol.SessionOpened{}, err
		}
		x.draft, opened.Draft = d, d.ID()
	}
	if err := s.enterSession(x, history.SessionEntry{Event: "open", Mode: x.mode, Name: x.name, Draft: opened.Draft, Metadata: x.metadata}); err != nil {
		x.done()
		if x.draft != nil {
			defer x.draft.Close()
			_, ended := x.draft.End()
			err = errors.Join(err, ended, x.draft.Drop())
		}
		return protocol.SessionOpened{}, err
	}
	return opened, nil
}

// enterSession records a session and lets calls find it.
func (s *Supervisor) enterSession(x *session, entry history.SessionEntry) error {
	err := s.append(x.ctx, audit.Record{
		Kind: audit.KindSession, Session: string(x.id), Peer: audit.PeerOf(x.peer), Agent: x.agent,
		Data: entry,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &protocol.Error{Code: protocol.CodeShuttingDown, Message: failure.ErrShuttingDown.Error()}
	}
	if err := s.cfg.Approvals.OpenSession(string(x.id)); err != nil {
		return err
	}
	s.sessions[x.id] = x
	return nil
}

// CloseSession implements server.Supervisor: the session's calls are cancelled and waited
// for, and what it remembered is forgotten.
func (s *Supervisor) CloseSession(id protocol.SessionID) (protocol.SessionClosed, error) {
	s.mu.Lock()
	x, ok := s.sessions[id]
	delete(s.sessions, id)
	if ok {
		s.unname(x)
	}
	s.mu.Unlock()
	if !ok {
		return protocol.SessionClosed{}, unknownSession(id)
	}
	x.end(failure.ErrSessionClosed)
	s.cfg.Approvals.CloseSession(string(id))
	x.calls.Wait() // each sees the end of the session; then no sandbox is in use
	x.done()
	if x.draft != nil {
		s.reviewSession(x)
	}
	x.mu.Lock()
	counts := x.counts
	x.mu.Unlock()
	err := s.append(context.Background(), audit.Record{
		Kind: audit.KindSession, Session: string(id), Peer: audit.PeerOf(x.peer), Agent: x.agent,
		Data: map[string]any{"event": "close", "counts": counts},
	})
	return counts, err
}

// Tools implements server.Supervisor.
func (s *Supervisor) Tools(ctx context.Context, id protocol.SessionID) (protocol.ToolsList, error) {
	s.mu.Lock()
	x, ok := s.sessions[id]
	s.mu.Unlock()
	if id != "" && !ok {
		return protocol.ToolsList{}, unknownSession(id)
	}
	if ok && x.draft != nil {
		return x.draft.Tools(ctx)
	}
	list := protocol.ToolsList{Digest: s.cfg.Tools.Digest(), Workdir: s.cfg.Workdir, Paths: s.cfg.Paths}
	unavailable := ""
	if err := s.refuseUnconfined(); err != nil {
		unavailable = err.Error()
	}
	for _, d := range s.cfg.Tools.Definitions() {
		list.Tools = append(list.Tools, protocol.Tool{
			Name: protocol.ToolName(d.Name), Description: d.Description, InputSchema: d.InputSchema,
			Annotations: d.Annotations, Unavailable: unavailable,
		})
	}
	if ok && unavailable == "" {
		more, failed := x.servers.List(ctx)
		for _, err := range failed {
			list.Warnings = append(list.Warnings, failure.Wire(err).Message)
		}
		list.Tools = append(list.Tools, more...)
		list.Digest = digestOfTools(list.Digest, more)
	}
	return list, nil
}

// Approvals implements server.Supervisor.
func (s *Supervisor) Approvals() *approval.Controller { return s.cfg.Approvals }

// Status implements server.Supervisor.
func (s *Supervisor) Status() protocol.Status {
	st := protocol.Status{
		Version: s.cfg.Version, PID: os.Getpid(), Started: s.started, Config: s.cfg.ConfigFile, Mode: s.cfg.Mode,
		CallsTotal: s.total.Load(), Pending: len(s.cfg.Approvals.Pending()),
		ToolsDigest: s.cfg.Tools.Digest(), Warnings: slices.Concat(s.cfg.Warnings, s.cfg.Notices, s.shortages.Warnings(time.Now()), s.failedKeeps()), HTTP: s.cfg.HTTP,
		Sandbox: protocol.SandboxStatus{Ready: s.cfg.Confiner != nil},
		Audit:   protocol.AuditStatus{Path: s.cfg.Log.Path(), Entries: s.cfg.Log.Entries()},
		Sources: sourcesOf(s.cfg.Sources), Stale: config.Stale(s.cfg.Sources),
	}
	if err := s.auditFailure.Load(); err != nil {
		st.Audit.Error = (*err).Error()
	}
	if err := s.refuseUnconfined(); err != nil {
		e := failure.Wire(err)
		st.Sandbox.Reason, st.Sandbox.Hint = e.Message, e.HintText
	} else {
		st.Sandbox.EnforcedBy = protocol.EnforcedBy(*s.enforced.Load())
		st.Sandbox.EnforcedBy.Backend = s.cfg.Confiner.Name()
	}
	for _, x := range s.Sessions() {
		st.Sessions++
		st.CallsRunning += x.CallsRunning
	}
	return st
}

// Calls is how many calls there have been.
func (s *Supervisor) Calls() int64 { return s.total.Load() }

// Sessions implements server.Supervisor.
func (s *Supervisor) Sessions() []protocol.SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []protocol.SessionInfo
	for _, x := range s.sessions {
		x.mu.Lock()
		list = append(list, protocol.SessionInfo{
			ID: x.id, Agent: x.agent, Name: x.name, Mode: x.mode, Opened: x.opened, Metadata: x.metadata,
			Peer:  protocol.Peer{UID: int(x.peer.UID), GID: int(x.peer.GID), PID: int(x.peer.PID)},
			Calls: x.counts.Calls, CallsRunning: x.running,
		})
		x.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b protocol.SessionInfo) int { // whoever ends one finds it where it was
		return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// Check implements server.Supervisor: what a call would do. It runs the same steps as Call
// as far as the decision, and stops before anybody is asked.
func (s *Supervisor) Check(ctx context.Context, peer unixsock.Peer, req protocol.ToolsCall) (protocol.CheckResult, error) {
	c, err := s.receive(forecast{}, peer, req, nil)
	if err != nil {
		return protocol.CheckResult{}, err
	}
	defer s.release(c)
	if d := c.session.draft; d != nil {
		return d.Check(ctx, req)
	}
	p, err := s.check(ctx, c)
	if err != nil && !approval.IsBlocked(err) {
		return protocol.CheckResult{}, failure.Wire(err)
	}
	if c.unlisted != "" {
		c.warnings = append(slices.Clip(c.warnings), c.unlisted)
	}
	return s.checkResult(c, p, err)
}

func sourcesOf(list []config.Source) (out []protocol.ConfigSource) {
	for _, s := range list {
		out = append(out, protocol.ConfigSource{Tier: string(s.Tier), File: s.File, Digest: s.Digest, Trusted: s.Trusted})
	}
	return out
}
