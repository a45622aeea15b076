package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
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
	known, err := s.recorded(requests)
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

// recorded are those of the requests whose end is in the log. A log can be long: only
// what may be of them is taken apart.
func (s *Supervisor) recorded(requests []approval.Pending) (map[string]bool, error) {
	known := map[string]bool{}
	names := func(data []byte) bool {
		return bytes.IndexByte(data, '\\') >= 0 || slices.ContainsFunc(requests, func(p approval.Pending) bool { return bytes.Contains(data, []byte(p.ID)) })
	}
	for e, err := range audit.Query(s.cfg.Log.Path(), audit.Filter{Kinds: []audit.Kind{audit.KindDecision, audit.KindAnswer}}) {
		var damaged *audit.ChainError
		if errors.As(err, &damaged) {
			continue // audit verify is about that
		}
		if err != nil {
			return nil, err
		}
		var data struct {
			Decision approval.Decision `json:"decision"`
		}
		if names(e.Data) && json.Unmarshal(e.Data, &data) == nil {
			known[data.Decision.RequestID] = true
		}
	}
	return known, nil
}

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
