#include "textflag.h"

// func vfork(trap, flags, pidfd uintptr) (pid uintptr, errno syscall.Errno)
//
// The child returns first, on the same stack. The return address is in a register.
TEXT ·vfork(SB),NOSPLIT,$0-40
	MOVD	trap+0(FP), R8
	MOVD	flags+8(FP), R0
	MOVD	$0, R1
	MOVD	pidfd+16(FP), R2
	MOVD	$0, R3
	MOVD	$0, R4
	MOVD	$0, R5
	SVC
	CMN	$4095, R0
	BCC	ok
	MOVD	$-1, R4
	MOVD	R4, pid+24(FP)
	NEG	R0, R0
	MOVD	R0, errno+32(FP)
	RET
ok:
	MOVD	R0, pid+24(FP)
	MOVD	ZR, errno+32(FP)
	RET
