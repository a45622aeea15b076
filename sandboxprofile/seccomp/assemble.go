package seccomp

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The instructions of classic BPF that a filter needs (linux/bpf_common.h).
const (
	opLoad   = 0x20 // BPF_LD | BPF_W | BPF_ABS
	opAnd    = 0x54 // BPF_ALU | BPF_AND | BPF_K
	opJump   = 0x05 // BPF_JMP | BPF_JA
	opEqual  = 0x15 // BPF_JMP | BPF_JEQ | BPF_K
	opAtMost = 0x25 // BPF_JMP | BPF_JGT | BPF_K: jt is greater, jf is at most
	opReturn = 0x06 // BPF_RET | BPF_K
)

// Where struct seccomp_data has its members (linux/seccomp.h).
const (
	offsetNumber    = 0
	offsetArch      = 4
	offsetArguments = 16
)

// An instruction is a struct sock_filter.
type instruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const instructionSize = 8

// machines are the architectures that sandgate is built for, by GOARCH: the audit number
// (linux/audit.h), and from where on a number means a call of another ABI.
var machines = map[string]struct{ audit, foreign uint32 }{
	"amd64": {0xc000003e, 0x40000000}, // __X32_SYSCALL_BIT
	"arm64": {0xc00000b7, ^uint32(0)},
}

// assemble compiles a program without libseccomp, for a build that has no C library to
// call. Both architectures have their bytes in little-endian order. It finds the call's number in a
// binary tree of jumps and tries that call's rules in their order.
func assemble(p program) ([]byte, error) {
	machine, ok := machines[p.arch]
	if !ok {
		return nil, fmt.Errorf("this build has neither libseccomp nor a table of system calls for %s (build it with cgo)", p.arch)
	}
	byNumber := map[uint32][]answered{}
	for _, r := range p.rules {
		if nr, ok := callNumber(p.arch, r.Call); ok {
			byNumber[nr] = append(byNumber[nr], r)
		}
	}
	var calls []call
	for nr, rules := range byNumber {
		calls = append(calls, call{nr, slices.Concat(body(rules), []instruction{{opReturn, 0, 0, p.otherwise}})})
	}
	slices.SortFunc(calls, func(a, b call) int { return int(a.nr) - int(b.nr) })

	otherwise := []instruction{{opReturn, 0, 0, p.otherwise}}
	code := []instruction{
		{opLoad, 0, 0, offsetArch}, {opEqual, 1, 0, machine.audit}, {opReturn, 0, 0, retKill},
		{opLoad, 0, 0, offsetNumber},
		// A tracer sets the number -1 to have the call skipped (ptrace(2)).
		{opEqual, 0, 1, ^uint32(0)}, otherwise[0],
		{opAtMost, 0, 1, machine.foreign - 1}, {opReturn, 0, 0, retKill},
	}
	code = append(code, search(calls, otherwise)...)
	out := make([]byte, 0, len(code)*instructionSize)
	for _, i := range code {
		out = binary.LittleEndian.AppendUint16(out, i.code)
		out = append(out, i.jt, i.jf)
		out = binary.LittleEndian.AppendUint32(out, i.k)
	}
	return out, nil
}

// A call is a number, and the action for it: code that always returns.
type call struct {
	nr   uint32
	code []instruction
}

// search goes to the code of the call whose number is loaded. Each way through it returns.
func search(calls []call, otherwise []instruction) []instruction {
	switch len(calls) {
	case 0:
		return otherwise
	case 1:
		return slices.Concat(branch(opEqual, calls[0].nr, calls[0].code), otherwise)
	}
	half := len(calls) / 2
	return slices.Concat(branch(opAtMost, calls[half-1].nr, search(calls[half:], otherwise)), search(calls[:half], otherwise))
}

// branch goes on with the code if the comparison holds, and behind it if not. Only an
// unconditional jump goes further than 255 instructions.
func branch(comparison uint16, k uint32, code []instruction) []instruction {
	if len(code) <= 255 {
		return slices.Concat([]instruction{{comparison, 0, uint8(len(code)), k}}, code)
	}
	return slices.Concat([]instruction{{comparison, 1, 0, k}, {opJump, 0, 0, uint32(len(code))}}, code)
}

// body returns the answer of the first rule whose conditions hold, and goes on behind
// itself if none does.
func body(rules []answered) []instruction {
	var code []instruction
	for _, r := range rules {
		then := []instruction{{opReturn, 0, 0, r.answer}}
		for _, c := range slices.Backward(r.When) {
			then = slices.Concat(condition(c, len(then)), then)
		}
		code = append(code, then...)
	}
	return code
}

// condition goes on behind itself if it holds, and past the next skip instructions if not.
// The lower word of an argument is the first.
func condition(c Condition, skip int) []instruction {
	var code []instruction
	for _, word := range []struct{ offset, mask, value uint32 }{
		{0, uint32(c.Mask), uint32(c.Value)}, {4, uint32(c.Mask >> 32), uint32(c.Value >> 32)},
	} {
		if word.mask == 0 && word.value == 0 {
			continue
		}
		code = append(code, instruction{opLoad, 0, 0, offsetArguments + 8*uint32(c.Arg) + word.offset})
		if word.mask != ^uint32(0) {
			code = append(code, instruction{opAnd, 0, 0, word.mask})
		}
		code = append(code, instruction{opEqual, 0, 0, word.value})
	}
	for at := range code {
		if code[at].code == opEqual {
			code[at].jf = uint8(len(code) - at - 1 + skip)
		}
	}
	return code
}
