package outcome

import (
	"slices"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/violation"
)

// Refusals are what the sandbox refused a call, beyond what is known: what was observed
// first, and then what the program's standard error says, as far as the plan agrees.
func Refusals(p violation.Policy, a sandboxprofile.Action, r confine.Result, o *Output, known []protocol.Violation) []protocol.Violation {
	if l := a.Ceiling; l != nil && l.EmptyHome {
		p.Fixed = p.Profile.Fleeting()
	}
	p.Elsewhere = r.Exact // a broker is there where no mount can lay a directory over another
	list := observed(p, a, r)
	if e := a.Exec; e != nil {
		inferred := p.Infer(o.errorTail(), e.Dir)
		if r.Exact {
			var refused []violation.Change
			for _, r := range r.Refused {
				refused = append(refused, violation.Change{Path: r.Path, Outside: r.Why == "outside"})
			}
			list = append(list, p.Exact(refused, r.RefusedMore)...)
			inferred = p.Confirmed(inferred, refused, e.Dir)
		}
		of := slices.Concat(known, list) // what is said of a host that was observed already
		list = append(list, slices.DeleteFunc(inferred, func(v protocol.Violation) bool {
			return v.Host != "" && slices.ContainsFunc(of, func(o protocol.Violation) bool { return o.Host == v.Host })
		})...)
	}
	return list
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
