package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

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
