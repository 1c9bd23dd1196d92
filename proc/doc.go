// Package proc holds the kernel's facts about processes: their identities, their parents, and how to signal exactly the
// process that was meant.
//
// A pid is a number that the kernel hands out again. Here an identity is always the pair (pid, start time in clock
// ticks since boot, field 22 of /proc/PID/stat); across hosts and reboots the boot id and the pid namespace belong to
// it as well. A signal goes through a pidfd whose process was compared with that identity after the pidfd was opened,
// so a pid that was reused in between gets no signal.
//
// An entry that cannot be read or parsed is unknown. Unknown is neither dead nor ours: callers get an error and must
// leave the process alone.
//
// What is read of /proc and /sys, this package and package cgroup read, through package kernel.
package proc
