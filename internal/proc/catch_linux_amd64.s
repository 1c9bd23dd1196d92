#include "textflag.h"

// func onSignal()
// The kernel calls it as handler(DI signal, SI *siginfo, DX *ucontext), on the alternate stack with every signal
// blocked, and restores all registers afterwards. It may run on several threads at once.
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	LEAQ -1(DI), CX
	MOVQ $1, AX
	SHLQ CX, AX              // the bit of the signal
	ORQ AX, 296(DX)          // uc_sigmask: this thread gets no more of it until ReadCaught unblocks it
	CMPL 8(SI), $0x80        // si_code, SI_KERNEL
	JEQ kernel
	MOVQ AX, CX
	NOTQ CX
	LOCK
	ANDQ CX, ·signalsByKernel(SB)
	JMP pending
kernel:
	LOCK
	ORQ AX, ·signalsByKernel(SB)
pending:
	LOCK
	ORQ AX, ·signalsPending(SB)
	MOVQ $1, AX              // write(signalBell, any byte, 1)
	MOVQ ·signalBell(SB), DI
	LEAQ ·signalBell(SB), SI
	MOVQ $1, DX
	SYSCALL
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
