package sandboxinit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// This file lays a ceiling (sandboxprofile.Ceiling) on a program before it is executed: a
// Landlock domain below that of the sandbox, and a filter beside its own. The program
// and all that it starts can do what both let them do. Process 1 keeps the rights that
// the next action may need.

// ceilings are the domains of one sandbox, by what they let programs do. A ruleset is
// used again for the next action of the same kind: making one costs more than laying it.
type ceilings struct {
	wire.Ceiling // its rules say which files are meant, since before any program ran
	// besides are the rules by which a program may change anything outside of Homes.
	besides []wire.LandlockRule
	filter  *unix.SockFprog
	domains map[string]int
}

// maxDomains bounds the rulesets that are kept.
const maxDomains = 32

func newCeilings(s *wire.Setup) (*ceilings, error) {
	c := &ceilings{Ceiling: s.Ceiling, domains: map[string]int{}}
	if len(c.Seccomp) > 0 {
		var err error
		if c.filter, err = filterProgram(c.Seccomp); err != nil {
			return nil, err
		}
	}
	for i := range c.Writable {
		r := &c.Writable[i]
		var st unix.Stat_t
		if err := unix.Lstat(r.Path, &st); err != nil {
			return nil, fmt.Errorf("%q: %w", r.Path, err)
		}
		r.File = wire.FileID{Dev: st.Dev, Ino: st.Ino}
	}
	rules := s.Landlock.Rules
	if s.Shared != nil && s.Shared.Broker != nil {
		rules = s.Shared.Broker.Programs.Rules
	}
	for _, r := range rules {
		above := func(home string) bool { return sandboxprofile.Contains(r.Path, home) }
		var st unix.Stat_t
		if r.Access &= c.Changing; r.Access == 0 || slices.ContainsFunc(c.Homes, above) || unix.Lstat(r.Path, &st) != nil {
			continue
		}
		r.File = wire.FileID{Dev: st.Dev, Ino: st.Ino}
		c.besides = append(c.besides, r)
	}
	return c, nil
}

// A layer is put on one program, in addition to those of its sandbox.
type layer struct {
	domain int // Landlock ruleset, -1 for none
	filter *unix.SockFprog
	still  bool // nothing but scratch is changed, by a broker neither
	fixed  []string
}

var noLayer = layer{domain: -1}

var errNoCeiling = errors.New("this backend cannot enforce the ceiling")

// over gives the layer for an action. Nil means no ceiling.
func (c *ceilings) over(l *sandboxprofile.Ceiling) (layer, error) {
	if l == nil {
		return noLayer, nil
	}
	reads := l.Class == sandboxprofile.ClassRead
	switch {
	case l.Class <= sandboxprofile.Unclassified || l.Class > sandboxprofile.ClassBeyond:
		return noLayer, errNoCeiling
	case !reads && l.AnyProgram && !l.EmptyHome:
		return noLayer, nil // what the profile says
	}
	out := layer{still: reads}
	if l.EmptyHome {
		out.fixed = c.Homes
	}
	if reads {
		out.filter = c.filter
		if c.filter == nil && !c.Absent {
			return noLayer, errNoCeiling
		}
	}
	key := l.Class.String() + fmt.Sprint(l.EmptyHome)
	if !l.AnyProgram {
		key += "\x00" + strings.Join(l.Programs, "\x00")
	}
	domain, known := c.domains[key]
	if !known {
		var err error
		if domain, err = c.domain(reads, l); err != nil {
			return noLayer, err
		}
		c.keep(key, domain)
	}
	out.domain = domain
	return out, nil
}

func (c *ceilings) keep(key string, domain int) {
	if len(c.domains) >= maxDomains {
		for old, fd := range c.domains {
			unix.Close(fd)
			delete(c.domains, old)
		}
	}
	c.domains[key] = domain
}

// domain makes the ruleset. What it does not handle it leaves as it is: reading is
// for the sandbox's own domain to say.
func (c *ceilings) domain(reads bool, l *sandboxprofile.Ceiling) (int, error) {
	if c.Changing == 0 {
		if c.Absent {
			return -1, nil
		}
		return -1, errNoCeiling
	}
	var handled uint64
	var writable []wire.LandlockRule
	switch {
	case reads:
		handled, writable = c.Changing, c.Writable
	case l.EmptyHome:
		handled, writable = c.Changing, c.besides
	}
	if !l.AnyProgram {
		handled |= c.Execute
	}
	set, err := syscall.LandlockCreateRuleset(&syscall.RulesetAttr{HandledAccessFS: handled}, 0)
	if err != nil {
		return -1, fmt.Errorf("create ruleset: %w", err)
	}
	defer unix.Close(set)
	for _, r := range writable {
		fd, err := openSame(r)
		if err := allow(set, fd, r.Access&c.Changing, err); err != nil {
			return -1, err
		}
	}
	for _, path := range l.Programs {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err := allow(set, fd, c.Execute, err); err != nil {
			return -1, fmt.Errorf("%q: %w", path, err)
		}
	}
	return unix.FcntlInt(uintptr(set), unix.F_DUPFD_CLOEXEC, firstOwn)
}

// allow adds a rule for a file that was opened, if it was, and closes it.
func allow(set, fd int, access uint64, err error) error {
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if access == 0 {
		return nil
	}
	return syscall.LandlockAddPathBeneathRule(set, &syscall.PathBeneathAttr{ParentFd: fd, AllowedAccess: access}, 0)
}

// tooLow reports whether an action is more than its ceiling allows by its kind. File
// operations are our own, and no domain of a program holds them.
func tooLow(a sandboxprofile.Action) bool { return a.Ceiling != nil && a.Ceiling.Validate(a) != nil }
