package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/waiting"
)

// SelfExe is the running program for exec(2), also after its file was replaced by an upgrade.
const SelfExe = "/proc/self/exe"

// SetComm sets the command name of the calling thread, which is the process's when that is the main thread. After an
// exec of SelfExe it would read "exe".
func SetComm(name string) {
	b := append([]byte(name), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}

// Environ is the environment byte for byte as it was given, duplicates, empty entries and order included. Package os leaves out
// what it does not understand; a binary that was built without an entry before the runtime has nothing better.
func Environ() []string {
	if env, ok := waiting.Environ(); ok {
		return env
	}
	return os.Environ()
}

// OnTerminal reports whether standard input is the controlling terminal and the caller belongs to its foreground
// process group. Then a person started the process there, or a shell for them.
func OnTerminal() bool {
	fg, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && fg == unix.Getpgrp()
}

// IsTerminal reports whether a descriptor is a terminal.
func IsTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// View says what this process may see of others.
type View struct {
	// Table is true where /proc is mounted. Children is true where the kernel lists the children of a process
	// (CONFIG_PROC_CHILDREN). Others is true where the processes of other users can be seen (hidepid, proc(5)).
	Table, Children, Others bool
}

// See finds out what this process may see of others.
func See() View {
	there := func(name string) bool { _, err := os.Stat(name); return err == nil }
	return View{
		Table:    there("/proc/self/stat"),
		Children: there(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())),
		Others:   there("/proc/1/stat"),
	}
}

// ErrOtherTable says that /proc shows another pid namespace than the caller's. A number in it means another process to
// kill(2) and pidfd_open(2).
var ErrOtherTable = errors.New("/proc shows the processes of another pid namespace (unshare --pid without --mount-proc)")

// ReadsOwnTable says what keeps the pids in /proc from being those of the caller's pid namespace.
func ReadsOwnTable() error {
	link, err := Readlink("/proc/self")
	if err != nil {
		return err
	}
	if link != strconv.Itoa(os.Getpid()) {
		return ErrOtherTable
	}
	return nil
}
