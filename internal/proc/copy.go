package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryCopy is a forked copy of the caller that reads memory of processes, as the caller sees it. It makes raw system calls
// only, as the copy before an exec does (fork.go). The zero value is none; the first read starts it.
type memoryCopy struct {
	*desk
	pid, socket int
	// hung is how often a read was given up.
	hung int
}

// desk is what caller and copy have to tell each other. Each has its own, and a socket pair is between them.
type desk struct {
	parent, ours, theirs uintptr
	// files bounds the numbers of open files, where close_range(2) is missing or refused.
	files    uintptr
	question question
	reply    reply
}

// maxFiles is more than a session has open.
const maxFiles = 1 << 16

// question is which files to read from where. They share the room of a reply.
type question struct {
	offset int64
	files  int64
	names  [aheadFiles][56]byte
}

// reply is what was read, one file after the other, and how much of each, or the errno below zero.
type reply struct {
	counts [aheadFiles]int64
	data   [memoryWindow]byte
}

// EndCopy ends the copy that reads memory, if there is one. It is a child of the caller until then.
func (r *Reader) EndCopy() {
	if r.ahead = (aheads{}); r.copy.desk != nil {
		r.copy.end()
	}
}

// CopyPID is the pid of that copy, or 0.
func (r *Reader) CopyPID() int { return r.copy.pid }

func (c *memoryCopy) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%w: make a socket pair: %w", errNoCopy, err)
	}
	d := &desk{parent: uintptr(os.Getpid()), ours: uintptr(pair[0]), theirs: uintptr(pair[1]), files: maxFiles}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		d.files = uintptr(min(limit.Cur, maxFiles))
	}
	pid, errno := d.fork()
	_ = unix.Close(pair[1])
	if errno != 0 {
		_ = unix.Close(pair[0])
		return fmt.Errorf("%w: fork: %w", errNoCopy, errno)
	}
	c.desk, c.pid, c.socket = d, int(pid), pair[0]
	return nil
}

// end kills the copy and waits for it, unless it is in a system call that no signal ends, or a tracer holds it.
func (c *memoryCopy) end() {
	_ = SignalChild(c.pid, unix.SIGKILL)
	_ = unix.Close(c.socket)
	pause := 50 * time.Microsecond
	for began := time.Now(); ; pause = min(2*pause, pollPause) {
		last := time.Since(began) >= execTimeout // this process may have been stopped meanwhile
		if pid, err := unix.Wait4(c.pid, nil, unix.WNOHANG|unix.WALL, nil); pid != 0 || err != nil && err != unix.EINTR || last {
			break
		}
		Sleep(pause)
	}
	*c = memoryCopy{hung: c.hung}
}

// read is one read of a file from an offset. If it takes too long, the copy is ended, and the error is ErrKeptWaiting. Call it on a
// thread that lives as long as the process.
func (c *memoryCopy) read(m Memory, offset int, buf []byte) (int, error) {
	if err := c.ask(offset, []Memory{m}); err != nil {
		return 0, err
	}
	if err := c.answer(); err != nil {
		return 0, err
	}
	n := c.reply.counts[0]
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	return copy(buf, c.reply.data[:n]), nil
}

// ask has the copy read files from an offset. Nothing else may be asked before answer.
func (c *memoryCopy) ask(offset int, files []Memory) error {
	if c.desk == nil {
		if err := c.start(); err != nil {
			return err
		}
	}
	q := &c.question
	*q = question{offset: int64(offset), files: int64(len(files))}
	for i, m := range files {
		if copy(q.names[i][:len(q.names[i])-1], m.name) < len(m.name) {
			return unix.ENAMETOOLONG
		}
	}
	if err := unix.Send(c.socket, bytesOf(q), unix.MSG_NOSIGNAL); err != nil {
		c.end() // It was killed, by the kernel or by a filter of system calls.
		return errNoCopy
	}
	return nil
}

// answer waits until the copy has read, and puts that into reply. The error is ErrKeptWaiting if it takes too long.
func (c *memoryCopy) answer() error {
	if !c.await() {
		c.hung++
		c.end()
		return ErrKeptWaiting
	}
	n, _, err := unix.Recvfrom(c.socket, bytesOf(&c.reply), unix.MSG_DONTWAIT)
	size := int(unsafe.Sizeof(c.reply.counts))
	for _, count := range c.reply.counts[:c.question.files] {
		size += int(max(count, 0))
	}
	if err != nil || n != size {
		c.end()
		return errNoCopy
	}
	return nil
}

func bytesOf[T any](p *T) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)) }

// A read takes microseconds. One that has not ended after copyLooks looks is given up. After a first one, fewer will do,
// since there may be many such processes. A look does not count if the copy has been stopped or only waits for a
// processor, as on a busy machine; there are at most copyMost.
const (
	copyPause = 50 * time.Millisecond
	copyLooks = 6
	copyFewer = 2
	copyMost  = 40
)

// await reports whether the copy has answered in time.
func (c *memoryCopy) await() bool {
	var r Reader
	fds := []unix.PollFd{{Fd: int32(c.socket), Events: unix.POLLIN}}
	looks := copyLooks
	if c.hung > 0 {
		looks = copyFewer
	}
	for n, waits := 0, 0; n < copyMost && waits < looks; n++ {
		poll(fds, copyPause)
		if fds[0].Revents != 0 {
			return true
		}
		if s, err := r.Stat(c.pid); err != nil || s.State == 'D' || s.State == 'S' {
			waits++
		}
	}
	return false
}

// fork makes the copy; only the parent returns from it. Nothing is told of the copy's end: the exit signal is 0.
//
//go:noinline
//go:norace
//go:nocheckptr
func (d *desk) fork() (pid uintptr, errno syscall.Errno) {
	all, old := ^uint64(0), uint64(0)
	pid, errno = d.clone(&all, &old)
	runtime.KeepAlive(d)
	return pid, errno
}

//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (d *desk) clone(all, old *uint64) (pid uintptr, errno syscall.Errno) {
	sigprocmask(unix.SIG_SETMASK, all, old)
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, 0, 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		d.serve()
	}
	sigprocmask(unix.SIG_SETMASK, old, nil)
	return pid, errno
}

// serve answers until the caller has closed its end, or is dead. It never returns. The copy holds no descriptor but its
// socket, since others may wait for end of file on them, or for a lock.
//
//go:noinline
//go:norace
//go:nocheckptr
//go:nosplit
func (d *desk) serve() {
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	ppid, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_CLOSE, d.ours, 0, 0)
	if d.theirs > 0 {
		syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, d.theirs-1, 0)
	}
	_, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, d.theirs+1, uintptr(^uint32(0)), 0)
	for fd := uintptr(0); errno != 0 && fd < d.files; fd++ { // before Linux 5.9
		if fd != d.theirs {
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
	for ppid == d.parent {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, d.theirs, uintptr(unsafe.Pointer(&d.question)), unsafe.Sizeof(d.question))
		if errno != 0 || n != unsafe.Sizeof(d.question) {
			break
		}
		size := unsafe.Sizeof(d.reply.counts)
		for i := int64(0); i < d.question.files && i < aheadFiles; i++ {
			size += d.look(i, size-unsafe.Sizeof(d.reply.counts))
		}
		syscall.RawSyscall(unix.SYS_WRITE, d.theirs, uintptr(unsafe.Pointer(&d.reply)), size)
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// look reads one of the files, after so much of the others, and returns how many bytes that are.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (d *desk) look(i int64, after uintptr) uintptr {
	const here = ^uintptr(99) // AT_FDCWD
	var n uintptr
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, here, uintptr(unsafe.Pointer(&d.question.names[i])), unix.O_RDONLY, 0, 0, 0)
	if errno == 0 {
		to := uintptr(unsafe.Pointer(&d.reply.data)) + after
		n, _, errno = syscall.RawSyscall6(unix.SYS_PREAD64, fd, to, memoryWindow-after, uintptr(d.question.offset), 0, 0)
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	}
	if errno != 0 {
		d.reply.counts[i] = -int64(errno)
		return 0
	}
	d.reply.counts[i] = int64(n)
	return n
}
