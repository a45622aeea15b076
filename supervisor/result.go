package supervisor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// callResult is what the agent gets for a call that came to its end.
func callResult(c *call, warnings []string) protocol.CallResult {
	r := protocol.CallResult{
		Content:     c.output.content(),
		ExitCode:    c.result.ExitCode,
		Signal:      c.result.Signal,
		DurationMS:  c.result.Duration.Milliseconds(),
		Truncated:   c.result.Truncated,
		StdoutBytes: c.result.Stdout,
		StderrBytes: c.result.Stderr,
		Violations:  c.violations,
		Decision:    wireDecision(c),
		PlanDigest:  c.digest,
		EnforcedBy:  protocol.EnforcedBy(c.enforced),
		Warnings:    warnings,
	}
	switch {
	case c.unstarted != "":
		r.Content = append(r.Content, protocol.NewContent(protocol.Stderr, []byte(c.unstarted)))
	case c.proposal.Plan.Action.Kind != sandboxprofile.Exec:
		fileResult(&r, c)
	case c.result.Cause == confine.NotStarted:
		text := fmt.Sprintf("sandgate: %s: %s\n", c.proposal.Plan.Action.Exec.Path, c.result.Errno)
		r.Content = append(r.Content, protocol.NewContent(protocol.Stderr, []byte(text)))
	}
	return r
}

// reportAppeared turns what the call left under protected names into violations.
func (c *call) reportAppeared() {
	paths := c.result.Appeared
	for _, path := range paths[:min(len(paths), maxViolations)] {
		c.violations = append(c.violations, protocol.Violation{Path: path,
			Reason: "has a protected name and was made by this call: look at it before a program of yours uses it"})
	}
	if more := len(paths) - maxViolations; more > 0 {
		c.violations = append(c.violations, protocol.Violation{Reason: fmt.Sprintf("%d more protected names were made by this call", more)})
	}
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
		d := wireDecision(c)
		out.Decision = &d
	}
	if c.result.Cause != "" {
		r := callResult(c, s.warnings(c))
		out.Result = &r
	}
	return &out
}

func mustJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("supervisor: bug: %T does not marshal: %v", v, err))
	}
	return b
}

// wireDecision names the rule that decided: a standing rule or remembered answer
// if one did, and else the tool's own.
func wireDecision(c *call) protocol.Decision {
	d := c.decision
	return protocol.Decision{
		Action: d.Action, Source: string(d.Source), Scope: d.Scope, Reason: d.Reason,
		Approver: d.Approver, Feedback: d.Feedback, Rule: cmp.Or(d.Rule, c.proposal.Rule),
	}
}

// warnings are the supervisor's own and those of the plan's profile.
func (s *Supervisor) warnings(c *call) []string {
	return slices.Concat(s.cfg.Warnings, c.warnings)
}

// details is what an approver sees beside the request itself: the rule that
// asks, where it runs, and what the sandbox will allow.
func details(p tools.Proposal, digest string, warnings []string) map[string]string {
	d := map[string]string{"rule": p.Rule, "plan": digest}
	if e := p.Plan.Action.Exec; e != nil {
		d["directory"] = e.Dir
		d["program"] = e.Path
	}
	if f := p.Plan.Action.File; f != nil {
		d["path"] = f.Path
	}
	var writable []string
	for path, rights := range p.Plan.Profile.Paths {
		if rights&sandboxprofile.Write != 0 {
			writable = append(writable, path)
		}
	}
	slices.Sort(writable)
	d["may write"] = strings.Join(writable, ", ")
	d["network"] = p.Plan.Profile.Network.Mode.String()
	if len(warnings) > 0 {
		d["warnings"] = strings.Join(warnings, "; ")
	}
	return d
}

// checkResult is the answer of tools.check.
func (s *Supervisor) checkResult(c *call, p tools.Proposal, checked error) (protocol.CheckResult, error) {
	forecast := s.cfg.Approvals.Check(s.question("", c, p, checked))
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
		e := wireError(err)
		r.Decision, r.Reason, r.Hint = protocol.CheckDeny, e.Message, e.HintText
	}
	if e := wireError(checked); e != nil {
		r.Reason, r.Hint = e.Message, e.HintText
		return r, nil
	}
	plan, _ := withoutContent(p.Plan)
	r.Plan, r.Profile = mustJSON(plan), mustJSON(plan.Profile)
	return r, nil
}
