#include "textflag.h"

// func vfork(trap, flags, pidfd uintptr) (pid uintptr, errno syscall.Errno)
//
// The child returns first, on the same stack: its calls overwrite the return address
// below the stack pointer, so that is kept in a register.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-40
	MOVQ	trap+0(FP), AX
	MOVQ	flags+8(FP), DI
	MOVQ	$0, SI
	MOVQ	pidfd+16(FP), DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	MOVQ	$-1, pid+24(FP)
	NEGQ	AX
	MOVQ	AX, errno+32(FP)
	RET
ok:
	MOVQ	AX, pid+24(FP)
	MOVQ	$0, errno+32(FP)
	RET
