package proc

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// Who may trace all processes reads command line and environment with one system call instead of the six that the files
// in /proc take. For others the kernel would note each attempt in its log.

// span says where in the memory of a process its command line and environment are (fields 48 to 51 of proc_pid_stat(5); 0
// when they are not told).
type span struct{ args, argsEnd, env, envEnd uint64 }

// firstSpan is the index of the first of those fields, counted from the state (field 3) as 0.
const firstSpan = 45

func parseSpan(stat []byte) (at span) {
	rest := stat[bytes.LastIndexByte(stat, ')')+1:]
	for i := 0; len(rest) > 1 && i < firstSpan+4; i++ {
		field, after := rest[1:], []byte(nil)
		if n := bytes.IndexByte(field, ' '); n >= 0 {
			field, after = field[:n], field[n:]
		}
		if i >= firstSpan {
			n, _ := strconv.ParseUint(string(field), 10, 64)
			*[]*uint64{&at.args, &at.argsEnd, &at.env, &at.envEnd}[i-firstSpan] = n
		}
		rest = after
	}
	return at
}

// mayPeek reports whether this process may trace all others: CAP_SYS_PTRACE.
func mayPeek() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}

// peekAt reads both at once, and reports whether it did. It leaves all that is unusual to the files: what is longer than
// most, and a title that a process has written over its command line (setproctitle(3)), which the kernel reads by rules of
// its own.
func (r *Reader) peekAt(p *Process, at span, names []string) bool {
	args, env := at.argsEnd-at.args, at.envEnd-at.env
	if at.args == 0 || at.env == 0 || args == 0 || args > maxArgs || env > window {
		return false
	}
	if cap(r.buf) < maxArgs+window {
		r.buf = make([]byte, 0, maxArgs+window)
	}
	b := r.buf[:args+env]
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	remote := []unix.RemoteIovec{{Base: uintptr(at.args), Len: int(args)}, {Base: uintptr(at.env), Len: int(env)}}
	if n, err := unix.ProcessVMReadv(p.PID, local, remote, 0); err != nil || n != len(b) || b[args-1] != 0 {
		return false
	}
	p.Args = words(b[:args])
	p.Env = make([]string, len(names))
	for entry := range bytes.SplitSeq(b[args:], []byte{0}) {
		pick(entry, names, p.Env)
	}
	return true
}
