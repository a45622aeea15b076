package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
)

// Filter compiles the filter with groups lifted to an array of struct sock_filter
// in native byte order, for this machine's architecture. The same groups always
// give the same bytes.
//
// The deny-list and the allow-list are two programs. They become one by sending every
// call that the first allows on to the second.
//
// The program without lifts, which nearly every sandbox has, is shipped: libseccomp takes
// as long to make it as a short tool runs. A test holds it against the one that
// libseccomp makes, which others hold against Decide.
func Filter(lift []string) ([]byte, error) {
	if len(lift) == 0 && shipped != "" {
		return []byte(shipped), nil
	}
	return filterFor(runtime.GOARCH, lift)
}

// filterFor is Filter for any architecture of this machine's byte order.
func filterFor(arch string, lift []string) ([]byte, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return nil, err
	}
	return p.compile(arch, compile)
}

// ServedFilter is Filter, but for set-group-id bits that are given to files which are
// there: a filter does not see whether such a file is a directory. It is for an init that
// does, and for programs that have ModesFilter or a broker besides.
func ServedFilter(lift []string) ([]byte, error) {
	if len(lift) == 0 && shippedServed != "" {
		return []byte(shippedServed), nil
	}
	return servedFor(runtime.GOARCH, lift)
}

func servedFor(arch string, lift []string) ([]byte, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return nil, err
	}
	return p.served().compile(arch, compile)
}

// judged are the calls that process 1 judges for programs.
func judged() []Rule { return append(setGroupID(), tracedExits().Rules...) }

// served is p without the rules of judged.
func (p policy) served() policy {
	left := judged()
	p.deny = slices.Clone(p.deny)
	for i := range p.deny {
		p.deny[i].Rules = slices.DeleteFunc(slices.Clone(p.deny[i].Rules), func(r Rule) bool {
			return slices.ContainsFunc(left, func(l Rule) bool { return r.Call == l.Call && slices.Equal(r.When, l.When) })
		})
	}
	return p
}

// ModesFilter refuses the calls that ServedFilter leaves out. Or with notify it sends them to a
// listener, and what would let other users of the machine write. Nil where the group is lifted: a
// program that may give its user's rights to every user needs no listener.
func ModesFilter(lift []string, notify bool) ([]byte, error) {
	if slices.Contains(lift, setIDName) {
		return nil, nil
	}
	p := program{arch: runtime.GOARCH, otherwise: retAllow}
	answer := retErrno | uint32(errnos[EPERM])
	if notify {
		answer = retNotify
	}
	p.add(answer, judged()...)
	if notify {
		p.add(answer, othersWrite()...)
	}
	f, err := compile(p)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile filter of modes: %w", err)
	}
	return f, nil
}

// A compiler makes BPF of a program.
type compiler func(program) ([]byte, error)

func (p policy) compile(arch string, compile compiler) ([]byte, error) {
	deny, err := denyProgram(arch, p.deny, compile)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile deny-list: %w", err)
	}
	list := program{arch: arch, otherwise: retErrno | uint32(errnos[ENOSYS])}
	list.add(retAllow, p.allow...)
	allow, err := compile(list)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile allow-list: %w", err)
	}
	return chain(deny, allow)
}

func denyProgram(arch string, groups []Group, compile compiler) ([]byte, error) {
	p := program{arch: arch, otherwise: retAllow}
	if err := p.deny(groups); err != nil {
		return nil, err
	}
	return compile(p)
}

// SharedFilter compiles SharedGroups. It is laid on a tool besides Filter: of two
// filters the kernel takes the stricter answer, so this one allows the rest.
func SharedFilter(sockets bool) ([]byte, error) {
	f, err := denyProgram(runtime.GOARCH, SharedGroups(sockets), compile)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile shared filter: %w", err)
	}
	return f, nil
}

// CeilingFilter compiles CeilingGroups. It is laid on a program besides Filter, and
// shipped like that one.
func CeilingFilter() ([]byte, error) {
	if shippedCeiling != "" {
		return []byte(shippedCeiling), nil
	}
	return ceilingFor(runtime.GOARCH)
}

func ceilingFor(arch string) ([]byte, error) {
	f, err := denyProgram(arch, CeilingGroups(), compile)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile the filter of a ceiling: %w", err)
	}
	return f, nil
}

// BrokeredFilter compiles b. Like SharedFilter it is laid on a tool besides Filter.
func BrokeredFilter(b Brokered) ([]byte, error) {
	f, err := b.compile(runtime.GOARCH, compile)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile filter with a broker: %w", err)
	}
	return f, nil
}

func (b Brokered) compile(arch string, compile compiler) ([]byte, error) {
	p := program{arch: arch, otherwise: retAllow}
	if err := p.deny(b.Denied()); err != nil {
		return nil, err
	}
	p.add(retNotify, b.Notified()...)
	return compile(p)
}

// BrokerFilter is ServedFilter for a broker itself, and shipped like it.
func BrokerFilter(lift []string) ([]byte, error) {
	if len(lift) == 0 && shippedBroker != "" {
		return []byte(shippedBroker), nil
	}
	return brokerFor(runtime.GOARCH, lift)
}

func brokerFor(arch string, lift []string) ([]byte, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return nil, err
	}
	// A lease shows the broker that no process writes to a file any more.
	p.deny = slices.DeleteFunc(p.deny, func(g Group) bool { return g.Name == leases().Name })
	for i := range p.deny {
		p.deny[i].Rules = slices.DeleteFunc(slices.Clone(p.deny[i].Rules), func(r Rule) bool { return slices.Contains(brokerCalls, r.Call) })
	}
	p.allow = append(p.allow, calls(brokerCalls...)...)
	return p.served().compile(arch, compile)
}

// maxInstructions is BPF_MAXINSNS of linux/bpf_common.h.
const maxInstructions = 4096

// chain puts second behind first and turns every "return allow" of first into a
// jump there. Jumps in BPF only go forward, and this one has a 32 bit offset.
func chain(first, second []byte) ([]byte, error) {
	if len(first)%instructionSize != 0 || len(second)%instructionSize != 0 {
		return nil, errors.New("seccomp: bug: a program is not a whole number of instructions")
	}
	out := append([]byte{}, first...)
	for at := 0; at < len(out); at += instructionSize {
		code, k := binary.NativeEndian.Uint16(out[at:]), binary.NativeEndian.Uint32(out[at+4:])
		if code != opReturn || k != retAllow {
			continue
		}
		binary.NativeEndian.PutUint16(out[at:], opJump)
		binary.NativeEndian.PutUint32(out[at+4:], uint32((len(first)-at)/instructionSize-1))
	}
	out = append(out, second...)
	if n := len(out) / instructionSize; n > maxInstructions {
		return nil, fmt.Errorf("seccomp: the program has %d instructions; the kernel accepts %d", n, maxInstructions)
	}
	return out, nil
}
