#include "textflag.h"

// struct kernel_sigaction: handler, flags, restorer, mask; 32 bytes.
GLOBL action<>(SB), NOPTR, $32

// struct rlimit: soft, hard.
GLOBL limit<>(SB), NOPTR, $16

// What to say where the limit of address space is below what the runtime needs to start.
DATA tooSmall<>+0(SB)/8, $"mcp-teth"
DATA tooSmall<>+8(SB)/8, $"er: the "
DATA tooSmall<>+16(SB)/8, $"limit of"
DATA tooSmall<>+24(SB)/8, $" address"
DATA tooSmall<>+32(SB)/8, $" space i"
DATA tooSmall<>+40(SB)/8, $"s too sm"
DATA tooSmall<>+48(SB)/8, $"all to s"
DATA tooSmall<>+56(SB)/8, $"tart: ra"
DATA tooSmall<>+64(SB)/8, $"ise it, "
DATA tooSmall<>+72(SB)/8, $"as by ul"
DATA tooSmall<>+80(SB)/8, $"imit -v "
DATA tooSmall<>+88(SB)/8, $"1048576\n"
GLOBL tooSmall<>(SB), RODATA|NOPTR, $96

// func atExec()
// Runs on the initial stack, before the runtime: uses no stack, keeps RSP as the kernel set it.
TEXT ·atExec(SB), NOSPLIT|NOFRAME, $0-0
	MOVD RSP, R4
	MOVD R4, ·execStack(SB)

	MOVD $0, R0              // prlimit64(0, RLIMIT_AS, NULL, &limit)
	MOVD $9, R1
	MOVD $0, R2
	MOVD $limit<>(SB), R3
	MOVD $261, R8
	SVC
	CBNZ R0, roomy
	MOVD $limit<>(SB), R3
	MOVD (R3), R4
	MOVD $0x30000000, R5
	CMP R5, R4
	BHS roomy
	MOVD $2, R0              // write(2, tooSmall)
	MOVD $tooSmall<>(SB), R1
	MOVD $96, R2
	MOVD $64, R8
	SVC
	MOVD $125, R0            // exit_group(125)
	MOVD $94, R8
	SVC
roomy:

	MOVD $0, R0              // rt_sigprocmask(SIG_BLOCK, NULL, &execMask, 8)
	MOVD $0, R1
	MOVD $·execMask(SB), R2
	MOVD $8, R3
	MOVD $135, R8
	SVC

	MOVD $0, R0              // prlimit64(0, RLIMIT_NOFILE, NULL, &limit)
	MOVD $7, R1
	MOVD $0, R2
	MOVD $limit<>(SB), R3
	MOVD $261, R8
	SVC
	MOVD $limit<>(SB), R3
	MOVD (R3), R4
	MOVD R4, ·execFilesCur(SB)
	MOVD 8(R3), R4
	MOVD R4, ·execFilesMax(SB)

	MOVD $30, R0             // prctl(PR_GET_TIMERSLACK)
	MOVD $167, R8
	SVC
	CMP $1, R0               // an error, or 0 for a real-time process, which has none
	BLT noslack
	MOVD $1000000, R5
	CMP R5, R0
	BGE noslack
	MOVD R0, ·execSlack(SB)
	MOVD $29, R0             // prctl(PR_SET_TIMERSLACK, 1 ms)
	MOVD $1000000, R1
	MOVD $167, R8
	SVC
noslack:

	MOVD $1, R19
	MOVD $0, R20
signal:
	MOVD R19, R0             // rt_sigaction(signal, NULL, &action, 8)
	MOVD $0, R1
	MOVD $action<>(SB), R2
	MOVD $8, R3
	MOVD $134, R8
	SVC
	CBNZ R0, nextsignal
	MOVD $action<>(SB), R2
	MOVD (R2), R3
	CMP $1, R3               // SIG_IGN
	BNE nextsignal
	SUB $1, R19, R4
	MOVD $1, R5
	LSL R4, R5, R5
	ORR R5, R20, R20
nextsignal:
	ADD $1, R19, R19
	CMP $64, R19
	BLE signal
	MOVD R20, ·execIgnored(SB)

	MOVD $0, R19
	MOVD $0, R20
stream:
	MOVD R19, R0             // fcntl(stream, F_GETFD)
	MOVD $1, R1
	MOVD $0, R2
	MOVD $25, R8
	SVC
	CMP $0, R0
	BGE nextstream
	MOVD $1, R5
	LSL R19, R5, R5
	ORR R5, R20, R20
nextstream:
	ADD $1, R19, R19
	CMP $3, R19
	BLT stream
	MOVD R20, ·execClosed(SB)

	MOVD $1, R5
	MOVD R5, ·execRan(SB)
	B _rt0_arm64_linux(SB)
