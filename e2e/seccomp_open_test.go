package e2e

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// opens answers the openat calls of a world that asks (fixture/seccomp.go): "no such file" for a path that ends in one
// of the suffixes, and "go on" for any other. It ends when the last process of that world does.
type opens struct {
	t      testing.TB
	hidden []string
	socket *os.File // where the listener comes from
	theirs *os.File // inherited by the world
	// denied counts what was hidden. A test in which it stays 0 has tested nothing.
	denied atomic.Int64
}

func hide(t testing.TB, suffixes ...string) *opens {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	ok(t, err)
	o := &opens{t: t, hidden: suffixes, socket: os.NewFile(uintptr(p[0]), "ours"), theirs: os.NewFile(uintptr(p[1]), "theirs")}
	t.Cleanup(func() { _, _ = o.socket.Close(), o.theirs.Close() })
	return o
}

// answer takes the listener and starts to answer.
func (o *opens) answer() {
	o.t.Helper()
	_ = o.theirs.Close()
	room := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(o.socket.Fd()), make([]byte, 1), room, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		o.t.Fatalf("receive the listener: %v", err)
	}
	messages, err := unix.ParseSocketControlMessage(room[:n])
	if err != nil || len(messages) != 1 {
		o.t.Fatalf("%d control messages instead of a listener: %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	ok(o.t, err)
	go o.serve(fds[0])
}

// request and verdict are struct seccomp_notif and struct seccomp_notif_resp (seccomp_unotify(2)).
type request struct {
	id   uint64
	pid  uint32
	_    uint32
	nr   int32
	arch uint32
	ip   uint64
	args [6]uint64
}

type verdict struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

const goOn = 1 // SECCOMP_USER_NOTIF_FLAG_CONTINUE

// setFlags is SECCOMP_IOCTL_NOTIF_SET_FLAGS (Linux 6.6).
const setFlags = 0x40082104

func (o *opens) serve(listener int) {
	runtime.LockOSThread()
	defer unix.Close(listener)
	// The two sides take turns on one processor: many times faster when the machine is busy. It works without, too.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), setFlags, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	for {
		var r request
		switch ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&r)) {
		case 0:
			v := o.judge(r)
			_ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&v))
		case unix.ENOENT: // the process died while it waited, or the last one did
			fds := []unix.PollFd{{Fd: int32(listener)}}
			if n, err := unix.Poll(fds, 0); err == nil && n > 0 {
				return
			}
		case unix.EINTR:
		default:
			return
		}
	}
}

func (o *opens) judge(r request) verdict {
	if !o.hides(r) {
		return verdict{id: r.id, flags: goOn}
	}
	o.denied.Add(1)
	return verdict{id: r.id, errno: -int32(unix.ENOENT)}
}

func (o *opens) hides(r request) bool {
	path := make([]byte, unix.PathMax)
	local := []unix.Iovec{{Base: &path[0]}}
	local[0].SetLen(len(path))
	// In two parts: a path may end just before a page that is not there.
	first := int(0x1000 - r.args[1]&0xfff)
	remote := []unix.RemoteIovec{{Base: uintptr(r.args[1]), Len: first}, {Base: uintptr(r.args[1]) + uintptr(first), Len: len(path) - first}}
	n, err := unix.ProcessVMReadv(int(r.pid), local, remote, 0)
	if err != nil {
		return false
	}
	name, _, _ := bytes.Cut(path[:n], []byte{0})
	for _, suffix := range o.hidden {
		// A name may be relative to an open directory.
		if strings.HasSuffix("/"+string(name), suffix) {
			return true
		}
	}
	return false
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}
