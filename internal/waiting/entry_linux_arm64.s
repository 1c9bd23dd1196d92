#include "textflag.h"

// func atExec()
// The kernel enters here, with the arguments on the stack.
TEXT ·atExec(SB), NOSPLIT|NOFRAME, $0-0
	MOVD RSP, R4
	MOVD R4, ·initialStack(SB)
	CALL ·begin(SB)
	MOVD ·initialStack(SB), R4
	MOVD R4, RSP
	B _rt0_arm64_linux(SB)
