//go:build amd64 || arm64

package waiting

import (
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// wordSize is the size of an address, in bytes.
	wordSize = 8
	// sigSetSize is that of the kernel's signal set (rt_sigprocmask(2)).
	sigSetSize = 8
	// The handlers of sigaction(2), which begin struct kernel_sigaction.
	defaultAction, ignoreAction = 0, 1
	// atWorkingDir is AT_FDCWD (openat(2)).
	atWorkingDir = ^uintptr(99)

	second      = 1_000_000_000
	millisecond = 1_000_000
)

// call makes a system call. The result is negative for an error: -errno.
func call(number uintptr, args ...uintptr) int {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return -int(errno)
	}
	return int(r)
}

// address is that of what a system call reads or writes.
func address[T any](of *T) uintptr { return uintptr(unsafe.Pointer(of)) }

// textAddress is the address of a text that ends with a zero byte.
func textAddress(text string) uintptr { return address(unsafe.StringData(text)) }

// wordsAt are so many words of memory at an address, such as the kernel has left on the stack.
func wordsAt(at uintptr, n int) []uintptr { return unsafe.Slice(*(**uintptr)(unsafe.Pointer(&at)), n) }

// textAt is the text at an address, which ends with a zero byte.
func textAt(at uintptr) string {
	first, n := *(**byte)(unsafe.Pointer(&at)), 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(first), n)) != 0 {
		n++
	}
	return unsafe.String(first, n)
}

// after is what follows the first text: of several that end with a zero byte each, the last one is empty.
func after(texts []byte) []byte { return texts[len(textAt(address(&texts[0])))+1:] }

// argument is the n-th word of the command line, and count how many there are.
func argument(n int) string { return textAt(wordsAt(early.stack, n+2)[n+1]) }

func argumentCount() int { return int(wordsAt(early.stack, 1)[0]) }

// environment is the list of variables. The kernel's list lasts until a zero. Behind it is the auxiliary vector (getauxval(3)), which
// has more room than is ever added, and which a process that is about to execute does not need.
func environment() []uintptr {
	const auxiliary = 32
	at, n := early.stack+wordSize*uintptr(argumentCount()+2), 0
	for wordsAt(at, n+1)[n] != 0 {
		n++
	}
	return wordsAt(at, n+auxiliary)[:n]
}

// fail says why nothing was started, and ends the process.
func fail(why string) {
	call(unix.SYS_WRITE, 2, textAddress(why), uintptr(len(why)))
	exit(ExitFailure)
}

func exit(code int) { call(unix.SYS_EXIT_GROUP, uintptr(code)) }

func getpid() int  { return call(unix.SYS_GETPID) }
func getppid() int { return call(unix.SYS_GETPPID) }

func closeFD(fd int) { call(unix.SYS_CLOSE, uintptr(fd)) }

func openNull() int {
	return call(unix.SYS_OPENAT, atWorkingDir, textAddress("/dev/null\x00"), unix.O_RDWR|unix.O_CLOEXEC)
}

func openPidfd(pid int) int { return call(unix.SYS_PIDFD_OPEN, uintptr(pid), 0) }

// fork is fork(2) with flags of clone(2).
func fork(flags uintptr) int { return call(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|flags) }

// mustFork is fork where nothing was started without the child.
func mustFork(flags uintptr) int {
	pid := fork(flags)
	if pid < 0 {
		fail("mcp-tether: no process can be started\n")
	}
	return pid
}

// execute is execve(2). It returns only if that fails: with errno.
func execute(path, args uintptr) int {
	return -call(unix.SYS_EXECVE, path, args, address(unsafe.SliceData(environment())))
}

// dieWith has the kernel kill this process when its parent is killed. A parent that is gone already sends nothing.
func dieWith(parent int) {
	call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL))
	if getppid() != parent {
		exit(ExitFailure)
	}
}

// tell signals a process of ours, and tries twice: a transient error must not lose the signal.
func tell(pid int, sig unix.Signal) {
	if pid <= 0 { // a whole process group
		return
	}
	if call(unix.SYS_KILL, uintptr(pid), uintptr(sig)) < 0 {
		call(unix.SYS_KILL, uintptr(pid), uintptr(sig))
	}
}

// setAction sets the action for a signal.
func setAction(sig unix.Signal, action uintptr) {
	a := [4]uintptr{action}
	call(unix.SYS_RT_SIGACTION, uintptr(sig), address(&a), 0, sigSetSize)
}

// setMask sets which signals are blocked. was is what was blocked before.
func setMask(mask uint64) (was uint64) {
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, address(&mask), address(&was), sigSetSize)
	return was
}

// now is CLOCK_MONOTONIC in nanoseconds.
func now() int {
	var t unix.Timespec
	call(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, address(&t))
	return int(t.Sec*second + t.Nsec)
}

// sleep waits for so many nanoseconds.
func sleep(time int) {
	left := unix.Timespec{Sec: int64(time / second), Nsec: int64(time % second)}
	call(unix.SYS_NANOSLEEP, address(&left), 0)
}

// appendInt appends a text and a number.
func appendInt(to []byte, text string, n int) []byte {
	return strconv.AppendInt(append(to, text...), int64(n), 10)
}
