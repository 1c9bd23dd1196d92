package proc

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// systemd, and all that speaks its protocol, names the process that a variable is meant for by its pid: sd_listen_fds(3),
// sd_watchdog_enabled(3). That pid is the one that it has started, which is ours. The server's is known only after the fork.

// pidRoom is room for a pid in digits, and the zero that ends a variable.
const pidRoom = 11

// readdress takes the value from each variable that names one of the pids. at are their indices.
func readdress(env []string, was []int) (out []string, at []int) {
	if !slices.ContainsFunc(env, func(e string) bool { return names(e, was) }) {
		return env, nil
	}
	sockets := slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "LISTEN_PID=") && names(e, was) })
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case names(e, was):
			at = append(at, len(out))
			out = append(out, name+"=")
		case name == "LISTEN_PIDFDID" && sockets:
			// It says more exactly who LISTEN_PID is, and may be left out.
		default:
			out = append(out, e)
		}
	}
	return out, at
}

// names reports whether a variable names one of the pids as the process that it is meant for.
func names(e string, was []int) bool {
	name, value, _ := strings.Cut(e, "=")
	if name != "LISTEN_PID" && name != "WATCHDOG_PID" {
		return false
	}
	pid, err := strconv.Atoi(value)
	return err == nil && slices.Contains(was, pid)
}

// writePID writes the copy's own pid into the variables that are meant for it.
//
//go:norace
//go:nocheckptr
//go:nosplit
func (img *image) writePID() {
	if len(img.pidAt) == 0 {
		return
	}
	pid, _, _ := syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	digits := 1
	for n := pid; n >= 10; n /= 10 {
		digits++
	}
	for _, at := range img.pidAt {
		for i, n := digits-1, pid; i >= 0; i, n = i-1, n/10 {
			at[i] = byte('0' + n%10)
		}
	}
}
