package supervisor

import (
	"slices"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/violation"
	"github.com/sandgate/sandgate/tools"
)

// reportRefusals adds what the sandbox refused the call: what was observed first,
// and then what the program's standard error says, as far as the plan agrees.
func (s *Supervisor) reportRefusals(c *call, plan tools.Plan) {
	p := violation.Policy{Profile: plan.Profile, Operator: s.cfg.Operator}
	c.violations = append(c.violations, observed(p, plan.Action, c.result)...)
	if e := plan.Action.Exec; e != nil {
		inferred := p.Infer(c.output.errors.bytes(), e.Dir)
		if c.result.Exact {
			var refused []violation.Change
			for _, r := range c.result.Refused {
				refused = append(refused, violation.Change{Path: r.Path, Outside: r.Why == "outside"})
			}
			c.violations = append(c.violations, p.Exact(refused)...)
			inferred = p.Confirmed(inferred, refused, e.Dir)
		}
		c.violations = append(c.violations, slices.DeleteFunc(inferred, c.refusedHost)...)
	}
}

// refusedHost reports whether a violation says of a host what was observed of it
// already.
func (c *call) refusedHost(v protocol.Violation) bool {
	return v.Host != "" && slices.ContainsFunc(c.violations, func(o protocol.Violation) bool { return o.Host == v.Host })
}

// observed is what the end of the action itself shows.
func observed(p violation.Policy, a sandboxprofile.Action, r confine.Result) []protocol.Violation {
	var list []protocol.Violation
	if name := limitOf(r); name != "" {
		if v, ok := p.Limit(name, protocol.Observed); ok {
			list = append(list, v)
		}
	}
	path, right := asked(a)
	if r.Errno != "" && path != "" && p.Refused(path, right) {
		list = append(list, p.File(path, right, protocol.Observed))
	}
	return list
}

// asked is the path that an action is about, and what it does with it.
func asked(a sandboxprofile.Action) (string, protocol.Right) {
	switch {
	case a.Exec != nil:
		return a.Exec.Path, protocol.RightExecute
	case a.File == nil:
		return "", ""
	case a.Kind == sandboxprofile.WriteFile, a.Kind == sandboxprofile.EditFile:
		return a.File.Path, protocol.RightWrite
	}
	return a.File.Path, protocol.RightRead
}

// limitOf is the limit that ended an action, by its name in the configuration.
// SIGXCPU and SIGXFSZ are how the kernel ends what has used up its own
// (setrlimit(2)).
func limitOf(r confine.Result) string {
	switch r.Cause {
	case confine.TimedOut:
		return "timeout"
	case confine.OutputLimit:
		return "output"
	case confine.PidsLimit:
		return "pids"
	case confine.MemoryLimit:
		return "memory"
	case confine.CPULimit:
		return "cpu"
	case confine.FileSizeLimit:
		return "file_size"
	}
	if r.Truncated {
		return "output"
	}
	switch r.Signal {
	case "SIGXCPU":
		return "cpu"
	case "SIGXFSZ":
		return "file_size"
	}
	return ""
}
