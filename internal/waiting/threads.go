//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// threads is how many a runtime needs to start, and patience how often it is tried to have so many before something is
	// killed. longPatience bounds the killing.
	threads      = 5
	patience     = 20
	longPatience = 4000
	pause        = 5 * millisecond
)

// makeRoom returns true when a runtime can have its threads: it aborts where it cannot start one. While there is no room for
// so many processes (pids.max, RLIMIT_NPROC), the leaf is killed, and all below us but the children that were there before the
// session, until none is left. All are stopped first, until no other one turns up: what forks at the limit would take the room
// again. So it is where a runtime has aborted before (at once). If that makes no room either, others have taken it, and the
// answer is false.
func (p *Page) makeRoom(at *room, atOnce bool) bool {
	for n := 0; n < patience && !atOnce; n++ {
		if p.hasRoom(at) {
			return true
		}
		at.sleep(pause)
	}
	p.killLeaf()
	for n, count := 0, 1; n < longPatience && count > 0; n++ {
		count = p.stopAll(at)
		for last, pass := -1, 0; pass < maxPasses && count != last; pass++ {
			last, count = count, p.stopAll(at)
		}
		for m := count - 1; m >= 0; m-- { // the youngest first: each has its parent still
			at.send(at.pair(m), uintptr(unix.SIGKILL))
		}
		at.sleep(pause)
		for p.reap(at) > 0 {
		}
	}
	for range patience {
		if p.hasRoom(at) {
			return true
		}
		at.sleep(pause)
	}
	return false
}

// giveUp ends the process without a runtime, with the server's exit code if that is known. If nobody is left, leaf and record go.
// What a container engine may have stays on record, for reap.
func (p *Page) giveUp() {
	flags := uintptr(0)
	if p.leafFD >= 0 {
		flags = unix.AT_REMOVEDIR // The first path is the leaf.
	}
	text := uintptr(unsafe.Pointer(&p.files))
	for p.listenFD < 0 && p.manyForeign == 0 && char(text) != 0 && p.stopAll(&p.anchorRoom) == 0 {
		if call(unix.SYS_UNLINKAT, atWorkingDir, text, flags, 0, 0, 0) < 0 && flags != 0 {
			break
		}
		text, flags = after(text), 0
	}
	code := int64(ExitFailure)
	if p.reaped != 0 {
		if code = p.status >> 8 & 0xff; p.status&0x7f != 0 {
			code = 128 + p.status&0x7f
		}
	}
	p.code, p.done = code, 1
	exit(code)
}

// sleep waits for so many nanoseconds.
func (at *room) sleep(time int64) {
	at.left.Sec, at.left.Nsec = time/second, time%second
	call(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&at.left)), 0, 0, 0, 0, 0)
}

// hasRoom forks as many processes as a runtime needs threads. Each ends at once, and takes its room until it is waited for.
func (p *Page) hasRoom(at *room) bool {
	n := 0
	for ; n < threads; n++ {
		pid := call(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_FILES, 0, 0, 0, 0, 0)
		if pid < 0 {
			break
		}
		if pid == 0 {
			exit(0)
		}
		at.pair(n).pid = pid
	}
	has := n == threads
	for n--; n >= 0; n-- {
		call(unix.SYS_WAIT4, uintptr(at.pair(n).pid), 0, unix.WALL, 0, 0, 0)
	}
	return has
}

// killLeaf kills the leaf, as long as its control file is open here.
func (p *Page) killLeaf() {
	one := "1"
	if p.killFD >= 0 && p.supervisor == call(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0) {
		call(unix.SYS_WRITE, uintptr(p.killFD), uintptr(unsafe.Pointer(unsafe.StringData(one))), 1, 0, 0, 0)
	}
}

// maxPasses bounds the passes of one round over what forks meanwhile.
const maxPasses = 32

func (at *room) pair(n int) *pair {
	return (*pair)(unsafe.Add(unsafe.Pointer(&at.found), uintptr(n)*unsafe.Sizeof(pair{})))
}

// stopAll stops all below us, each before its children are listed, and returns how many there are. It does nothing where it is
// not known which children are the session's.
func (p *Page) stopAll(at *room) int {
	own := call(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	count := 0
	if p.manyForeign == 0 {
		count = at.list(own, 0, 0)
	}
	for n := 0; n < count; n++ {
		f := at.pair(n)
		if f.parent == own && p.wasThere(f.pid) {
			*f = pair{}
			continue
		}
		at.send(f, uintptr(unix.SIGSTOP))
		count = at.list(f.pid, 0, count)
	}
	return count
}

// send signals a process through its pidfd, if it is still the child of its parent: no other process has its pid then.
func (at *room) send(f *pair, sig uintptr) {
	if f.pid <= 1 {
		return
	}
	fd := call(unix.SYS_PIDFD_OPEN, uintptr(f.pid), 0, 0, 0, 0, 0)
	if fd < 0 {
		return
	}
	if at.list(f.parent, f.pid, 0) > 0 {
		call(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), sig, 0, 0, 0, 0)
	}
	call(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0, 0)
}

// list adds the children of a process to the first count that were found, and returns how many these are then. With one, it
// adds none, and returns whether that is among the children.
func (at *room) list(parent, one int64, count int) int {
	path := at.number(at.number(uintptr(unsafe.Pointer(&at.path)), "/proc/", parent), "/task/", parent)
	at.number(path, "/children\x00", 0)
	fd := call(unix.SYS_OPENAT, atWorkingDir, uintptr(unsafe.Pointer(&at.path)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if fd < 0 {
		return count
	}
	pid, text, size := int64(0), uintptr(unsafe.Pointer(&at.text)), int64(1)
	for size > 0 {
		size = call(unix.SYS_READ, uintptr(fd), text, unsafe.Sizeof(at.text), 0, 0, 0)
		for c := text; c < text+uintptr(max(size, 0)); c++ {
			if digit := char(c); digit != ' ' {
				pid = 10*pid + int64(digit-'0')
				continue
			}
			if one == 0 && count < maxFound {
				*at.pair(count) = pair{pid, parent}
				count++
			} else if pid == one {
				count = 1
			}
			pid = 0
		}
	}
	call(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0, 0)
	return count
}

// number writes a text and a number, if that is not 0, and returns where the next one goes.
func (at *room) number(to uintptr, text string, n int64) uintptr {
	from := uintptr(unsafe.Pointer(unsafe.StringData(text)))
	for end := from + uintptr(len(text)); from < end; from, to = from+1, to+1 {
		setChar(to, char(from))
	}
	first := to
	for ; n > 0; n, to = n/10, to+1 {
		setChar(to, byte('0'+n%10))
	}
	for last := to - 1; first < last; first, last = first+1, last-1 {
		c := char(first)
		setChar(first, char(last))
		setChar(last, c)
	}
	return to
}

// wasThere reports whether the anchor had a child with this pid before the session.
func (p *Page) wasThere(pid int64) bool {
	at := uintptr(unsafe.Pointer(&p.foreign))
	for end := at + unsafe.Sizeof(p.foreign); at < end; at += wordSize {
		if int64(word(at)) == pid {
			return true
		}
	}
	return false
}
