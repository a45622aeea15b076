//go:build linux && cgo

package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// machine interprets a filter. The interpreter reads words as big-endian, the
// kernel as native: the data is laid out to give the same words.
type machine struct{ vm *bpf.VM }

func load(t testing.TB, lift ...string) machine { return loadFor(t, native(t), lift...) }

func loadFor(t testing.TB, arch lib.ScmpArch, lift ...string) machine {
	t.Helper()
	prog, err := filterFor(arch.String(), lift)
	if err != nil {
		t.Fatal(err)
	}
	return interpret(t, prog)
}

func interpret(t testing.TB, prog []byte) machine {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(prog)/instructionSize)
	for i := range raw {
		b := prog[i*instructionSize:]
		raw[i] = bpf.RawInstruction{Op: binary.NativeEndian.Uint16(b), Jt: b[2], Jf: b[3], K: binary.NativeEndian.Uint32(b[4:])}
	}
	insns, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program has an instruction that cannot be disassembled")
	}
	vm, err := bpf.NewVM(insns)
	if err != nil {
		t.Fatal(err)
	}
	return machine{vm}
}

// A fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(...any)
}

// run gives SECCOMP_RET_* for a call (struct seccomp_data, seccomp(2)).
func (m machine) run(t fataler, nr, arch uint32, args [6]uint64) uint32 {
	t.Helper()
	var data []byte
	word := func(v uint32) { data = binary.BigEndian.AppendUint32(data, v) }
	word(nr)
	word(arch)
	word(0) // instruction pointer
	word(0)
	for _, a := range args {
		lo, hi := uint32(a), uint32(a>>32)
		if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
			lo, hi = hi, lo
		}
		word(lo)
		word(hi)
	}
	ret, err := m.vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(ret)
}

// architectures are those that sandgate is built for, by their audit number.
var architectures = map[lib.ScmpArch]uint32{lib.ArchAMD64: unix.AUDIT_ARCH_X86_64, lib.ArchARM64: unix.AUDIT_ARCH_AARCH64}

func native(t testing.TB) lib.ScmpArch {
	t.Helper()
	arch, err := lib.GetNativeArch()
	if err != nil {
		t.Fatal(err)
	}
	return arch
}

func nativeArch(t testing.TB) uint32 {
	t.Helper()
	arch := native(t)
	if architectures[arch] == 0 {
		t.Fatalf("the test does not know the audit number of %v", arch)
	}
	return architectures[arch]
}

func expected(t fataler, a Action) uint32 {
	t.Helper()
	if a.Allow {
		return unix.SECCOMP_RET_ALLOW
	}
	n, err := number(a.Errno)
	if err != nil {
		t.Fatal(err)
	}
	return unix.SECCOMP_RET_ERRNO | uint32(n)
}

// interesting are the argument values around which rules change their mind.
func interesting() []uint64 {
	seen := map[uint64]bool{0: true, 1: true, low32: true, ^uint64(0): true, 1 << 32: true}
	for _, g := range Groups() {
		for _, r := range g.Rules {
			for _, c := range r.When {
				seen[c.Value] = true
			}
		}
	}
	for _, p := range inetProtocols {
		seen[p] = true
	}
	var list []uint64
	for v := range seen {
		list = append(list, v)
	}
	return list
}

var garbage = []uint64{0, 0, 0, 1 << 32, 0xdeadbeef << 32, 0xffffffff << 32}

// TestProgramAgreesWithDecide: for every architecture that sandgate is built for,
// whichever this one is, the program says of each number what the policy says of
// the call that has it there. On AArch64 the old calls (open, fork, ...) have none.
func TestProgramAgreesWithDecide(t *testing.T) {
	for arch := range architectures {
		t.Run(arch.String(), func(t *testing.T) { agrees(t, arch) })
	}
}

func agrees(t *testing.T, arch lib.ScmpArch) {
	m := loadFor(t, arch)
	values := interesting()
	random := rand.New(rand.NewPCG(1, 2))
	arg := func() uint64 {
		pick := func() uint64 { return values[random.IntN(len(values))] }
		v := pick()
		v |= pick()
		if random.IntN(4) == 0 {
			v = random.Uint64()
		}
		return v | garbage[random.IntN(len(garbage))]
	}
	p, err := newPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for nr := range uint32(600) {
		name, err := lib.ScmpSyscall(nr).GetNameByArch(arch)
		if err == nil {
			named++
		}
		for range 400 {
			args := [6]uint64{arg(), arg(), arg(), arg(), arg(), arg()}
			if got, want := m.run(t, nr, architectures[arch], args), expected(t, p.decide(name, args)); got != want {
				t.Fatalf("%s (%d) %#x: the program gives %#x, Decide %#x", name, nr, args, got, want)
			}
		}
	}
	if named < 250 {
		t.Errorf("libseccomp names %d calls of %v", named, arch)
	}
}

// TestEachArchitectureKillsTheOther: the same number is another call there.
func TestEachArchitectureKillsTheOther(t *testing.T) {
	for arch, own := range architectures {
		m := loadFor(t, arch)
		for _, other := range architectures {
			got := m.run(t, 0xffff, other, [6]uint64{})
			if killed := got == unix.SECCOMP_RET_KILL_PROCESS; killed != (other != own) {
				t.Errorf("filter for %v, call of %#x: got %#x", arch, other, got)
			}
		}
	}
}

func TestLiftedProgramAgreesWithDecide(t *testing.T) {
	arch, values := nativeArch(t), interesting()
	for _, g := range Groups() {
		if g.fixed() {
			continue
		}
		m := load(t, g.Name)
		rapid.Check(t, func(rt *rapid.T) {
			r := rapid.SampledFrom(g.Rules).Draw(rt, "rule")
			nr, err := lib.GetSyscallFromName(r.Call)
			if err != nil || nr < 0 {
				return // not on this architecture; the numbers above 600 show ENOSYS
			}
			var args [6]uint64
			for i := range args {
				args[i] = rapid.SampledFrom(values).Draw(rt, "value") | rapid.SampledFrom(garbage).Draw(rt, "garbage")
			}
			for _, c := range r.When {
				args[c.Arg] = args[c.Arg]&^c.Mask | c.Value
			}
			want, err := Decide([]string{g.Name}, r.Call, args)
			if err != nil {
				rt.Fatal(err)
			}
			if got := m.run(t, uint32(nr), arch, args); got != expected(t, want) {
				rt.Fatalf("%s lifted, %s %#x: the program gives %#x, Decide %v", g.Name, r.Call, args, got, want)
			}
		})
	}
}

func TestOtherArchitecturesAreKilled(t *testing.T) {
	m, own := load(t), nativeArch(t)
	for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_RISCV64, 0, ^uint32(0)} {
		if got := m.run(t, 0, arch, [6]uint64{}); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("architecture %#x: got %#x, want the process killed", arch, got)
		}
	}
	if got := m.run(t, 0, own, [6]uint64{}); got == unix.SECCOMP_RET_KILL_PROCESS {
		t.Error("the native architecture is killed")
	}
	if own == unix.AUDIT_ARCH_X86_64 {
		const x32 = 0x40000000
		if got := m.run(t, x32|1, own, [6]uint64{}); got != unix.SECCOMP_RET_KILL_PROCESS {
			t.Errorf("x32 write: got %#x, want the process killed", got)
		}
	}
}

func TestFilterIsDeterministic(t *testing.T) {
	first, err := Filter([]string{"ptrace", "perf"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Filter([]string{"perf", "ptrace"})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two compilations of the same groups differ")
	}
}

// TestEveryCallIsKnown finds misspelt names: libseccomp knows them all, but for
// calls newer than the oldest supported release of it.
func TestEveryCallIsKnown(t *testing.T) {
	newer := map[string]bool{
		"open_tree_attr": true, "mseal": true, "map_shadow_stack": true, "futex_wake": true, "futex_wait": true,
		"futex_requeue": true, "fchmodat2": true, "cachestat": true,
	}
	check := func(r Rule) {
		if _, err := lib.GetSyscallFromName(r.Call); err != nil && !newer[r.Call] {
			t.Errorf("libseccomp does not know %q", r.Call)
		}
	}
	p, err := newPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.deny {
		for _, r := range g.Rules {
			check(r)
		}
	}
	for _, r := range p.allow {
		check(r)
	}
}

func TestChainKeepsProgramsApart(t *testing.T) {
	ret := func(k uint32) []byte {
		b := make([]byte, instructionSize)
		binary.NativeEndian.PutUint16(b, unix.BPF_RET|unix.BPF_K)
		binary.NativeEndian.PutUint32(b[4:], k)
		return b
	}
	errno := unix.SECCOMP_RET_ERRNO | uint32(syscall.EPERM)
	out, err := chain(append(ret(unix.SECCOMP_RET_ALLOW), ret(errno)...), ret(unix.SECCOMP_RET_ALLOW))
	if err != nil {
		t.Fatal(err)
	}
	if got := binary.NativeEndian.Uint32(out[4:]); got != 1 {
		t.Errorf("the jump skips %d instructions, want 1", got)
	}
	if _, err := chain(ret(0)[:5], nil); err == nil {
		t.Error("half an instruction was accepted")
	}
}

func BenchmarkFilter(b *testing.B) {
	for b.Loop() {
		if _, err := Filter(nil); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleDecide() {
	a, _ := Decide(nil, "ioctl", [6]uint64{0, ioctlTIOCSTI | 1<<32})
	fmt.Println(a)
	a, _ = Decide([]string{"terminal_input"}, "ioctl", [6]uint64{0, ioctlTIOCSTI})
	fmt.Println(a)
	// Output:
	// errno EPERM
	// allow
}

// TestOtherProcessesAreOutOfReach: limits, priorities and affinity are a program's own
// business, by the number 0 alone, and no profile lifts that.
func TestOtherProcessesAreOutOfReach(t *testing.T) {
	for _, x := range []struct {
		call string
		args [6]uint64
		own  bool
	}{
		{"prlimit64", [6]uint64{1, 7}, false},
		{"prlimit64", [6]uint64{4711}, false},
		{"prlimit64", [6]uint64{0, 7}, true},
		{"prlimit64", [6]uint64{low32, 7}, true},   // -1: no process has it
		{"prlimit64", [6]uint64{7 << 32, 7}, true}, // the upper half is not part of an int
		{"setpriority", [6]uint64{whoProcess, 0}, true},
		{"setpriority", [6]uint64{whoGroup, 0}, true},
		{"setpriority", [6]uint64{2, 0}, false}, // every process of the user
		{"setpriority", [6]uint64{whoProcess, 1}, false},
		{"ioprio_set", [6]uint64{3, 0}, false},
		{"ioprio_set", [6]uint64{ioprioProcess, 0}, true},
		{"ioprio_set", [6]uint64{ioprioProcess, 1}, false},
		{"sched_setaffinity", [6]uint64{0}, true},
		{"sched_setaffinity", [6]uint64{1 << 31}, false},
		{"sched_setscheduler", [6]uint64{1, 5}, false},
		{"sched_setscheduler", [6]uint64{0, 5}, true},
		{"sched_setparam", [6]uint64{1}, false},
		{"sched_setattr", [6]uint64{1}, false},
		{"sched_getattr", [6]uint64{1}, true},
		{"getpriority", [6]uint64{0, 1}, true},
	} {
		got, err := Decide(nil, x.call, x.args)
		if err != nil || got.Allow != x.own || !x.own && got.Errno != EPERM {
			t.Errorf("%s%v: %v, %v", x.call, x.args, got, err)
		}
	}
	if err := Check([]string{otherProcessesName}); err == nil {
		t.Error("a profile may lift what keeps process 1")
	}
	if err := Check([]string{"ptrace"}); err != nil {
		t.Errorf("a profile may not lift ptrace: %v", err)
	}
}
