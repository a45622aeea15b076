package explain

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Test says what would become of a call and why: it plans and checks the call as
// Supervisor.Call does, and asks every rule what it made of it.
func (d *RuleService) Test(peer unixsock.Peer, p protocol.RulesTest) (protocol.RulesTested, error) {
	f, err := d.forecast(peer, p, false)
	if err != nil {
		return protocol.RulesTested{}, d.cfg.Judge.Wire(err)
	}
	t := d.tested(f)
	t.Change = d.smallestChange(f, t)
	return t, nil
}

// tested is a forecast without what would change it.
func (d *RuleService) tested(f forecast) protocol.RulesTested {
	t := protocol.RulesTested{
		Decision: wireEffect(f.Effect), Step: string(f.Source), Rule: f.rule(), Reason: f.Reason, Hint: f.Hint,
		Passed: passed(f.Source), Considered: f.considered, PlanDigest: f.digest,
	}
	if p := f.proposal.Plan; p.Class != sandboxprofile.Unclassified {
		t.Class = p.Class.String() + ": " + p.Class.Can()
		if l := p.Action.Ceiling; l != nil {
			t.Ceiling = l.String()
		}
	}
	t.Origin = d.origin(t)
	if f.Source == approval.SourceAsk {
		t.Reason = cmp.Or(asks(t.Considered), shown(f.proposal), strings.Join(f.proposal.Cautions, "; "), t.Reason)
	}
	return t
}

// A forecast is a call that was planned and judged, and not made.
type forecast struct {
	approval.Verdict
	proposal   tools.Proposal
	digest     string
	tool       protocol.ToolName
	args       map[string]any
	considered []protocol.ConsideredRule
}

// rule is the rule that decides: a standing rule or remembered answer if there is one,
// otherwise the tool's own.
func (f forecast) rule() string { return cmp.Or(f.Rule, f.proposal.Rule) }

// forecast is for a call in the sandbox, or for one that the agent carries out elsewhere.
func (d *RuleService) forecast(peer unixsock.Peer, p protocol.RulesTest, elsewhere bool) (forecast, error) {
	f := forecast{tool: p.Tool}
	args, err := protocol.ToolsCall{Args: p.Args}.DecodeArgs()
	if err != nil {
		return f, &protocol.Error{Code: protocol.CodeInvalidArguments, Message: err.Error()}
	}
	j, err := d.cfg.Judge.Judge(peer, p, elsewhere)
	if err != nil {
		return f, err
	}
	f.args, f.proposal, f.digest = args, j.Proposal, j.Digest
	f.Verdict = d.cfg.Approvals.Check(j.Question)
	f.considered, err = d.consider(j.Question, args)
	return f, err
}

// consider holds the call against the standing rules, and then against those of
// its tool.
func (d *RuleService) consider(q approval.Call, args map[string]any) ([]protocol.ConsideredRule, error) {
	var list []tools.Considered
	if d.cfg.Rules != nil {
		list = d.cfg.Rules.Consider(q)
	}
	var own []tools.Considered
	if !q.Foreign {
		var err error
		if own, err = d.cfg.Judge.Considered(q, args); err != nil {
			return nil, err
		}
	}
	out := []protocol.ConsideredRule{}
	for _, c := range slices.Concat(list, own) {
		out = append(out, protocol.ConsideredRule{
			Subject: c.Subject, Rule: c.Rule, Origin: c.Position, Effect: wireEffect(c.Effect), Outcome: string(c.Outcome), Why: c.Why,
		})
	}
	return out, nil
}

// passed are the steps of the order before the one that decided.
func passed(decided approval.Source) []string {
	names := []string{}
	for _, s := range approval.Steps() {
		if s == decided {
			return names
		}
		names = append(names, string(s))
	}
	return []string{} // refused before the first step
}

// origin is where the rule that decides is written.
func (d *RuleService) origin(t protocol.RulesTested) string {
	for _, c := range t.Considered {
		if c.Outcome == string(tools.Decides) && strings.HasPrefix(t.Rule, c.Rule) && c.Origin != "" {
			return c.Origin
		}
	}
	return ""
}

// shown is why, as approvers would read this text: of a redirection no rule says so.
func shown(p tools.Proposal) string {
	if p.Present == nil {
		return ""
	}
	x, err := p.Present(context.Background())
	if err != nil || x == nil {
		return ""
	}
	reason, _ := x.Metadata["reason"].(string)
	return reason
}

// asks is why the tool's own rules ask, as the first of them says it.
func asks(considered []protocol.ConsideredRule) string {
	for _, c := range considered {
		if c.Outcome == string(tools.Decides) && c.Effect != protocol.CheckAllow && c.Why != "" {
			return c.Why
		}
	}
	return ""
}
