package supervisor

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/supervisor/history"
)

// sourceRestart is the source of the decision about a request that a supervisor left
// behind when it ended: no answer to it can count any more, since the call that it
// was for is gone.
const sourceRestart approval.Source = "restart"

// endOrphans writes the end of requests that an earlier supervisor did not
// live to record, and then forgets them. One that is in the log already was left
// between the two. orphans counts those that it recorded.
func (s *Supervisor) endOrphans(l Orphans) error {
	requests := l.Waiting()
	if len(requests) == 0 {
		return l.Discard()
	}
	known, err := history.Recorded(s.cfg.Log, requests)
	if err != nil {
		return err
	}
	for _, p := range requests {
		if known[p.ID] {
			continue
		}
		d := approval.Decision{
			ID: "dec-" + p.ID, RequestID: p.ID, CallID: p.CallID, SessionID: p.SessionID, Agent: p.Agent, ToolName: p.ToolName,
			Connector: p.Connector, Action: approval.Dismissed, Source: sourceRestart, Digest: p.Digest, Time: time.Now(),
			Reason: "cancelled: the supervisor ended before anybody's answer was recorded",
		}
		if err := s.logAnswer(p.Description, nil, d); err != nil {
			return err
		}
		s.orphans++
	}
	return l.Discard()
}

// Orphans is how many requests an earlier supervisor did not live to record, and
// this one has recorded as cancelled when it started.
func (s *Supervisor) Orphans() int { return s.orphans }

// logAnswer records the end of a request beside a call's own decision. It is durable
// when it returns nil.
func (s *Supervisor) logAnswer(description string, about map[string]any, d approval.Decision) error {
	e := history.DecisionEntry{Description: description, Decision: d}
	if about != nil {
		e.Args = must.JSON(about)
	}
	return s.append(context.Background(), audit.Record{
		Kind: audit.KindAnswer, Session: d.SessionID, Agent: d.Agent, Tool: d.ToolName, Digest: d.Digest,
		Data: e,
	})
}
