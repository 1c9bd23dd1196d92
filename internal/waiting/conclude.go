//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// What a front that sleeps would do at its end needs no runtime. A gateway may have thousands of sleepers, and they all end with it.

const (
	// closingPause is how long to wait for the end of a gateway whose streams have ended: they end first.
	closingPause = 10 * millisecond
	// homePatience is how long the history may take, in seconds. Its home may not answer.
	homePatience = 3
)

// clientHungUp reports whether the client has closed its end, and left nothing to read.
func (p *Page) clientHungUp(at *room) bool {
	at.status = 0
	return at.polled[onStdin].revents&(unix.POLLHUP|unix.POLLRDHUP) != 0 &&
		call(unix.SYS_IOCTL, 0, unix.TIOCINQ, uintptr(unsafe.Pointer(&at.status)), 0, 0, 0) == 0 && at.status == 0
}

// conclude ends a session behind which nothing is left: without its record, and with its line in the history.
func (p *Page) conclude(at *room) {
	if happened == uintptr(ByStdin) || happened == uintptr(ByStdout) {
		at.clear()
		at.poll(onParent, p.parentFD, unix.POLLIN)
		at.poll(onGateway, p.gatewayFD, unix.POLLIN)
		at.wait(at.now() + closingPause)
		if at.fired(onParent) || at.fired(onGateway) || p.parentGone() {
			happened = uintptr(ByParent)
		}
	}
	record, code := uintptr(unsafe.Pointer(&p.files)), int64(0)
	if happened == uintptr(BySignal) {
		code = 128 + int64(detail)
	}
	call(unix.SYS_UNLINKAT, atWorkingDir, record, 0, 0, 0, 0)
	if size := p.finishDraft(at, code); size > 0 {
		p.expire()
		flags := uintptr(unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC)
		fd := call(unix.SYS_OPENAT, uintptr(p.historyFD), after(record), flags, 0o600, 0, 0)
		call(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&at.text)), size, 0, 0, 0)
	}
	exit(code)
}

// finishDraft completes the session's line for the history, and returns its size; 0 for none.
func (p *Page) finishDraft(at *room, code int64) uintptr {
	text, size := uintptr(unsafe.Pointer(&at.text)), uintptr(p.drafted)
	if p.historyFD < 0 || size == 0 || size > maxDraft ||
		call(unix.SYS_PREAD64, uintptr(p.keptFD), text, size, uintptr(p.draft), 0, 0) != int64(size) {
		return 0
	}
	to := at.number(text+size, ",\"seconds\":", max((at.now()-p.began)/millisecond, 1))
	to = at.number(to, "e-3,\"cause\":\"", 0)
	switch happened {
	case uintptr(BySignal):
		to = at.number(at.number(to, "signal\",\"signal\":\"", 0), signalName(detail), 0)
	case uintptr(ByStdin):
		to = at.number(to, "stdin-closed", 0)
	case uintptr(ByStdout):
		to = at.number(to, "stdout-closed", 0)
	default:
		to = at.number(to, "gateway-gone", 0)
	}
	if to = at.number(to, "\",\"exit\":", code); code == 0 {
		to = at.number(to, "0", 0)
	}
	return at.number(to, "}\n", 0) - text
}

// signalName is the name of a signal that ends.
func signalName(sig uintptr) string {
	switch sig {
	case uintptr(unix.SIGHUP):
		return "SIGHUP"
	case uintptr(unix.SIGINT):
		return "SIGINT"
	case uintptr(unix.SIGQUIT):
		return "SIGQUIT"
	}
	return "SIGTERM"
}

// expire has the kernel end this process if the history takes too long.
func (p *Page) expire() {
	var timer [4]int64
	timer[2] = homePatience
	mask := ^uint64(1 << (unix.SIGALRM - 1))
	p.setAction(uintptr(unix.SIGALRM), defaultAction)
	call(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, sigSetSize, 0, 0)
	call(unix.SYS_SETITIMER, unix.ITIMER_REAL, uintptr(unsafe.Pointer(&timer)), 0, 0, 0, 0)
}
