package proc

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// TicksPerSecond is USER_HZ, in which the kernel counts start times (ID.Start, proc_pid_stat(5)). It is 100 on every
// architecture that Go runs on.
const TicksPerSecond = 100

// Tick is the length of one clock tick.
const Tick = time.Second / TicksPerSecond

// Now is the time since boot in the clock ticks of ID.Start.
func Now() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(ts.Sec*TicksPerSecond + ts.Nsec*TicksPerSecond/1e9), nil
}
