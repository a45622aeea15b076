package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/review"
)

// What is reviewed runs on a draft: another supervisor, in a mount namespace where an overlay
// lies over all that calls may write, takes its calls on the whole path. It plans and carries
// out; what it decides about is decided here, as of any call of the session. Once it has ended a
// person says what of the draft is kept.

// beginDraft starts a draft for a session of p.
func (s *Supervisor) beginDraft(ctx context.Context, x *session) (review.Draft, error) {
	if s.cfg.BeginDraft == nil {
		return nil, protocol.Errorf(protocol.CodeSandboxUnavailable, "it has to be reviewed, and this command makes no drafts by itself").
			WithHint("`sandgate run --review` runs a command on a draft; `sandgate serve` makes them for its agents")
	}
	if err := s.refuseUnconfined(); err != nil {
		return nil, failure.Wire(err)
	}
	d, err := s.cfg.BeginDraft(ctx)
	if err != nil {
		return nil, review.NoDraft(err)
	}
	if err := d.Open(ctx, protocol.SessionOpen{Agent: x.agent, Mode: x.mode, Metadata: x.metadata}, review.Deciding{Definitions: s.cfg.MCP.Approved, Approvals: s.cfg.Approvals, Of: x.asker(), Draft: d}); err != nil {
		defer d.Close()
		_, ended := d.End()
		return nil, review.NoDraft(errors.Join(err, ended, d.Drop()))
	}
	return d, nil
}

// inDraft has a call of a session that is reviewed carried out by its draft's supervisor, which
// records it.
func (s *Supervisor) inDraft(ctx context.Context, c *call, d review.Draft) (protocol.CallResult, error) {
	if err := c.awaitTurn(ctx); err != nil {
		return protocol.CallResult{}, s.end(c, err)
	}
	r, err := d.Call(ctx, c.req, c.notify)
	if copied := d.Copied(); copied != "" {
		r.Warnings = append(r.Warnings, copied)
	}
	c.session.count(err)
	return r, err
}

// reviewed takes one call on a draft of its own, and has a person look at what it changed
// before the call is answered.
func (s *Supervisor) reviewed(ctx context.Context, c *call) (protocol.CallResult, error) {
	d, err := s.beginDraft(ctx, c.session)
	if err != nil {
		return protocol.CallResult{}, s.end(c, s.record(c, err))
	}
	r, err := s.inDraft(ctx, c, d)
	said := s.review(ctx, c.session, d)
	if err != nil {
		return r, err
	}
	r.Warnings = append(r.Warnings, said)
	return r, nil
}

// review ends a draft and asks what of it is kept. It says what became of it.
func (s *Supervisor) review(ctx context.Context, x *session, d review.Draft) string {
	defer d.Close()
	found, err := d.End()
	if err != nil {
		return approval.EscapeLine(fmt.Sprintf("draft %s is not in the workspace; `sandgate review` has it: %v", d.ID(), err))
	}
	if found.Names == 0 {
		if err := d.Drop(); err != nil {
			return approval.EscapeLine(err.Error())
		}
		return "nothing was changed, and nothing is to be kept"
	}
	said, err := s.settle(ctx, x, d, found)
	if err != nil {
		s.reviewFailed(x, d, err)
		said = fmt.Sprintf("draft %s is not in the workspace; `sandgate review` has it: %v", d.ID(), err)
	}
	return approval.EscapeLine(said)
}

// reviewFailed logs why a draft was left: the person who allowed the keep would think that it
// was done, and the agent may be gone. status lists the latest failed keeps, too.
func (s *Supervisor) reviewFailed(x *session, d review.Draft, err error) {
	var denied *approval.DeniedError
	if errors.As(err, &denied) { // nobody has allowed it
		return
	}
	text := fmt.Sprintf("what draft %s changed is not in the workspace: %v", d.ID(), err)
	_ = s.append(context.WithoutCancel(s.ctx), audit.Record{ // the answer is in the log already
		Kind: audit.KindRefused, Session: string(x.id), Agent: x.agent, Tool: review.Tool,
		Data: history.EndEntry{Error: protocol.Errorf(protocol.CodeDenied, "%s", text).WithHint("`sandgate review` has it")},
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unkept = append(s.unkept, text+"; `sandgate review` has it")
	s.unkept = s.unkept[max(len(s.unkept)-maxUnkept, 0):]
}

func (s *Supervisor) failedKeeps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unkept)
}

// maxUnkept is how many keeps that failed status speaks of.
const maxUnkept = 4

// settle asks about a draft and carries out the answer. Without an answer, the draft stays.
func (s *Supervisor) settle(ctx context.Context, x *session, d review.Draft, found review.Changes) (string, error) {
	id := "review-" + d.ID() // the session that it comes from may be over
	if err := s.cfg.Approvals.OpenSession(id); err != nil {
		return "", err
	}
	defer s.cfg.Approvals.CloseSession(id)
	found.Copied = d.Copied()
	q, err := review.Question(d.ID(), found, []string{review.Everything})
	if err != nil {
		return "", err
	}
	q = x.asker().Asks(q)
	q.SessionID = id
	q.Mode = bounds.Stricter(x.mode, approval.Interactive) // nobody has looked at it yet
	grant, err := s.cfg.Approvals.Decide(ctx, q)
	decision := decisionOf(grant, err)
	if logErr := s.logAnswer(q.Request.Description, nil, decision); err == nil {
		err = logErr
	}
	if err != nil {
		if decision.Action == approval.Denied && decision.Source == approval.SourceAsk && decision.Approver != "" {
			return fmt.Sprintf("a person dropped what was changed (%s): the workspace is as it was. %s", review.Counted(found.Names), decision.Feedback), d.Drop()
		}
		return "", err
	}
	names, err := approval.Granted[[]string](grant)
	if err != nil {
		return "", err
	}
	if err := d.Keep(names); err != nil {
		return "", err
	}
	if !slices.Contains(names, review.Everything) {
		return fmt.Sprintf("a person kept some of what was changed, and dropped the rest: %v", names), nil
	}
	return fmt.Sprintf("a person kept what was changed (%s): it is in the workspace now", review.Counted(found.Names)), nil
}

// draftOf is the draft of a session, or nil.
func (s *Supervisor) draftOf(id protocol.SessionID) review.Draft {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[id]; x != nil {
		return x.draft
	}
	return nil
}

// reviewSession ends the draft of a session that is over, and has a person asked about it:
// neither the agent nor the peer that closes the session waits for that.
func (s *Supervisor) reviewSession(x *session) {
	s.reviews.Go(func() { _ = s.review(s.ctx, x, x.draft) })
}

// asker is the session as questions have it.
func (x *session) asker() review.Asker {
	return review.Asker{SessionID: string(x.id), Agent: x.agent, Peer: x.peer.String(), Name: x.name, Metadata: x.metadata, Mode: x.mode}
}
