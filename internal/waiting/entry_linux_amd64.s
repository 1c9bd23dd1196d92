#include "textflag.h"

// The g of code without a runtime (doc.go) is zeros, so that each check of the stack's end passes: thread+32. It is read through -8(FS).
DATA thread<>+24(SB)/8, $thread<>+32(SB)
GLOBL thread<>(SB), NOPTR, $64

// func atExec()
// The kernel enters here, with the arguments on the stack.
TEXT ·atExec(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ SP, ·early(SB)
	MOVQ $158, AX            // arch_prctl(ARCH_SET_FS, thread+32)
	MOVQ $0x1002, DI
	LEAQ thread<>+32(SB), SI
	SYSCALL
	ANDQ $~15, SP
	CALL ·begin(SB)
	MOVQ ·early(SB), SP
	JMP _rt0_amd64_linux(SB)
