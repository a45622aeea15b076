package seccomp

import "fmt"

// Answers of a filter (SECCOMP_RET_* of linux/seccomp.h).
const (
	retKill   uint32 = 0x80000000 // the process, with SIGSYS
	retErrno  uint32 = 0x00050000 // the lower 16 bits are the errno
	retNotify uint32 = 0x7fc00000
	retAllow  uint32 = 0x7fff0000
)

// A program is one list of rules for one architecture, before it is compiled. A rule that
// was added first goes first. Rules for a call that the architecture does not have are left
// out: such a call cannot be made.
type program struct {
	arch      string // a GOARCH
	otherwise uint32
	rules     []answered
}

type answered struct {
	Rule
	answer uint32
}

func (p *program) add(answer uint32, rules ...Rule) {
	for _, r := range rules {
		p.rules = append(p.rules, answered{r, answer})
	}
}

// deny has the groups' calls fail.
func (p *program) deny(groups []Group) error {
	for _, g := range groups {
		errno, err := number(g.Errno)
		if err != nil {
			return err
		}
		p.add(retErrno|uint32(errno), g.Rules...)
	}
	return nil
}

// errnos are the same numbers on every architecture that sandgate is built for
// (asm-generic/errno.h).
var errnos = map[Errno]uint16{Nothing: 0, EPERM: 1, EACCES: 13, EMFILE: 24, ENOTTY: 25, ENOSYS: 38, EPROTONOSUPPORT: 93, EOPNOTSUPP: 95, EAFNOSUPPORT: 97}

func number(e Errno) (uint16, error) {
	n, ok := errnos[e]
	if !ok {
		return 0, fmt.Errorf("seccomp: bug: errno %q has no number", e)
	}
	return n, nil
}
