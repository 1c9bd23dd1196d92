package proc

import "time"

// TicksPerSecond is USER_HZ, in which the kernel counts start times (ID.Start, proc_pid_stat(5)). It is 100 on every
// architecture that Go runs on.
const TicksPerSecond = 100

// Tick is the length of one clock tick.
const Tick = time.Second / TicksPerSecond
