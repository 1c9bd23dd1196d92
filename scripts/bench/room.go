package main

import (
	"fmt"
	"os"
	"strings"
)

// spare are the process numbers that are left to others on this machine.
const spare = 2_000

// needRoom reports whether the machine has room for so many more tasks, and so many MB of memory. What asks for more than there
// is would make everybody else's starts fail, too.
func needRoom(tasks int, megabytes float64) error {
	pidMax, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return fmt.Errorf("read how many tasks there may be: %w", err)
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return fmt.Errorf("read how many tasks there are: %w", err)
	}
	_, after, _ := strings.Cut(string(load), "/") // "0.20 0.18 0.12 1/80 11206": running and all tasks (proc_loadavg(5))
	most, there := number(pidMax, ""), number([]byte(after), "")
	if free := int(most-there) - spare; tasks > free {
		return fmt.Errorf("no room for %d more processes and threads, but for %d: raise kernel.pid_max, or ask for less", tasks, free)
	}
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("read how much memory is free: %w", err)
	}
	if free := number(info, "MemAvailable:") * 1024 / 1e6; megabytes > free {
		return fmt.Errorf("no room for %.0f MB, but for %.0f: ask for less", megabytes, free)
	}
	return nil
}
