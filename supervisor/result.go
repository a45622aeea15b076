package supervisor

import (
	"cmp"
	"errors"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
)

// callResult is the agent's result of a call that came to its end.
func callResult(c *call, warnings []string) protocol.CallResult {
	r := protocol.CallResult{
		Structured:  c.structured,
		ExitCode:    c.result.ExitCode,
		Signal:      c.result.Signal,
		DurationMS:  c.result.Duration.Milliseconds(),
		Truncated:   c.result.Truncated,
		StdoutBytes: c.result.Stdout,
		StderrBytes: c.result.Stderr,
		Violations:  c.violations,
		Exposed:     c.exposed,
		Decision:    c.wireDecision(),
		PlanDigest:  c.digest,
		EnforcedBy:  protocol.EnforcedBy(c.enforced),
		Warnings:    warnings,
	}
	tooLong := c.output.Size() >= protocol.MaxMessage // less can be too long too, when it is escaped
	if !tooLong {
		r.Content = c.output.Content()
		tooLong = c.output != nil && server.TooLong(r)
	}
	if tooLong {
		r.Content, r.Truncated = c.output.Shorter(), true
	}
	switch {
	case c.answered != nil:
		r.Content, r.Structured = c.answered.content, c.answered.structured
	case c.unstarted != "":
		r.Content = append(r.Content, protocol.NewContent(protocol.Stderr, []byte(c.unstarted)))
	case c.proposal.Plan.Action.Kind != sandboxprofile.Exec:
		outcome.OfFile(&r, c.proposal.Plan, c.result)
	case c.result.Cause == confine.NotStarted:
		text := "sandgate: " + outcome.NotStarted(c.result, c.proposal.Plan.Action.Exec) + "\n"
		r.Content = append(r.Content, protocol.NewContent(protocol.Stderr, []byte(text)))
	}
	return r
}

// notFound makes a result, as a shell would, of a program that is not there or
// cannot be executed.
func (c *call) notFound(err error) bool {
	switch {
	case errors.Is(err, tools.ErrNotFound):
		c.result = confine.Result{Cause: confine.NotStarted, ExitCode: 127, Errno: "ENOENT"}
	case errors.Is(err, tools.ErrNotExecutable):
		c.result = confine.Result{Cause: confine.NotStarted, ExitCode: 126, Errno: "EACCES"}
	default:
		return false
	}
	c.unstarted = "sandgate: " + err.Error() + "\n"
	return true
}

// withEvidence adds to a refusal who made it, of what plan, and what the call had
// done if it had started.
func (s *Supervisor) withEvidence(c *call, e *protocol.Error) *protocol.Error {
	out := *e
	out.PlanDigest = c.digest
	if c.decision.Action != "" {
		d := c.wireDecision()
		out.Decision = &d
	}
	if c.result.Cause != "" {
		r := callResult(c, s.ownWarnings(c))
		out.Result = &r
	}
	return &out
}

// wireDecision names the rule that decided: a standing rule or remembered answer
// if one did, and else the tool's own.
func (c *call) wireDecision() protocol.Decision {
	d := protocol.DecisionOf(c.decision)
	d.Rule = cmp.Or(d.Rule, c.proposal.Rule)
	return d
}

// warnings are the supervisor's own, those of the plan's profile and those of the
// sandbox, each once.
func (s *Supervisor) warnings(c *call) []string {
	var all []string
	for _, w := range slices.Concat(s.cfg.Warnings, c.warnings) {
		if !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all
}

// ownWarnings are those of a call's result. What the profile lists is the same at each call, and a model would
// pay for it each time: prompts, checks and `profile explain` say it.
func (s *Supervisor) ownWarnings(c *call) []string {
	return slices.DeleteFunc(s.warnings(c), func(w string) bool { return slices.Contains(c.profile.Warnings, w) })
}

// checkResult is the answer of tools.check.
func (s *Supervisor) checkResult(c *call, p tools.Proposal, checked error) (protocol.CheckResult, error) {
	forecast := s.cfg.Approvals.Check(s.question(c, p, checked))
	r := protocol.CheckResult{
		Rule:       p.Rule,
		Reason:     forecast.Reason,
		Hint:       forecast.Hint,
		PlanDigest: c.digest,
		Warnings:   s.warnings(c),
	}
	switch forecast.Effect {
	case approval.Allow:
		r.Decision = protocol.CheckAllow
	case approval.Ask:
		r.Decision = protocol.CheckAsk
	default:
		r.Decision = protocol.CheckDeny
	}
	if forecast.Rule != "" {
		r.Rule = forecast.Rule
	}
	if err := s.refuseUnconfined(); err != nil {
		e := failure.Wire(err)
		r.Decision, r.Reason, r.Hint = protocol.CheckDeny, e.Message, e.HintText
	}
	if e := failure.Wire(checked); e != nil {
		r.Reason, r.Hint = e.Message, e.HintText
		return r, nil
	}
	plan, _ := history.WithoutContent(p.Plan)
	plan.Pins = slices.Clone(plan.Pins)
	for i := range plan.Pins { // what is asked about before it is read is not told by its hash
		pin := &plan.Pins[i]
		if pin.LeadsElsewhere() { // nor where a link leads that an agent can make
			*pin, r.PlanDigest = tools.Pin{Path: pin.Named}, ""
		}
		if slices.ContainsFunc(p.Withheld, func(dir string) bool { return sandboxprofile.Contains(dir, pin.Path) }) {
			*pin, r.PlanDigest = tools.Pin{Path: pin.Path}, ""
		}
	}
	r.Plan, r.Profile = must.JSON(plan), must.JSON(plan.Profile)
	return r, nil
}
