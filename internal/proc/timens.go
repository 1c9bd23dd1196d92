package proc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/kernel"
)

// bootShift is by how many clock ticks the start times that the kernel tells this process are later than those that others are
// told: a time namespace may have a time since boot of its own (time_namespaces(7)). Without it an identity from elsewhere would
// look like that of a process that has ended.
func bootShift() (int64, error) {
	b, err := kernel.Read("/proc/self/timens_offsets", nil)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		return 0, nil // A kernel without time namespaces, or a sandbox that has none.
	}
	if err != nil {
		return 0, fmt.Errorf("read the offset of the time namespace: %w", err)
	}
	return parseBootShift(string(b))
}

// parseBootShift reads lines of a clock, seconds and nanoseconds.
func parseBootShift(offsets string) (int64, error) {
	for line := range strings.Lines(offsets) {
		f := strings.Fields(line)
		if len(f) != 3 || f[0] != "boottime" {
			continue
		}
		seconds, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse the offset %.60q: %w", line, err)
		}
		nanoseconds, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("parse the offset %.60q: %w", line, err)
		}
		return seconds*TicksPerSecond + nanoseconds/int64(Tick), nil
	}
	return 0, nil
}

// shift is bootShift, which is read once: no process of ours changes its time namespace.
func (r *Reader) shift() (int64, error) {
	if r.shifted == nil {
		n, err := bootShift()
		if err != nil {
			return 0, err
		}
		r.shifted = &n
	}
	return *r.shifted, nil
}
