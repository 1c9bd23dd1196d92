//go:build amd64 || arm64

package waiting

import (
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// threads is how many a runtime needs to start, and patience how often it is tried to have so many before something is
	// killed. longPatience bounds the killing.
	threads      = 5
	patience     = 20
	longPatience = 4000
	pause        = 5 * millisecond
	// maxPasses bounds the passes of one round over what forks meanwhile.
	maxPasses = 32
)

// makeRoom returns true when a runtime can have its threads: it aborts where it cannot start one. While there is no room for
// so many processes (pids.max, RLIMIT_NPROC), the leaf is killed, and all below us but the children that were there before the
// session, until none is left. All are stopped first, until no other one turns up: what forks at the limit would take the room
// again. So it is where a runtime has aborted before (at once). If that makes no room either, others have taken it, and the
// answer is false.
func (p *Page) makeRoom(atOnce bool) bool {
	if !atOnce && awaitRoom() {
		return true
	}
	p.killLeaf()
	for n, found := 0, 1; n < longPatience && found > 0; n++ {
		all := p.stopAll()
		for last, pass := -1, 0; pass < maxPasses && len(all) != last; pass++ {
			last, all = len(all), p.stopAll()
		}
		found = len(all)
		for m := range all { // the youngest first: each has its parent still
			all[len(all)-1-m].send(unix.SIGKILL)
		}
		sleep(pause)
		for pid := 1; pid > 0; pid, _ = p.reap() {
		}
	}
	return awaitRoom()
}

func awaitRoom() bool {
	for range patience {
		if hasRoom() {
			return true
		}
		sleep(pause)
	}
	return false
}

// giveUp ends the process without a runtime, with the server's exit code if that is known. If nobody is left, leaf and record go.
// What a container engine may have stays on record, for reap.
func (p *Page) giveUp() {
	flags := uintptr(0)
	if p.FD.Leaf >= 0 {
		flags = unix.AT_REMOVEDIR // The first path is the leaf.
	}
	for file := p.files[:]; p.FD.Listener < 0 && !p.manyForeign && file[0] != 0 && len(p.stopAll()) == 0; file = after(file) {
		if call(unix.SYS_UNLINKAT, atWorkingDir, address(&file[0]), flags) < 0 && flags != 0 {
			break
		}
		flags = 0
	}
	p.code, p.done = ExitFailure, true
	if p.reaped {
		p.code = exitCode(p.status)
	}
	exit(p.code)
}

// exitCode is what a shell makes of a wait status.
func exitCode(status int) int {
	if status&0x7f != 0 {
		return 128 + status&0x7f
	}
	return status >> 8 & 0xff
}

// hasRoom forks as many processes as a runtime needs threads. Each ends at once, and takes its room until it is waited for.
func hasRoom() bool {
	var pids [threads]int
	has := true
	for n := range pids {
		if pids[n] = fork(unix.CLONE_FILES); pids[n] == 0 {
			exit(0)
		}
		has = has && pids[n] > 0
	}
	for _, pid := range pids {
		if pid > 0 {
			call(unix.SYS_WAIT4, uintptr(pid), 0, unix.WALL, 0)
		}
	}
	return has
}

// killLeaf kills the leaf, as long as its control file is open here.
func (p *Page) killLeaf() {
	if p.FD.Kill >= 0 && p.Pid.Supervisor == getpid() {
		call(unix.SYS_WRITE, uintptr(p.FD.Kill), textAddress("1"), 1)
	}
}

// stopAll stops all below us, each before its children are listed, and returns them. It does nothing where it is not known which
// children are the session's.
func (p *Page) stopAll() []process {
	all := p.found[:0]
	if p.manyForeign {
		return all
	}
	own := getpid()
	add := func(child process) {
		if len(all) < maxFound && !(child.parent == own && p.wasThere(child.pid)) {
			all = append(all, child)
		}
	}
	eachChild(own, add)
	for n := 0; ; n++ { // add makes it longer
		if n == len(all) {
			return all
		}
		all[n].send(unix.SIGSTOP)
		eachChild(all[n].pid, add)
	}
}

// send signals a process through its pidfd, if it is still the child of its parent: no other process has its pid then.
func (f process) send(sig unix.Signal) {
	if f.pid <= 1 {
		return
	}
	fd := openPidfd(f.pid)
	if fd < 0 {
		return
	}
	is := false
	eachChild(f.parent, func(child process) { is = is || child == f })
	if is {
		call(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), uintptr(sig), 0, 0)
	}
	closeFD(fd)
}

// eachChild visits the children of a process.
func eachChild(parent int, visit func(process)) {
	var name [64]byte
	path := appendInt(appendInt(name[:0], "/proc/", parent), "/task/", parent)
	path = append(path, "/children\x00"...)
	fd := call(unix.SYS_OPENAT, atWorkingDir, address(&path[0]), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if fd < 0 {
		return
	}
	var text [4096]byte
	pid, size := 0, 1
	for size > 0 {
		size = call(unix.SYS_READ, uintptr(fd), address(&text), uintptr(len(text)))
		for _, c := range text[:max(size, 0)] {
			if c != ' ' {
				pid = 10*pid + int(c-'0')
				continue
			}
			visit(process{pid, parent})
			pid = 0
		}
	}
	closeFD(fd)
}

// wasThere reports whether the anchor had a child with this pid before the session.
func (p *Page) wasThere(pid int) bool { return slices.Contains(p.foreign[:], pid) }
