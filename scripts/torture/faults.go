//go:build amd64

package main

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// faults are, by calls, the errnos with which those can fail through no fault of their caller. The causes are scarce
// memory, descriptors or disk, interruption, seccomp filters and older kernels. Left out are errors that would be lies
// about the arguments (EBADF, EFAULT) or about the world (ESRCH of a living process, ECHILD with children).
var faults = map[string]string{
	"openat":                  "EMFILE ENFILE ENOMEM EACCES EINTR EIO",
	"read pread64 getdents64": "EIO EINTR ENOMEM",
	"write pwrite64":          "ENOSPC EIO EPIPE EINTR EAGAIN",
	"close":                   "EIO EINTR",
	"ppoll poll":              "EINTR ENOMEM EINVAL",
	"wait4 waitid":            "EINTR",
	"clone fork vfork":        "EAGAIN ENOMEM",
	"clone3":                  "EAGAIN ENOMEM ENOSYS EACCES EBUSY",
	"execve":                  "EACCES ENOMEM EAGAIN E2BIG ETXTBSY ENFILE",
	"pipe2 eventfd2 epoll_create1 memfd_create timerfd_create signalfd4 inotify_init1": "EMFILE ENFILE ENOMEM",
	"inotify_add_watch epoll_ctl": "ENOSPC ENOMEM",
	"pidfd_open":                  "EMFILE ENFILE ENOMEM ENOSYS EPERM",
	"pidfd_send_signal":           "EPERM ENOSYS ENOMEM",
	"kill tgkill":                 "EPERM",
	"prctl setsid setpgid prlimit64 ioctl fcntl": "EPERM EINVAL",
	"dup3 dup2 dup": "EMFILE EBUSY EINTR",
	"newfstatat fstat statx statfs fstatfs faccessat faccessat2 readlinkat": "ENOMEM EACCES EIO",
	"mkdirat renameat renameat2 linkat symlinkat":                           "ENOSPC EACCES EROFS EIO",
	"unlinkat":                    "EACCES EROFS EBUSY EIO",
	"ftruncate fchmodat fchownat": "EPERM EROFS EIO",
	"flock":                       "ENOLCK",
	"socket socketpair":           "EMFILE ENFILE ENOMEM EACCES",
	"bind listen connect accept4 getsockopt setsockopt getsockname getpeername": "ENOMEM EINTR EACCES EMFILE",
	"sendto recvfrom sendmsg recvmsg shutdown":                                  "ENOMEM EINTR EPIPE",
	"mmap munmap brk mprotect":                                                  "ENOMEM",
	"getrandom":                                                                 "EINTR EAGAIN ENOSYS",
	"splice tee vmsplice":                                                       "EAGAIN EINVAL ENOMEM",
	"nanosleep":                                                                 "EINTR",
	"close_range":                                                               "EPERM ENOSYS",
	"exit_group exit":                                                           "",
	// These cannot fail with these arguments on any kernel, or only the Go runtime makes them and would stop at once.
	"getuid geteuid getgid getegid getppid getpgrp getpgid getsid arch_prctl uname rt_sigaction rt_sigprocmask sigaltstack": "",
	"sched_getaffinity set_tid_address clock_gettime lseek umask getcwd getpid gettid futex":                                "",
}

// plausible lists the errnos of a call. A seccomp filter refuses what it does not know, and so may be what is in no row.
func plausible(call string) []string {
	for calls, errnos := range faults {
		if slices.Contains(strings.Fields(calls), call) {
			return strings.Fields(errnos)
		}
	}
	return []string{"EPERM", "ENOSYS"}
}

// believable reports whether a read or write of this descriptor can fail with this fault. No disk is behind a pipe, and
// the few bytes that go through ours are neither interrupted nor in need of memory. The number in an eventfd is always
// readable and never full.
func believable(fault, call, link string) bool {
	if link == "anon_inode:[eventfd]" {
		return fault[0] != 'E'
	}
	if call != "read" && call != "write" || strings.HasPrefix(link, "/") {
		return true
	}
	if strings.HasPrefix(link, "pipe:") && (fault == "EINTR" && call == "write" || fault == "ENOMEM") {
		return false
	}
	return fault != "EIO" && fault != "ENOSPC"
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
