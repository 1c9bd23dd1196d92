package proc

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Package syscall's fork cannot give the child another signal mask, other ignored signals or the original limit of open
// files. Nor can it move the child to a cgroup without clone3. This one can. Between clone and execve the child is a
// copy of one thread of a Go program. It may only make raw system calls from functions that never grow the stack, with
// every signal blocked.

// AdopterName is the command name of the copy that Child.Adopts puts above a child. It has its parent's command line.
const AdopterName = "mcp-tether-wait"

// image is a Child in the form that the forked copy can use without allocating.
type image struct {
	path       *byte
	argv, envv []*byte
	child      Child
	parent     uintptr
	report     uintptr
	setFiles   bool
	actions    [2]sigaction // default, ignore
	move       [2]byte
	adopter    [16]byte // AdopterName
	pidAt      []*[pidRoom]byte
}

// cloneArgs is struct clone_args, version 2 (clone(2)).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

const cloneIntoCgroup = 0x200000000

func newImage(c Child) (*image, error) {
	path, err := unix.BytePtrFromString(c.Path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", c.Path, err)
	}
	argv, err := syscall.SlicePtrFromStrings(c.Argv)
	if err != nil {
		return nil, fmt.Errorf("arguments of %q: %w", c.Path, err)
	}
	env, at := readdress(c.Env, c.InPlaceOf)
	envv, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return nil, fmt.Errorf("environment of %q: %w", c.Path, err)
	}
	img := &image{path: path, argv: argv, envv: envv, child: c, parent: uintptr(unix.Getpid()), move: [2]byte{'0'}}
	img.actions[1].handler = sigIgn
	copy(img.adopter[:], AdopterName)
	img.setFiles = c.Inherited.Files != syscall.Rlimit{}
	for _, i := range at {
		entry := append([]byte(env[i]), make([]byte, pidRoom)...)
		img.envv[i] = &entry[0]
		img.pidAt = append(img.pidAt, (*[pidRoom]byte)(entry[len(env[i]):]))
	}
	return img, nil
}

// fork clones the process with all signals blocked; only the parent returns from it.
//
//go:noinline
//go:norace
//go:nocheckptr
func (img *image) fork() (pid uintptr, errno syscall.Errno) {
	all, old := ^uint64(0), uint64(0)
	args := cloneArgs{exitSignal: uint64(unix.SIGCHLD)}
	if img.child.CgroupFD >= 0 {
		args.flags, args.cgroup = cloneIntoCgroup, uint64(img.child.CgroupFD)
	}
	return img.clone(&args, &all, &old)
}

//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (img *image) clone(args *cloneArgs, all, old *uint64) (pid uintptr, errno syscall.Errno) {
	sigprocmask(unix.SIG_SETMASK, all, old)
	if args.flags != 0 {
		pid, _, errno = syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno == 0 && pid == 0 {
		img.exec()
	}
	sigprocmask(unix.SIG_SETMASK, old, nil)
	return pid, errno
}

//go:norace
//go:nocheckptr
//go:nosplit
func sigprocmask(how uintptr, set, old *uint64) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// exec makes the copy into the child, and never returns.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (img *image) exec() {
	step, errno := img.prepare()
	if errno == 0 && img.child.Adopts {
		errno = img.adopt()
	}
	if errno == 0 {
		img.writePID()
		sigprocmask(unix.SIG_SETMASK, &img.child.Inherited.Mask, nil)
		_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(img.path)),
			uintptr(unsafe.Pointer(&img.argv[0])), uintptr(unsafe.Pointer(&img.envv[0])))
	}
	code := [2]byte{byte(errno), step}
	syscall.RawSyscall(unix.SYS_WRITE, img.report, uintptr(unsafe.Pointer(&code)), 2)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

// maxFiles is more than a session has open.
const maxFiles = 1 << 16

// adopt forks once more, and returns in the new copy. The one between them waits for all that fall to it. It holds no
// descriptor, since others may wait for end of file on them, or for a lock.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (img *image) adopt() syscall.Errno {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid == 0 {
		return errno
	}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&img.adopter)), 0, 0, 0, 0)
	_, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, uintptr(^uint32(0)), 0)
	for fd := uintptr(0); errno != 0 && fd < maxFiles; fd++ { // before Linux 5.9
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	for errno = 0; errno == 0 || errno == unix.EINTR; {
		_, _, errno = syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WALL, 0, 0, 0)
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// moving is the step of prepare that moves the copy to its cgroup.
const moving = 1

// prepare does what comes before the exec. If it fails, step says where.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (img *image) prepare() (step byte, errno syscall.Errno) {
	img.setSignals()
	if img.child.DiesWithThread {
		syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
		// A parent that died before the line above sends nothing any more.
		if ppid, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); ppid != img.parent {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
		}
	}
	switch {
	case img.child.NewSession:
		syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	case img.child.NewGroup:
		syscall.RawSyscall(unix.SYS_SETPGID, 0, 0, 0)
	case img.child.Group > 0:
		syscall.RawSyscall(unix.SYS_SETPGID, 0, uintptr(img.child.Group), 0)
	}
	if img.child.CgroupProcs >= 0 {
		_, _, errno := syscall.RawSyscall(unix.SYS_WRITE, uintptr(img.child.CgroupProcs), uintptr(unsafe.Pointer(&img.move)), 1)
		if errno != 0 {
			return moving, errno
		}
	}
	if img.setFiles {
		syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&img.child.Inherited.Files)), 0, 0, 0)
	}
	if in := img.child.Stdin; in > 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(in), 0, 0); errno != 0 {
			return 0, errno
		}
	}
	if out := img.child.Stdout; out > 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(out), 1, 0); errno != 0 {
			return 0, errno
		}
	}
	if e := img.child.Stderr; e > 0 {
		if _, _, errno := syscall.RawSyscall(unix.SYS_DUP3, uintptr(e), 2, 0); errno != 0 {
			return 0, errno
		}
	}
	for n := uintptr(0); n < 3; n++ {
		if img.child.Inherited.Closed&(1<<n) != 0 {
			syscall.RawSyscall(unix.SYS_CLOSE, n, 0, 0)
		}
	}
	return 0, 0
}

// setSignals replaces the runtime's handlers, so that none of them can run in the copy once signals are unblocked.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (img *image) setSignals() {
	for n := uintptr(1); n <= 64; n++ {
		action := &img.actions[img.child.Inherited.Ignored>>(n-1)&1]
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(action)), 0, 8, 0, 0)
	}
}
