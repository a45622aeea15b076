package explain

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/tools"
)

// A Replayed decision is one that would now be made otherwise.
type Replayed struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Session string    `json:"session"`
	Call    string    `json:"call"`
	Agent   string    `json:"agent"`
	Tool    string    `json:"tool"`
	Subject string    `json:"subject"`
	// Was and Now are the rules' results for the call, apart from people's answers: ask
	// is a question, however it was answered.
	Was       protocol.CheckDecision `json:"was"`
	WasStep   string                 `json:"was_step"`
	WasRule   string                 `json:"was_rule,omitempty"`
	WasAction string                 `json:"was_action"` // how it ended: approved, denied, timed_out, ...
	Now       protocol.CheckDecision `json:"now"`
	NowStep   string                 `json:"now_step"`
	NowRule   string                 `json:"now_rule,omitempty"`
	NowOrigin string                 `json:"now_origin,omitempty"`
	NowReason string                 `json:"now_reason,omitempty"`
	// WasHeld and NowHeld are the classes that the kernel holds the call to where it
	// runs unasked; "" where that is not known.
	WasHeld string `json:"was_held,omitempty"`
	NowHeld string `json:"now_held,omitempty"`
	// NowReview: it would run on a draft, and a person would look at what it changed.
	NowReview bool `json:"now_review,omitempty"`
}

// A ReplaySummary counts what a replay came by.
type ReplaySummary struct {
	Decisions int `json:"decisions"`
	Same      int `json:"same"`
	Looser    int `json:"looser"`
	Stricter  int `json:"stricter"`
	// Held counts decisions that are as before, for calls that the kernel would hold to
	// another class.
	Held int `json:"held_otherwise"`
	// Became counts those that come out otherwise by what they were and are: "allow -> ask",
	// "held workspace -> read".
	Became map[string]int `json:"became"`
	// Reviewed counts calls, in any of the three, that would run on a draft now.
	Reviewed int `json:"reviewed"`
	// Answered counts decisions, in any of the three, that an answer of a person made,
	// then or before. Answers are not replayed: the comparison is about whether
	// somebody would be asked.
	Answered int `json:"answered"`
	// Unknown counts, by reason, what could not be decided again.
	Unknown map[string]int `json:"unknown"`
}

// Replay makes past decisions again under the configuration of now, and calls
// changed with each that comes out otherwise. It holds one decision at a time.
// Paths and programs are looked up as they are now.
func (d *RuleService) Replay(ctx context.Context, decisions iter.Seq2[history.Decision, error], changed func(Replayed) error) (ReplaySummary, error) {
	sum := ReplaySummary{Unknown: map[string]int{}, Became: map[string]int{}}
	for past, err := range decisions {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return sum, err
		}
		sum.Decisions++
		r, unfit := d.again(past)
		if unfit != "" {
			sum.Unknown[unfit]++
			continue
		}
		if past.Answered() {
			sum.Answered++
		}
		if r.NowReview {
			sum.Reviewed++
		}
		became := string(r.Was) + " -> " + string(r.Now)
		switch {
		case rank(r.Now) == rank(r.Was) && r.WasHeld != "" && r.NowHeld != "" && r.WasHeld != r.NowHeld:
			sum.Held++
			became = "held " + r.WasHeld + " -> " + r.NowHeld
		case rank(r.Now) == rank(r.Was):
			sum.Same++
			continue
		case rank(r.Now) > rank(r.Was):
			sum.Looser++
		default:
			sum.Stricter++
		}
		sum.Became[became]++
		if err := changed(r); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// Entries reads the audit log from its start.
func (d *RuleService) Entries(f audit.Filter) iter.Seq2[audit.Entry, error] { return d.cfg.Entries(f) }

func rank(d protocol.CheckDecision) int {
	switch d {
	case protocol.CheckAllow:
		return 2
	case protocol.CheckAsk:
		return 1
	}
	return 0
}

// again decides a past call by the rules of now.
func (d *RuleService) again(past history.Decision) (_ Replayed, unfit string) {
	e := past.Entry
	if past.Unfit != "" {
		return Replayed{}, past.Unfit
	}
	r := Replayed{
		Seq: e.Seq, Time: e.Time, Session: e.Session, Call: e.Call, Agent: e.Agent, Tool: e.Tool, Subject: past.Subject(),
		Was: wireEffect(past.Past()), WasStep: string(past.Record.Source), WasAction: string(past.Record.Action), WasRule: past.Rule,
	}
	if past.Record.Rule != "" {
		r.WasRule = past.Record.Rule
	}
	args, err := json.Marshal(past.Args)
	if err != nil {
		return r, "its arguments are not JSON"
	}
	f, err := d.forecast(unixsock.Peer{}, protocol.RulesTest{Tool: protocol.ToolName(e.Tool), Args: args, Agent: e.Agent}, past.Elsewhere)
	if err != nil {
		return r, d.refused(&r, err)
	}
	t := d.tested(f)
	r.Now, r.NowStep, r.NowRule, r.NowOrigin, r.NowReason = t.Decision, t.Step, t.Rule, t.Origin, t.Reason
	if past.Past() == tools.Allow && past.Held != sandboxprofile.Unclassified {
		r.WasHeld = past.Held.String()
	}
	r.NowReview = f.proposal.Review && r.Now != protocol.CheckDeny
	if held := f.proposal.Plan.Held(); r.Now == protocol.CheckAllow && held != sandboxprofile.Unclassified {
		r.NowHeld = held.String()
	}
	return r, ""
}

// refused is a call that would not come to a decision now. What is missing on
// this host says nothing about rules.
func (d *RuleService) refused(r *Replayed, err error) (unfit string) {
	if errors.Is(err, tools.ErrNotFound) || errors.Is(err, tools.ErrNotExecutable) {
		return "its program no longer exists"
	}
	r.Now, r.NowStep, r.NowReason = protocol.CheckDeny, string(approval.SourceInvalid), d.cfg.Judge.Wire(err).Message
	return ""
}
