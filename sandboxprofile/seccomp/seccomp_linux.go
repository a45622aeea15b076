//go:build linux && cgo

package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// Filter compiles the filter with groups lifted to an array of struct sock_filter
// in native byte order, for this machine's architecture. The same groups always
// give the same bytes.
//
// libseccomp has one default per program and no order between overlapping rules
// with different actions, so the deny-list and the allow-list are two programs.
// They become one by sending every call that the first allows on to the second.
//
// The program without lifts, which nearly every sandbox has, is shipped: compiling it
// takes as long as a short tool runs. A test holds it against the one that
// libseccomp makes, which others hold against Decide.
func Filter(lift []string) ([]byte, error) {
	if len(lift) == 0 && shipped != "" {
		return []byte(shipped), nil
	}
	return filterFor(lib.ArchNative, lift)
}

// filterFor is Filter for any architecture of this machine's byte order.
func filterFor(arch lib.ScmpArch, lift []string) ([]byte, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return nil, err
	}
	return p.compile(arch)
}

func (p policy) compile(arch lib.ScmpArch) ([]byte, error) {
	deny, err := denyProgram(arch, p.deny)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile deny-list: %w", err)
	}
	allow, err := allowProgram(arch, p.allow)
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile allow-list: %w", err)
	}
	return chain(deny, allow)
}

// SharedFilter compiles SharedGroups. It is laid on a tool besides Filter: of two
// filters the kernel takes the stricter answer, so this one allows the rest.
func SharedFilter(sockets bool) ([]byte, error) {
	f, err := denyProgram(lib.ArchNative, SharedGroups(sockets))
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
	return ceilingFor(lib.ArchNative)
}

func ceilingFor(arch lib.ScmpArch) ([]byte, error) {
	f, err := denyProgram(arch, CeilingGroups())
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile the filter of a ceiling: %w", err)
	}
	return f, nil
}

// BrokeredFilter compiles b. Like SharedFilter it is laid on a tool besides Filter.
func BrokeredFilter(b Brokered) ([]byte, error) {
	f, err := program(lib.ArchNative, lib.ActAllow, func(f *lib.ScmpFilter) error {
		if err := deny(f, b.Denied()); err != nil {
			return err
		}
		for _, r := range b.Notified() {
			if err := add(f, r, lib.ActNotify); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("seccomp: compile filter with a broker: %w", err)
	}
	return f, nil
}

// BrokerFilter is Filter for a broker itself.
func BrokerFilter(lift []string) ([]byte, error) {
	p, err := newPolicy(lift)
	if err != nil {
		return nil, err
	}
	for i := range p.deny {
		p.deny[i].Rules = slices.DeleteFunc(slices.Clone(p.deny[i].Rules), func(r Rule) bool { return slices.Contains(brokerCalls, r.Call) })
	}
	p.allow = append(p.allow, calls(brokerCalls...)...)
	return p.compile(lib.ArchNative)
}

func denyProgram(arch lib.ScmpArch, groups []Group) ([]byte, error) {
	return program(arch, lib.ActAllow, func(f *lib.ScmpFilter) error { return deny(f, groups) })
}

func deny(f *lib.ScmpFilter, groups []Group) error {
	for _, g := range groups {
		errno, err := number(g.Errno)
		if err != nil {
			return err
		}
		for _, r := range g.Rules {
			if err := add(f, r, lib.ActErrno.SetReturnCode(int16(errno))); err != nil {
				return err
			}
		}
	}
	return nil
}

func allowProgram(arch lib.ScmpArch, rules []Rule) ([]byte, error) {
	return program(arch, lib.ActErrno.SetReturnCode(int16(syscall.ENOSYS)), func(f *lib.ScmpFilter) error {
		for _, r := range rules {
			if err := add(f, r, lib.ActAllow); err != nil {
				return err
			}
		}
		return nil
	})
}

// program builds one libseccomp filter for one architecture.
func program(arch lib.ScmpArch, otherwise lib.ScmpAction, rules func(*lib.ScmpFilter) error) ([]byte, error) {
	f, err := lib.NewFilter(otherwise)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	if err := only(f, arch); err != nil {
		return nil, err
	}
	if err := f.SetBadArchAction(lib.ActKillProcess); err != nil {
		return nil, fmt.Errorf("set action for other architectures: %w", err)
	}
	// A binary tree: the kernel runs the filter once for every system call when
	// it is loaded, to learn which ones it always allows.
	if err := f.SetOptimize(2); err != nil {
		return nil, fmt.Errorf("set optimisation: %w", err)
	}
	if err := rules(f); err != nil {
		return nil, err
	}
	return export(f)
}

// only makes a new filter, which is for the native architecture, one for arch.
func only(f *lib.ScmpFilter, arch lib.ScmpArch) error {
	native, err := lib.GetNativeArch()
	if err != nil || arch == lib.ArchNative || arch == native {
		return err
	}
	if err := f.AddArch(arch); err != nil {
		return fmt.Errorf("add architecture %v: %w", arch, err)
	}
	if err := f.RemoveArch(native); err != nil {
		return fmt.Errorf("remove architecture %v: %w", native, err)
	}
	return nil
}

// add adds one rule. libseccomp takes the native number of a call and translates
// it. A call that libseccomp or this architecture does not know needs no rule: it cannot be on the compiled allow-list, so it is ENOSYS.
func add(f *lib.ScmpFilter, r Rule, action lib.ScmpAction) error {
	nr, err := lib.GetSyscallFromName(r.Call)
	if err != nil || nr < 0 {
		return nil
	}
	var conds []lib.ScmpCondition
	for _, c := range r.When {
		cond, err := lib.MakeCondition(uint(c.Arg), lib.CompareMaskedEqual, c.Mask, c.Value)
		if err != nil {
			return fmt.Errorf("rule %v: %w", r, err)
		}
		conds = append(conds, cond)
	}
	if err := f.AddRuleConditional(nr, action, conds); err != nil {
		return fmt.Errorf("rule %v: %w", r, err)
	}
	return nil
}

// export goes through a memfd: libseccomp older than 2.6 only writes to a file.
func export(f *lib.ScmpFilter) ([]byte, error) {
	fd, err := unix.MemfdCreate("seccomp", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "seccomp")
	defer file.Close()
	if err := f.ExportBPF(file); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

const instructionSize = 8 // struct sock_filter: u16 code, u8 jt, u8 jf, u32 k

// maxInstructions is BPF_MAXINSNS of linux/bpf_common.h.
const maxInstructions = 4096

// chain puts second behind first and turns every "return allow" of first into a
// jump there. Jumps in BPF only go forward, and this one has a 32 bit offset.
func chain(first, second []byte) ([]byte, error) {
	if len(first)%instructionSize != 0 || len(second)%instructionSize != 0 {
		return nil, errors.New("seccomp: bug: a program is no whole number of instructions")
	}
	out := append([]byte{}, first...)
	for at := 0; at < len(out); at += instructionSize {
		code, k := binary.NativeEndian.Uint16(out[at:]), binary.NativeEndian.Uint32(out[at+4:])
		if code != unix.BPF_RET|unix.BPF_K || k != unix.SECCOMP_RET_ALLOW {
			continue
		}
		binary.NativeEndian.PutUint16(out[at:], unix.BPF_JMP|unix.BPF_JA)
		binary.NativeEndian.PutUint32(out[at+4:], uint32((len(first)-at)/instructionSize-1))
	}
	out = append(out, second...)
	if n := len(out) / instructionSize; n > maxInstructions {
		return nil, fmt.Errorf("seccomp: the program has %d instructions, the kernel takes %d", n, maxInstructions)
	}
	return out, nil
}

func number(e Errno) (syscall.Errno, error) {
	switch e {
	case EPERM:
		return syscall.EPERM, nil
	case EACCES:
		return syscall.EACCES, nil
	case ENOTTY:
		return syscall.ENOTTY, nil
	case EOPNOTSUPP:
		return syscall.EOPNOTSUPP, nil
	case ENOSYS:
		return syscall.ENOSYS, nil
	case EAFNOSUPPORT:
		return syscall.EAFNOSUPPORT, nil
	case EPROTONOSUPPORT:
		return syscall.EPROTONOSUPPORT, nil
	}
	return 0, fmt.Errorf("seccomp: bug: errno %q has no number", e)
}
