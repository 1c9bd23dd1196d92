#include "textflag.h"

// The g of code without a runtime (doc.go) is zeros, so that each check of the stack's end passes.
DATA g0<>+0(SB)/8, $0
GLOBL g0<>(SB), NOPTR|RODATA, $64

// func atExec()
// The kernel enters here, with the arguments on the stack.
TEXT ·atExec(SB), NOSPLIT|NOFRAME, $0-0
	MOVD RSP, R4
	MOVD R4, ·early(SB)
	MOVD $g0<>(SB), g
	CALL ·begin(SB)
	MOVD ·early(SB), R4
	MOVD R4, RSP
	B _rt0_arm64_linux(SB)
