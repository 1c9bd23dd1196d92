package proc

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadHost reads the boot id and the pid namespace of the caller.
func (r *Reader) ReadHost() (Host, error) {
	b, err := r.read("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Host{}, fmt.Errorf("read the boot id: %w", err)
	}
	h := Host{Boot: string(bytes.TrimSpace(b))}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return h, fmt.Errorf("read the pid namespace: %w", err)
	}
	h.PIDNS = st.Ino
	return h, nil
}
