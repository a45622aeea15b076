//go:build linux && cgo

package seccomp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// everyFilter is each filter that is ever compiled, by a compiler.
func everyFilter(t *testing.T, arch string, compile compiler) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	add := func(name string, prog []byte, err error) {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = prog
	}
	policyOf := func(lift ...string) ([]byte, error) {
		p, err := newPolicy(lift)
		if err != nil {
			return nil, err
		}
		return p.compile(arch, compile)
	}
	base, err := policyOf()
	add("base", base, err)
	for _, g := range Groups() {
		if !g.fixed() {
			lifted, err := policyOf(g.Name)
			add("lifted "+g.Name, lifted, err)
		}
	}
	for _, sockets := range []bool{false, true} {
		shared, err := denyProgram(arch, SharedGroups(sockets), compile)
		add(fmt.Sprintf("shared %v", sockets), shared, err)
	}
	ceiling, err := denyProgram(arch, CeilingGroups(), compile)
	add("ceiling", ceiling, err)
	for _, b := range append(slices.Clone(everyBrokered), Brokered{Signals: true}) {
		brokered, err := b.compile(arch, compile)
		add(fmt.Sprintf("brokered %+v", b), brokered, err)
	}
	return all
}

// TestAssemblerAgreesWithLibseccomp: a build without cgo filters as one with it, for each
// architecture, each filter and each number, whatever the arguments are.
func TestAssemblerAgreesWithLibseccomp(t *testing.T) {
	values := append(interesting(), 2, 3, 5, 10, openTruncate, openModeMask, openPath, openPath|2, 1024, 0x5401, 0x40086602)
	for arch, audit := range architectures {
		if arch == lib.ArchAMD64 && native(t) != lib.ArchAMD64 {
			continue // see TestShippedProgramIsWhatLibseccompMakes
		}
		want := everyFilter(t, arch.String(), compile)
		for name, prog := range everyFilter(t, arch.String(), assemble) {
			t.Run(arch.String()+"/"+name, func(t *testing.T) {
				if n := len(prog) / instructionSize; n > maxInstructions {
					t.Errorf("%d instructions", n)
				}
				ours, libs := interpret(t, prog), interpret(t, want[name])
				random := rand.New(rand.NewPCG(1, 2))
				arg := func() uint64 {
					pick := func() uint64 { return values[random.IntN(len(values))] }
					return (pick() | pick()&^(random.Uint64()*uint64(random.IntN(2)))) | garbage[random.IntN(len(garbage))]
				}
				numbers := []uint32{0x3fffffff, 0x40000000, 0x40000001, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff}
				for nr := range uint32(600) {
					numbers = append(numbers, nr)
				}
				for _, nr := range numbers {
					for range 60 {
						args := [6]uint64{arg(), arg(), arg(), arg(), arg(), arg()}
						if got, want := ours.run(t, nr, audit, args), libs.run(t, nr, audit, args); got != want {
							t.Fatalf("call %d %#x: assembled %#x, libseccomp %#x", nr, args, got, want)
						}
					}
				}
				for _, other := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_RISCV64, 0, audit ^ 1} {
					if got := ours.run(t, 0, other, [6]uint64{}); got != unix.SECCOMP_RET_KILL_PROCESS {
						t.Errorf("architecture %#x: %#x", other, got)
					}
				}
			})
		}
	}
}

// TestCallTableIsLibseccomps: the numbers that the assembler knows are libseccomp's.
func TestCallTableIsLibseccomps(t *testing.T) {
	names := map[string]bool{}
	add := func(rules []Rule) {
		for _, r := range rules {
			names[r.Call] = true
		}
	}
	p, err := newPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	add(p.allow)
	add(calls(brokerCalls...))
	groups := slices.Concat(p.deny, SharedGroups(false), CeilingGroups())
	for _, b := range append(slices.Clone(everyBrokered), Brokered{Signals: true}) {
		groups = append(groups, b.Denied()...)
		add(b.Notified())
	}
	for _, g := range groups {
		add(g.Rules)
	}
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		line := name
		for _, arch := range []lib.ScmpArch{lib.ArchAMD64, lib.ArchARM64} {
			if nr, err := lib.GetSyscallFromNameByArch(name, arch); err == nil && nr >= 0 {
				line += fmt.Sprintf(" %d", nr)
			} else {
				line += " -"
			}
		}
		table.WriteString(line + "\n")
	}
	if *update {
		if err := os.WriteFile("shipped/calls.txt", []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	major, minor, micro := lib.GetLibraryVersion()
	if fmt.Sprintf("%d.%d.%d", major, minor, micro) == shippedBy && callTable != table.String() {
		t.Error("shipped/calls.txt is not what libseccomp says of the calls that rules name; `make golden` rewrites it")
	}
}
