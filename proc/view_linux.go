package proc

import (
	"fmt"
	"os"
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
