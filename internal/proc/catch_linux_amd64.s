#include "textflag.h"

// func onSignal()
// The kernel calls it as handler(DI signal, SI *siginfo, DX *ucontext), on the alternate stack with every signal
// blocked, and restores all registers afterwards.
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	SUBQ $16, SP
	MOVB DI, (SP)
	MOVL 8(SI), AX           // si_code
	MOVB AX, 1(SP)
	MOVQ $1, AX              // write(signalPipe, SP, 2)
	MOVQ ·signalPipe(SB), DI
	MOVQ SP, SI
	MOVQ $2, DX
	SYSCALL
	ADDQ $16, SP
	RET                      // to onReturn, which the kernel put on the stack

// func onReturn()
TEXT ·onReturn(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ $15, AX             // rt_sigreturn
	SYSCALL
	INT $3

// func handlers() (signal, restorer uint64)
TEXT ·handlers(SB), NOSPLIT, $0-16
	LEAQ ·onSignal(SB), AX
	MOVQ AX, signal+0(FP)
	LEAQ ·onReturn(SB), AX
	MOVQ AX, restorer+8(FP)
	RET
