package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Now is the time since boot in the clock ticks of ID.Start.
func Now() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(ts.Sec*TicksPerSecond + ts.Nsec*TicksPerSecond/1e9), nil
}
