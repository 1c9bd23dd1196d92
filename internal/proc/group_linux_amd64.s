#include "textflag.h"

// func forkLeader() int
TEXT ·forkLeader(SB), NOSPLIT, $0-8
	MOVQ $56, AX             // clone(CLONE_VM|CLONE_VFORK, 0, NULL, NULL, 0)
	MOVQ $0x4100, DI
	XORQ SI, SI
	XORQ DX, DX
	XORQ R10, R10
	XORQ R8, R8
	SYSCALL
	TESTQ AX, AX
	JNE parent
	MOVQ $109, AX            // setpgid(0, 0)
	XORQ DI, DI
	XORQ SI, SI
	SYSCALL
	MOVQ $60, AX             // exit(0)
	XORQ DI, DI
	SYSCALL
parent:
	MOVQ AX, ret+0(FP)
	RET
