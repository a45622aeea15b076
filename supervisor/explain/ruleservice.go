package explain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// A RuleService shows an operator the rules, changes them, and says what
// they make of a call. It reaches no session and no running call. Besides the
// supervisor's own there may be one without a supervisor, for commands that find
// none running: then only files change.
type RuleService struct{ cfg Config }

// Config is the environment of a rule service.
type Config struct {
	Judge     Judge
	Approvals *approval.Controller
	Rules     *rulebook.Book // nil: there are none
	// Record writes one entry of the audit log; what it cannot write is not done.
	Record func(context.Context, audit.Record) error
	// Entries reads the audit log from its start.
	Entries func(audit.Filter) iter.Seq2[audit.Entry, error]
}

// A Judge plans and checks calls as if they were made, and makes none.
type Judge interface {
	// Judge is about a call in the sandbox, or about one that the agent carries out elsewhere.
	Judge(peer unixsock.Peer, p protocol.RulesTest, elsewhere bool) (Judged, error)
	// Considered is the result of each rule of the call's own tool.
	Considered(q approval.Call, args map[string]any) ([]tools.Considered, error)
	// Wire is an error of the other two in the form for clients.
	Wire(err error) *protocol.Error
}

// A Judged call is one that was planned and checked.
type Judged struct {
	Question approval.Call
	Proposal tools.Proposal
	Digest   string
}

// New makes a rule service.
func New(cfg Config) *RuleService { return &RuleService{cfg} }

// List lists the standing rules and the configuration's rules about commands, in
// the order in which they are tried.
func (d *RuleService) List() protocol.RulesList {
	list := protocol.RulesList{Rules: []protocol.Rule{}, File: d.cfg.Rules.Path()}
	var last []protocol.Rule
	for _, r := range d.cfg.Rules.Rules() {
		if r.Effect == config.Allow {
			last = append(last, wireRule(r))
		} else {
			list.Rules = append(list.Rules, wireRule(r))
		}
	}
	rules, fallback := d.cfg.Rules.Configured()
	for _, r := range rules {
		list.Rules = append(list.Rules, configuredRule(r))
	}
	list.Rules = append(list.Rules, last...)
	list.Rules = append(list.Rules, protocol.Rule{
		RuleSpec: protocol.RuleSpec{Effect: wireEffect(fallback), Reason: "commands that no rule matches"},
		Name:     "shell.default", Tier: tierConfig,
	})
	return list
}

const tierConfig = "config"

func configuredRule(r shell.Rule) protocol.Rule {
	return protocol.Rule{
		Caution: r.Caution(),
		RuleSpec: protocol.RuleSpec{
			Effect: wireEffect(r.Effect()), Shell: r.Pattern, Exact: r.Exact, ReadOnly: r.ReadOnly, Reason: r.Reason, Match: r.Match, NoMatch: r.NoMatch,
		},
		Name: r.Name, Origin: r.Position, Tier: tierConfig,
	}
}

func wireRule(r rulebook.Rule) protocol.Rule {
	out := protocol.Rule{
		RuleSpec: protocol.RuleSpec{
			ID: r.ID, Effect: protocol.CheckDecision(r.Effect), Tool: r.Tool, Connector: r.Connector, Agent: r.Agent, Shell: r.Shell,
			Exact: r.Exact, ReadOnly: r.ReadOnly, Reason: r.Reason, Match: r.Match, NoMatch: r.NoMatch,
		},
		Name: r.Label(), Origin: r.Position.String(), Tier: string(r.Tier), Inactive: r.Inactive, By: r.By,
	}
	out.Caution = caution(out.RuleSpec)
	if t, err := time.Parse(time.RFC3339, r.Added); err == nil {
		out.Added = &t
	}
	return out
}

// caution is a remark about a rule for commands when it is loaded.
func caution(r protocol.RuleSpec) string {
	if r.Shell == "" || r.Effect != protocol.CheckAllow {
		return ""
	}
	asks := false
	return shell.Rule{Pattern: r.Shell, Exact: r.Exact, ReadOnly: r.ReadOnly, Approval: &asks}.Caution()
}

// wireEffect is an effect of package tools or approval in the words of the wire. What is
// neither of the others denies.
func wireEffect(e fmt.Stringer) protocol.CheckDecision {
	switch d := protocol.CheckDecision(e.String()); d {
	case protocol.CheckAllow, protocol.CheckAsk:
		return d
	}
	return protocol.CheckDeny
}

// Add puts a rule in force, and keeps it.
func (d *RuleService) Add(peer unixsock.Peer, p protocol.RuleSpec) (protocol.Rule, error) {
	r, err := d.cfg.Rules.Add(standingRule(p), d.change(peer, nil))
	if err != nil {
		return protocol.Rule{}, ruleError(err)
	}
	return wireRule(r), nil
}

func standingRule(p protocol.RuleSpec) config.StandingRule {
	return config.StandingRule{
		ID: p.ID, Effect: config.Effect(p.Effect), Tool: p.Tool, Connector: p.Connector, Agent: p.Agent, Shell: p.Shell,
		Exact: p.Exact, ReadOnly: p.ReadOnly, Reason: p.Reason, Match: p.Match, NoMatch: p.NoMatch,
	}
}

// Replace puts a rule in the place of a standing one, in one step.
func (d *RuleService) Replace(peer unixsock.Peer, p protocol.RulesReplace) (protocol.Rule, error) {
	r, err := d.cfg.Rules.Replace(p.ID, standingRule(p.Rule), d.change(peer, p.Seen))
	if err != nil {
		return protocol.Rule{}, ruleError(err)
	}
	return wireRule(r), nil
}

// tryLimit is how many calls Try lists by default.
const tryLimit = 20

// Try says which decisions of the log a rule would have been about. It adds none.
func (d *RuleService) Try(p protocol.RulesTry) (protocol.RulesTried, error) {
	entries := d.cfg.Entries(audit.Filter{Since: p.Since, Kinds: []audit.Kind{audit.KindDecision}})
	trial, err := d.cfg.Rules.Try(standingRule(p.Rule), history.Decisions(entries))
	if err != nil {
		return protocol.RulesTried{}, ruleError(err)
	}
	out := protocol.RulesTried{Decisions: trial.Decisions, Skipped: trial.Skipped, Matches: len(trial.Covered), Covered: []protocol.CoveredCall{}, Caution: caution(p.Rule)}
	for _, c := range slices.Backward(trial.Covered) {
		if len(out.Covered) == cmp.Or(p.Limit, tryLimit) {
			break
		}
		e := c.Entry
		out.Covered = append(out.Covered, protocol.CoveredCall{
			Seq: e.Seq, Time: e.Time, Agent: e.Agent, Tool: protocol.ToolName(e.Tool), Subject: c.Subject(), Action: c.Record.Action,
		})
	}
	return out, nil
}

// Remove takes a standing rule out of force, and forgets it.
func (d *RuleService) Remove(peer unixsock.Peer, p protocol.RulesRemove) (protocol.Rule, error) {
	r, err := d.cfg.Rules.Remove(p.ID, d.change(peer, p.Seen))
	if err != nil {
		return protocol.Rule{}, ruleError(err)
	}
	return wireRule(r), nil
}

// Reload reads the files of standing rules again. If one does not load, the
// rules stay as they were.
func (d *RuleService) Reload(peer unixsock.Peer) (protocol.Reloaded, error) {
	if err := d.cfg.Rules.Reload(); err != nil {
		return protocol.Reloaded{}, ruleError(err)
	}
	var n protocol.Reloaded
	for _, r := range d.cfg.Rules.Rules() {
		n.Rules++
		if r.Inactive != "" {
			n.Inactive++
		}
	}
	return n, d.cfg.Record(context.Background(), audit.Record{
		Kind: audit.KindRules, Peer: audit.PeerOf(peer), Data: map[string]any{"event": "reload", "counts": n},
	})
}

// change is one by a peer, of the rule that it has seen.
func (d *RuleService) change(peer unixsock.Peer, seen *protocol.RuleSpec) rulebook.Change {
	return rulebook.Change{By: peer.String(), Now: time.Now(), Seen: sameRule(seen), Record: func(event string, r rulebook.Rule) error {
		return d.cfg.Record(context.Background(), audit.Record{
			Kind: audit.KindRules, Peer: audit.PeerOf(peer), Data: map[string]any{"event": event, "rule": wireRule(r)},
		})
	}}
}

// sameRule refuses a rule that has another content than the one that was seen.
func sameRule(seen *protocol.RuleSpec) func(rulebook.Rule) error {
	if seen == nil {
		return nil
	}
	return func(r rulebook.Rule) error {
		now, err := json.Marshal(wireRule(r).RuleSpec)
		if err != nil {
			return err
		}
		if shown, err := json.Marshal(seen); err != nil || !bytes.Equal(now, shown) {
			return &rulebook.Error{Op: "change", ID: r.ID, Reason: "the rule has changed since it was shown", HintText: "review it again"}
		}
		return nil
	}
}

// ruleError gives what a change of the rules can run into its code. The operator
// changes them, and no file is secret from the operator.
func ruleError(err error) error {
	var own *protocol.Error
	if errors.As(err, &own) {
		return err
	}
	e := &protocol.Error{Code: protocol.CodeRuleRefused, Message: err.Error()}
	var book *rulebook.Error
	if errors.As(err, &book) && book.Unknown {
		e.Code = protocol.CodeUnknownRule
	}
	var hint interface{ Hint() string }
	if errors.As(err, &hint) {
		e.HintText = hint.Hint()
	}
	return e
}
