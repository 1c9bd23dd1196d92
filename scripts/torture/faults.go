//go:build amd64

package main

import (
	"strings"

	"golang.org/x/sys/unix"
)

// plausible lists the errnos with which a call can fail through no fault of its caller. The causes are scarce memory,
// descriptors or disk, interruption, seccomp filters and older kernels. Left out are errors that would be lies about
// the arguments (EBADF, EFAULT) or about the world (ESRCH of a living process, ECHILD with children).
func plausible(call string) []string {
	const (
		noFiles  = "EMFILE"
		noneLeft = "ENFILE"
		noMemory = "ENOMEM"
	)
	switch call {
	case "openat":
		return []string{noFiles, noneLeft, noMemory, "EACCES", "EINTR", "EIO"}
	case "read", "pread64", "getdents64":
		return []string{"EIO", "EINTR", noMemory}
	case "write", "pwrite64":
		return []string{"ENOSPC", "EIO", "EPIPE", "EINTR", "EAGAIN"}
	case "close":
		return []string{"EIO", "EINTR"}
	case "ppoll", "poll":
		return []string{"EINTR", noMemory, "EINVAL"}
	case "wait4", "waitid":
		return []string{"EINTR"}
	case "clone", "fork", "vfork":
		return []string{"EAGAIN", noMemory}
	case "clone3":
		return []string{"EAGAIN", noMemory, "ENOSYS", "EACCES", "EBUSY"}
	case "execve":
		return []string{"EACCES", noMemory, "EAGAIN", "E2BIG", "ETXTBSY", noneLeft}
	case "pipe2", "eventfd2", "epoll_create1", "memfd_create", "timerfd_create", "signalfd4":
		return []string{noFiles, noneLeft, noMemory}
	case "inotify_init1":
		return []string{noFiles, noneLeft, noMemory}
	case "inotify_add_watch", "epoll_ctl":
		return []string{"ENOSPC", noMemory}
	case "pidfd_open":
		return []string{noFiles, noneLeft, noMemory, "ENOSYS", "EPERM"}
	case "pidfd_send_signal":
		return []string{"EPERM", "ENOSYS", noMemory}
	case "kill", "tgkill":
		return []string{"EPERM"}
	case "prctl", "setsid", "setpgid", "prlimit64", "ioctl", "fcntl":
		return []string{"EPERM", "EINVAL"}
	case "dup3", "dup2", "dup":
		return []string{noFiles, "EBUSY", "EINTR"}
	case "newfstatat", "fstat", "statx", "statfs", "fstatfs", "faccessat", "faccessat2", "readlinkat":
		return []string{noMemory, "EACCES", "EIO"}
	case "mkdirat", "renameat", "renameat2", "linkat", "symlinkat":
		return []string{"ENOSPC", "EACCES", "EROFS", "EIO"}
	case "unlinkat":
		return []string{"EACCES", "EROFS", "EBUSY", "EIO"}
	case "ftruncate", "fchmodat", "fchownat":
		return []string{"EPERM", "EROFS", "EIO"}
	case "flock":
		return []string{"ENOLCK", "EINTR"}
	case "socket", "socketpair":
		return []string{noFiles, noneLeft, noMemory, "EACCES"}
	case "bind", "listen", "connect", "accept4", "getsockopt", "setsockopt", "getsockname", "getpeername":
		return []string{noMemory, "EINTR", "EACCES", noFiles}
	case "sendto", "recvfrom", "sendmsg", "recvmsg", "shutdown":
		return []string{noMemory, "EINTR", "EPIPE"}
	case "mmap", "munmap", "brk", "mprotect":
		return []string{noMemory}
	case "getrandom":
		return []string{"EINTR", "EAGAIN", "ENOSYS"}
	case "splice", "tee", "vmsplice":
		return []string{"EAGAIN", "EINVAL", noMemory}
	case "exit_group", "exit":
		return nil
	}
	if harmless(call) {
		return nil
	}
	// A seccomp filter refuses what it does not know.
	return []string{"EPERM", "ENOSYS"}
}

// believable reports whether a read or write of this descriptor can fail with this fault. No disk is behind a pipe, and
// the few bytes that go through ours are neither interrupted nor in need of memory.
func believable(fault, call, link string) bool {
	if call != "read" && call != "write" || strings.HasPrefix(link, "/") {
		return true
	}
	if strings.HasPrefix(link, "pipe:") && (fault == "EINTR" && call == "write" || fault == "ENOMEM") {
		return false
	}
	return fault != "EIO" && fault != "ENOSPC"
}

// harmless calls cannot fail with these arguments on any kernel, or only the Go runtime makes them and would stop at once.
func harmless(call string) bool {
	switch call {
	case "getuid", "geteuid", "getgid", "getegid", "getppid", "getpgrp", "getpgid", "getsid", "arch_prctl", "uname", "rt_sigaction",
		"rt_sigprocmask", "sigaltstack", "sched_getaffinity", "set_tid_address", "clock_gettime", "lseek", "umask", "getcwd":
		return true
	}
	return false
}

// uncounted calls are those that the Go runtime makes whenever it likes: their number says nothing.
func uncounted(call string) bool {
	switch call {
	case "futex", "nanosleep", "clock_nanosleep", "sched_yield", "rt_sigreturn", "restart_syscall", "epoll_pwait", "madvise", "gettid",
		"getpid", "tgkill", "clock_gettime", "sigaltstack", "munmap":
		return true
	}
	return false
}

// sparse calls are made in long rows that differ in a number only; a few of them stand for all.
func sparse(call string) bool {
	return call == "rt_sigaction" || call == "mmap" || call == "rt_sigprocmask"
}

// executed calls take place although they report an error.
func executed(call string) bool { return call == "close" }

func errnoByName(name string) (unix.Errno, bool) {
	for e := unix.Errno(1); e < 134; e++ {
		if unix.ErrnoName(e) == name {
			return e, true
		}
	}
	return 0, false
}
