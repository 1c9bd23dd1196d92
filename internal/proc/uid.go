package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// UID gives the effective user of a process: the owner of its /proc entry (proc(5); root for one that is not dumpable).
func UID(pid int) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(Path(pid, ""), &st); err != nil {
		return -1, fmt.Errorf("read owner of %d: %w", pid, vanished(err))
	}
	return int(st.Uid), nil
}
