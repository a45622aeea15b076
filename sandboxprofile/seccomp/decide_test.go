package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// What the filters are held against: the same groups, evaluated in plain Go.

// An Action is what the filter does with a call: let it run, or fail it with an
// errno. The zero Action is no answer; only Allow and an Errno are made.
type Action struct {
	Allow bool
	Errno Errno
}

func (a Action) String() string {
	if a.Allow {
		return "allow"
	}
	return "errno " + string(a.Errno)
}

func (c Condition) matches(args [6]uint64) bool { return args[c.Arg]&c.Mask == c.Value }

func (r Rule) matches(call string, args [6]uint64) bool {
	return r.Call == call && !slices.ContainsFunc(r.When, func(c Condition) bool { return !c.matches(args) })
}

// Decide says what the filter with these groups lifted does with a call of the
// machine's own architecture. A name that it does not know is ENOSYS.
func Decide(lift []string, call string, args [6]uint64) (Action, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return Action{}, err
	}
	return p.decide(call, args), nil
}

func (p policy) decide(call string, args [6]uint64) Action {
	for _, g := range p.deny {
		for _, r := range g.Rules {
			if r.matches(call, args) {
				return Action{Errno: g.Errno}
			}
		}
	}
	for _, r := range p.allow {
		if r.matches(call, args) {
			return Action{Allow: true}
		}
	}
	return Action{Errno: ENOSYS}
}

// DecideCeiling says what CeilingFilter does with a call.
func DecideCeiling(call string, args [6]uint64) Action {
	return decideGroups(CeilingGroups(), call, args)
}

// SharedListing shows SharedGroups as text, the same on every system.
func SharedListing(sockets bool) string {
	var b strings.Builder
	for _, g := range SharedGroups(sockets) {
		fmt.Fprintf(&b, "%s: %s\n# %s\n", g.Name, g.Errno, g.Reason)
		for _, r := range g.Rules {
			fmt.Fprintf(&b, "\t%v\n", r)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// DecideShared says what SharedFilter does with a call.
func DecideShared(sockets bool, call string, args [6]uint64) Action {
	return decideGroups(SharedGroups(sockets), call, args)
}

func decideGroups(groups []Group, call string, args [6]uint64) Action {
	for _, g := range groups {
		if slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.matches(call, args) }) {
			return Action{Errno: g.Errno}
		}
	}
	return Action{Allow: true}
}
