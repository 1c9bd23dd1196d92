#include "textflag.h"

// func onSignal()
// The kernel calls it as handler(R0 signal, R1 *siginfo, R2 *ucontext), on the alternate stack with every signal
// blocked, with LR at onReturn, and restores all registers afterwards.
TEXT ·onSignal(SB), NOSPLIT|NOFRAME, $0-0
	SUB $16, RSP
	MOVB R0, (RSP)
	MOVW 8(R1), R3           // si_code
	MOVB R3, 1(RSP)
	MOVD ·signalPipe(SB), R0 // write(signalPipe, RSP, 2)
	MOVD RSP, R1
	MOVD $2, R2
	MOVD $64, R8
	SVC
	ADD $16, RSP
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
