//go:build amd64 || arm64

package waiting

import "golang.org/x/sys/unix"

// What a front that sleeps would do at its end needs no runtime. A gateway may have thousands of sleepers, and they all end with it.

const (
	// closingPause is how long to wait for the end of a gateway whose streams have ended: they end first.
	closingPause = 10 * millisecond
	// homePatience is how long the history may take, in seconds. Its home may not answer.
	homePatience = 3
)

// clientHungUp reports whether the client has closed its end, and left nothing to read.
func (w *polled) clientHungUp() bool {
	var left int32
	return w[onStdin].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0 &&
		call(unix.SYS_IOCTL, 0, unix.TIOCINQ, address(&left)) == 0 && left == 0
}

// conclude ends a session behind which nothing is left: without its record, and with its line in the history.
func (p *Page) conclude() {
	if early.happened.Kind == ByStdin || early.happened.Kind == ByStdout {
		var w polled
		w.clear()
		w.add(onParent, p.FD.Parent, unix.POLLIN)
		w.add(onGateway, p.FD.Gateway, unix.POLLIN)
		w.wait(now() + closingPause)
		if w.fired(onParent) || w.fired(onGateway) || p.parentGone() {
			early.happened.Kind = ByParent
		}
	}
	code := 0
	if early.happened.Kind == BySignal {
		code = 128 + int(early.happened.Signal)
	}
	call(unix.SYS_UNLINKAT, atWorkingDir, address(&p.files), 0)
	var line [maxDraft + 128]byte
	if past := p.finishDraft(line[:0], code); len(past) > 0 {
		expire()
		flags := uintptr(unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC)
		fd := call(unix.SYS_OPENAT, uintptr(p.FD.History), address(&after(p.files[:])[0]), flags, 0o600)
		call(unix.SYS_WRITE, uintptr(fd), address(&past[0]), uintptr(len(past)))
	}
	exit(code)
}

// finishDraft completes the session's line for the history in the memory of to; it is empty where there is none.
func (p *Page) finishDraft(to []byte, code int) []byte {
	size := p.drafted
	if p.FD.History < 0 || size == 0 || size > maxDraft {
		return nil
	}
	to = to[:size]
	if call(unix.SYS_PREAD64, uintptr(p.FD.Kept), address(&to[0]), uintptr(size), uintptr(p.draft)) != size {
		return nil
	}
	to = appendInt(to, `,"seconds":`, max((now()-p.began)/millisecond, 1))
	to = append(to, `e-3,"cause":"`...)
	switch early.happened.Kind {
	case BySignal:
		to = append(append(to, `signal","signal":"`...), signalName(early.happened.Signal)...)
	case ByStdin:
		to = append(to, "stdin-closed"...)
	case ByStdout:
		to = append(to, "stdout-closed"...)
	default:
		to = append(to, "gateway-gone"...)
	}
	return append(appendInt(to, `","exit":`, code), "}\n"...)
}

// signalName is the name of a signal that ends.
func signalName(sig unix.Signal) string {
	switch sig {
	case unix.SIGHUP:
		return "SIGHUP"
	case unix.SIGINT:
		return "SIGINT"
	case unix.SIGQUIT:
		return "SIGQUIT"
	}
	return "SIGTERM"
}

// expire has the kernel end this process if the history takes too long.
func expire() {
	timer := [4]int{2: homePatience}
	setAction(unix.SIGALRM, defaultAction)
	setMask(^uint64(1 << (unix.SIGALRM - 1)))
	call(unix.SYS_SETITIMER, unix.ITIMER_REAL, address(&timer), 0)
}
