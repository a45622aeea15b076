package seccomp

import (
	"fmt"
	"slices"
	"strings"
)

// Errno is the symbolic name of an error number, such as "EPERM". The number
// behind it differs between systems; only Filter needs it.
type Errno string

const (
	Nothing         Errno = "0" // the call succeeds, and does nothing
	EPERM           Errno = "EPERM"
	EACCES          Errno = "EACCES"
	EMFILE          Errno = "EMFILE"
	ENOTTY          Errno = "ENOTTY"
	EOPNOTSUPP      Errno = "EOPNOTSUPP"
	ENOSYS          Errno = "ENOSYS"
	EAFNOSUPPORT    Errno = "EAFNOSUPPORT"
	EPROTONOSUPPORT Errno = "EPROTONOSUPPORT"
)

// A Group is a set of calls that are denied for one reason, and lifted together.
type Group struct {
	Name   string
	Reason string
	Errno  Errno
	Rules  []Rule
}

// fixed groups are not lifted by a profile: the sandbox itself stands on them.
func (g Group) fixed() bool {
	return slices.Contains([]string{otherProcessesName, tracedExitsName, coreLimitName}, g.Name)
}

// A Rule matches a call by its name and all of its conditions.
type Rule struct {
	Call string
	When []Condition
}

// A Condition compares the masked bits of one argument, numbered from 0. A C int
// is 32 bits of a 64 bit register whose upper half the kernel ignores and a
// caller can fill at will, so for such an argument the mask has to leave the
// upper half out. That is why there is no condition without a mask: by one, the
// TIOCSTI rules of other sandboxes were bypassed (CVE-2019-10063).
type Condition struct {
	Arg   int
	Mask  uint64
	Value uint64
}

func (c Condition) String() string {
	return fmt.Sprintf("arg%d & %#x == %#x", c.Arg, c.Mask, c.Value)
}

func (r Rule) String() string {
	if len(r.When) == 0 {
		return r.Call
	}
	conds := make([]string, len(r.When))
	for i, c := range r.When {
		conds[i] = c.String()
	}
	return r.Call + " if " + strings.Join(conds, " and ")
}

// policy is the whole filter once groups are lifted.
type policy struct {
	deny  []Group
	allow []Rule
}

// newPolicy lifts groups. Lifting one that does not exist is an error: a
// misspelt name in a profile must not look as if it had worked.
func newPolicy(lift []string) (policy, error) {
	var p policy
	var known []string
	for _, g := range Groups() {
		lifted := slices.Contains(lift, g.Name)
		switch {
		case lifted && g.fixed():
			return policy{}, fmt.Errorf("seccomp: lift %q: the sandbox depends on this group; a profile cannot lift it", g.Name)
		case lifted:
			p.allow = append(p.allow, g.Rules...)
		default:
			p.deny = append(p.deny, g)
		}
		known = append(known, g.Name)
	}
	for _, name := range lift {
		if !slices.Contains(known, name) {
			return policy{}, fmt.Errorf("seccomp: lift %q: unknown group; use one of %s", name, strings.Join(known, ", "))
		}
	}
	p.allow = append(p.allow, allowed()...)
	return p, nil
}

// Check says whether every name of lift is a group.
func Check(lift []string) error {
	_, err := newPolicy(lift)
	return err
}

// Listing shows the filter as text, the same on every system.
func Listing(lift []string) (string, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("other architectures: kill the process\n")
	for _, g := range p.deny {
		fmt.Fprintf(&b, "\n%s: %s\n# %s\n", g.Name, g.Errno, g.Reason)
		for _, r := range g.Rules {
			fmt.Fprintf(&b, "\t%v\n", r)
		}
	}
	b.WriteString("\nallowed:\n")
	lines := make([]string, len(p.allow))
	for i, r := range p.allow {
		lines[i] = "\t" + r.String() + "\n"
	}
	slices.Sort(lines)
	for _, l := range slices.Compact(lines) {
		b.WriteString(l)
	}
	b.WriteString("\neverything else: ENOSYS\n")
	return b.String(), nil
}
