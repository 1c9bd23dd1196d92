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
// Runs on the initial stack, before the runtime: uses no stack, keeps SP as the kernel set it.
TEXT ·atExec(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ SP, ·execStack(SB)

	MOVQ $302, AX            // prlimit64(0, RLIMIT_AS, NULL, &limit)
	XORQ DI, DI
	MOVQ $9, SI
	XORQ DX, DX
	LEAQ limit<>(SB), R10
	SYSCALL
	TESTQ AX, AX
	JNE roomy
	MOVQ limit<>(SB), AX
	CMPQ AX, $0x30000000
	JCC roomy
	MOVQ $1, AX              // write(2, tooSmall)
	MOVQ $2, DI
	LEAQ tooSmall<>(SB), SI
	MOVQ $96, DX
	SYSCALL
	MOVQ $231, AX            // exit_group(125)
	MOVQ $125, DI
	SYSCALL
roomy:

	MOVQ $14, AX             // rt_sigprocmask(SIG_BLOCK, NULL, &execMask, 8)
	XORQ DI, DI
	XORQ SI, SI
	LEAQ ·execMask(SB), DX
	MOVQ $8, R10
	SYSCALL

	MOVQ $302, AX            // prlimit64(0, RLIMIT_NOFILE, NULL, &limit)
	XORQ DI, DI
	MOVQ $7, SI
	XORQ DX, DX
	LEAQ limit<>(SB), R10
	SYSCALL
	MOVQ limit<>(SB), AX
	MOVQ AX, ·execFilesCur(SB)
	MOVQ limit<>+8(SB), AX
	MOVQ AX, ·execFilesMax(SB)

	MOVQ $157, AX            // prctl(PR_GET_TIMERSLACK)
	MOVQ $30, DI
	SYSCALL
	CMPQ AX, $1              // an error, or 0 for a real-time process, which has none
	JLT noslack
	CMPQ AX, $1000000
	JGE noslack
	MOVQ AX, ·execSlack(SB)
	MOVQ $157, AX            // prctl(PR_SET_TIMERSLACK, 1 ms)
	MOVQ $29, DI
	MOVQ $1000000, SI
	SYSCALL
noslack:

	MOVQ $1, BX
signal:
	MOVQ $13, AX             // rt_sigaction(signal, NULL, &action, 8)
	MOVQ BX, DI
	XORQ SI, SI
	LEAQ action<>(SB), DX
	MOVQ $8, R10
	SYSCALL
	TESTQ AX, AX
	JNE nextsignal
	CMPQ action<>(SB), $1    // SIG_IGN
	JNE nextsignal
	LEAQ -1(BX), CX
	MOVQ $1, AX
	SHLQ CX, AX
	ORQ AX, ·execIgnored(SB)
nextsignal:
	INCQ BX
	CMPQ BX, $64
	JLE signal

	XORQ BX, BX
stream:
	MOVQ $72, AX             // fcntl(stream, F_GETFD)
	MOVQ BX, DI
	MOVQ $1, SI
	XORQ DX, DX
	SYSCALL
	TESTQ AX, AX
	JGE nextstream
	MOVQ BX, CX
	MOVQ $1, AX
	SHLQ CX, AX
	ORQ AX, ·execClosed(SB)
nextstream:
	INCQ BX
	CMPQ BX, $3
	JLT stream

	MOVQ $1, ·execRan(SB)
	JMP _rt0_amd64_linux(SB)
