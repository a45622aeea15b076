//go:build linux && cgo

package seccomp

import (
	"fmt"
	"io"
	"os"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// compile makes one libseccomp filter for one architecture.
func compile(p program) ([]byte, error) {
	f, err := lib.NewFilter(action(p.otherwise))
	if err != nil {
		return nil, err
	}
	defer f.Release()
	if err := only(f, p.arch); err != nil {
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
	for _, r := range p.rules {
		if err := add(f, r.Rule, action(r.answer)); err != nil {
			return nil, err
		}
	}
	return export(f)
}

func action(answer uint32) lib.ScmpAction {
	switch {
	case answer == retAllow:
		return lib.ActAllow
	case answer == retNotify:
		return lib.ActNotify
	case answer&^0xffff == retErrno:
		return lib.ActErrno.SetReturnCode(int16(answer))
	}
	return lib.ActKillProcess
}

// only makes a new filter, which is for the native architecture, one for arch.
func only(f *lib.ScmpFilter, goarch string) error {
	arch, err := lib.GetArchFromString(goarch)
	if err != nil {
		return err
	}
	native, err := lib.GetNativeArch()
	if err != nil || arch == native {
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
// it. A call that libseccomp or this architecture does not know needs no rule: it cannot
// be on the compiled allow-list, so it is ENOSYS.
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
