package server

import (
	"context"

	"github.com/sandgate/sandgate/protocol"
)

// ruleService is the supervisor's, or an error if it keeps no rules.
func (o *operatorConn) ruleService() (RuleService, error) {
	d := o.server.supervisor.RuleService()
	if d == nil {
		return nil, protocol.Errorf(protocol.CodeRuleRefused, "this supervisor keeps no rules")
	}
	return d, nil
}

func (o *operatorConn) rulesList(context.Context, *protocol.Empty) (protocol.RulesList, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RulesList{}, err
	}
	return d.List(), nil
}

func (o *operatorConn) rulesAdd(_ context.Context, p *protocol.RuleSpec) (protocol.RuleChanged, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RuleChanged{}, err
	}
	r, err := d.Add(o.peer, *p)
	return protocol.RuleChanged{Rule: r}, err
}

func (o *operatorConn) rulesReplace(_ context.Context, p *protocol.RulesReplace) (protocol.RuleChanged, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RuleChanged{}, err
	}
	r, err := d.Replace(o.peer, *p)
	return protocol.RuleChanged{Rule: r}, err
}

func (o *operatorConn) rulesTry(_ context.Context, p *protocol.RulesTry) (protocol.RulesTried, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RulesTried{}, err
	}
	return d.Try(*p)
}

func (o *operatorConn) rulesRemove(_ context.Context, p *protocol.RulesRemove) (protocol.RuleChanged, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RuleChanged{}, err
	}
	r, err := d.Remove(o.peer, *p)
	return protocol.RuleChanged{Rule: r}, err
}

func (o *operatorConn) rulesTest(_ context.Context, p *protocol.RulesTest) (protocol.RulesTested, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RulesTested{}, err
	}
	return d.Test(o.peer, *p)
}

func (o *operatorConn) rulesSuggest(_ context.Context, p *protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.RulesSuggested{}, err
	}
	return d.Suggest(*p)
}

func (o *operatorConn) reload(context.Context, *protocol.Empty) (protocol.Reloaded, error) {
	d, err := o.ruleService()
	if err != nil {
		return protocol.Reloaded{}, err
	}
	return d.Reload(o.peer)
}
