package supervisor

import (
	"context"
	"iter"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/explain"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
)

// NewRuleService makes the rule service of a configuration without a supervisor, with the audit
// log at path. Of cfg it uses Tools, Approvals, Mode, Operator and Rules. record
// writes one entry; what it cannot write is not done.
func NewRuleService(cfg Config, path string, record func(context.Context, audit.Record) error) *explain.RuleService {
	return explain.New(explain.Config{
		Judge: judge{&Supervisor{cfg: cfg, profiles: bounds.NewProfiles()}}, Approvals: cfg.Approvals, Rules: cfg.Rules, Record: record,
		Entries: func(f audit.Filter) iter.Seq2[audit.Entry, error] { return audit.Query(path, f) },
	})
}

// RuleService implements server.Supervisor.
func (s *Supervisor) RuleService() server.RuleService {
	if s.cfg.Rules == nil {
		return nil
	}
	return s.ruleService()
}

func (s *Supervisor) ruleService() *explain.RuleService {
	return NewRuleService(s.cfg, s.cfg.Log.Path(), s.append)
}

// A judge implements explain.Judge for a supervisor of its own, in which nothing runs.
type judge struct{ s *Supervisor }

func (j judge) Judge(peer unixsock.Peer, p protocol.RulesTest, elsewhere bool) (explain.Judged, error) {
	c := &call{
		kind: forecast{}, peer: peer, session: &session{agent: p.Agent, mode: bounds.Stricter(j.s.cfg.Mode, p.Mode)},
		req: protocol.ToolsCall{CallID: "why", Tool: p.Tool, Args: p.Args},
	}
	if elsewhere {
		c.kind = byAgent{}
	}
	proposal, checked := j.s.check(context.Background(), c)
	if checked != nil && !approval.IsBlocked(checked) {
		return explain.Judged{}, checked
	}
	return explain.Judged{Question: j.s.question(c, proposal, checked), Proposal: proposal, Digest: c.digest}, nil
}

func (j judge) Considered(q approval.Call, args map[string]any) ([]tools.Considered, error) {
	registry, err := j.s.forecastRegistry(&session{}, q.ToolName)
	if err != nil {
		return nil, err
	}
	return registry.Explain(tools.Call{Tool: q.ToolName, Args: args})
}

func (judge) Wire(err error) *protocol.Error { return failure.Wire(err) }
