//go:build amd64

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// calls names the system calls that mcp-tether makes, and those of which something is said here.
var calls = map[uint64]string{
	unix.SYS_ACCEPT4: "accept4", unix.SYS_ARCH_PRCTL: "arch_prctl", unix.SYS_BIND: "bind", unix.SYS_BRK: "brk",
	unix.SYS_CLOCK_GETTIME: "clock_gettime", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_CLONE: "clone",
	unix.SYS_CLONE3: "clone3", unix.SYS_CLOSE: "close", unix.SYS_CLOSE_RANGE: "close_range", unix.SYS_CONNECT: "connect", unix.SYS_DUP: "dup", unix.SYS_DUP2: "dup2",
	unix.SYS_DUP3: "dup3", unix.SYS_EPOLL_CREATE1: "epoll_create1", unix.SYS_EPOLL_CTL: "epoll_ctl", unix.SYS_EPOLL_PWAIT: "epoll_pwait",
	unix.SYS_EVENTFD2: "eventfd2", unix.SYS_EXECVE: "execve", unix.SYS_EXIT: "exit", unix.SYS_EXIT_GROUP: "exit_group",
	unix.SYS_FACCESSAT: "faccessat", unix.SYS_FACCESSAT2: "faccessat2", unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat",
	unix.SYS_FCHOWNAT: "fchownat", unix.SYS_FCNTL: "fcntl", unix.SYS_FLOCK: "flock", unix.SYS_FORK: "fork", unix.SYS_FSTAT: "fstat",
	unix.SYS_FSTATFS: "fstatfs", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FUTEX: "futex", unix.SYS_GETCWD: "getcwd",
	unix.SYS_GETDENTS64: "getdents64", unix.SYS_GETEGID: "getegid", unix.SYS_GETEUID: "geteuid", unix.SYS_GETGID: "getgid",
	unix.SYS_GETPEERNAME: "getpeername", unix.SYS_GETPGID: "getpgid", unix.SYS_GETPGRP: "getpgrp", unix.SYS_GETPID: "getpid",
	unix.SYS_GETPPID: "getppid", unix.SYS_GETRANDOM: "getrandom", unix.SYS_GETRLIMIT: "getrlimit", unix.SYS_GETRUSAGE: "getrusage",
	unix.SYS_GETSID: "getsid", unix.SYS_GETSOCKNAME: "getsockname", unix.SYS_GETSOCKOPT: "getsockopt", unix.SYS_GETTID: "gettid",
	unix.SYS_GETUID: "getuid", unix.SYS_INOTIFY_ADD_WATCH: "inotify_add_watch", unix.SYS_INOTIFY_INIT1: "inotify_init1",
	unix.SYS_IOCTL: "ioctl", unix.SYS_KILL: "kill", unix.SYS_LINKAT: "linkat", unix.SYS_LISTEN: "listen", unix.SYS_LSEEK: "lseek",
	unix.SYS_LSTAT: "lstat", unix.SYS_MADVISE: "madvise", unix.SYS_MEMFD_CREATE: "memfd_create", unix.SYS_MKDIR: "mkdir",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_MMAP: "mmap", unix.SYS_MPROTECT: "mprotect", unix.SYS_MUNMAP: "munmap",
	unix.SYS_NANOSLEEP: "nanosleep", unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_OPEN: "open", unix.SYS_OPENAT: "openat",
	unix.SYS_OPENAT2: "openat2", unix.SYS_PERSONALITY: "personality", unix.SYS_PIDFD_OPEN: "pidfd_open",
	unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_PIPE2: "pipe2", unix.SYS_POLL: "poll", unix.SYS_PPOLL: "ppoll",
	unix.SYS_PRCTL: "prctl", unix.SYS_PREAD64: "pread64", unix.SYS_PRLIMIT64: "prlimit64", unix.SYS_PSELECT6: "pselect6",
	unix.SYS_PWRITE64: "pwrite64", unix.SYS_READ: "read", unix.SYS_READLINKAT: "readlinkat", unix.SYS_RECVFROM: "recvfrom",
	unix.SYS_RECVMSG: "recvmsg", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2",
	unix.SYS_RESTART_SYSCALL: "restart_syscall", unix.SYS_RMDIR: "rmdir", unix.SYS_RT_SIGACTION: "rt_sigaction",
	unix.SYS_RT_SIGPROCMASK: "rt_sigprocmask", unix.SYS_RT_SIGRETURN: "rt_sigreturn", unix.SYS_SCHED_GETAFFINITY: "sched_getaffinity",
	unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_SENDMSG: "sendmsg", unix.SYS_SENDTO: "sendto",
	unix.SYS_SET_TID_ADDRESS: "set_tid_address", unix.SYS_SETPGID: "setpgid", unix.SYS_SETSID: "setsid",
	unix.SYS_SETSOCKOPT: "setsockopt", unix.SYS_SHUTDOWN: "shutdown", unix.SYS_SIGALTSTACK: "sigaltstack",
	unix.SYS_SIGNALFD4: "signalfd4", unix.SYS_SOCKET: "socket", unix.SYS_SOCKETPAIR: "socketpair", unix.SYS_SPLICE: "splice",
	unix.SYS_STAT: "stat", unix.SYS_STATFS: "statfs", unix.SYS_STATX: "statx", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_TEE: "tee",
	unix.SYS_TGKILL: "tgkill", unix.SYS_TIMERFD_CREATE: "timerfd_create", unix.SYS_UMASK: "umask", unix.SYS_UNAME: "uname",
	unix.SYS_UNLINK: "unlink", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_VFORK: "vfork", unix.SYS_VMSPLICE: "vmsplice",
	unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid", unix.SYS_WRITE: "write", unix.SYS_WRITEV: "writev",
}

func callName(nr uint64) string {
	if name, known := calls[nr]; known {
		return name
	}
	return fmt.Sprintf("sys_%d", nr)
}
