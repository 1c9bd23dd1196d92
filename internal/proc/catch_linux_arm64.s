#include "textflag.h"

// func onSignal()
// The kernel calls it as handler(R0 signal, R1 *siginfo, R2 *ucontext), on the alternate stack with every signal
// blocked, with LR at onReturn, and restores all registers afterwards. It may run on several threads at once.
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	SUB $1, R0, R4
	MOVD $1, R3
	LSL R4, R3, R3           // the bit of the signal
	MOVD 40(R2), R4          // uc_sigmask: this thread gets no more of it until ReadCaught unblocks it
	ORR R3, R4, R4
	MOVD R4, 40(R2)
	MOVW 8(R1), R4           // si_code
	CMPW $0x80, R4           // SI_KERNEL; nothing below changes the flags
	MOVD $·signalsByKernel(SB), R5
sender:
	LDAXR (R5), R6
	ORR R3, R6, R7
	BIC R3, R6, R8
	CSEL EQ, R7, R8, R6
	STLXR R6, (R5), R9
	CBNZ R9, sender
	MOVD $·signalsPending(SB), R5
pending:
	LDAXR (R5), R6
	ORR R3, R6, R6
	STLXR R6, (R5), R9
	CBNZ R9, pending
	MOVD $·signalBell(SB), R1 // write(signalBell, any byte, 1)
	MOVD (R1), R0
	MOVD $1, R2
	MOVD $64, R8
	SVC
	RET

// func onReturn()
TEXT ·onReturn(SB), NOSPLIT|NOFRAME, $0-0
	MOVD $139, R8            // rt_sigreturn
	SVC
	BRK

// func handlers() (signal, restorer uint64)
TEXT ·handlers(SB), NOSPLIT, $0-16
	MOVD $·onSignal(SB), R0
	MOVD R0, signal+0(FP)
	MOVD $·onReturn(SB), R0
	MOVD R0, restorer+8(FP)
	RET
