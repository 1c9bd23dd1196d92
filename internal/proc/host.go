package proc

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadHost reads the boot id and the pid namespace of the caller. In another time namespace than the first, the kernel tells
// other start times: its inode number is added, so that nothing from elsewhere is taken for what has ended.
func (r *Reader) ReadHost() (Host, error) {
	b, err := r.read("/proc/sys/kernel/random/boot_id", false)
	if err != nil {
		return Host{}, fmt.Errorf("read the boot id: %w", err)
	}
	h := Host{Boot: string(bytes.TrimSpace(b))}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return h, fmt.Errorf("read the pid namespace: %w", err)
	}
	h.PIDNS = st.Ino
	if unix.Stat("/proc/self/ns/time", &st) == nil && st.Ino != firstTimeNamespace {
		h.PIDNS |= st.Ino << 32
	}
	return h, nil
}

// IsFirst reports whether a host is the first pid namespace of its machine, which lasts until the next boot.
func (h Host) IsFirst() bool { return uint32(h.PIDNS) == firstPIDNamespace }

// firstPIDNamespace is the inode of the pid namespace that the kernel starts with (PROC_PID_INIT_INO in linux/proc_ns.h).
const firstPIDNamespace = 0xEFFFFFFC

// firstTimeNamespace is the inode of the time namespace that the kernel starts with (PROC_TIME_INIT_INO in linux/proc_ns.h).
const firstTimeNamespace = 0xEFFFFFFA
