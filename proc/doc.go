// Package proc holds the kernel's facts about processes: who they are, whose children they are, and how to reach
// exactly the one that was meant.
//
// A pid is a number that the kernel hands out again. Here an identity is always the pair (pid, start time in clock
// ticks since boot, field 22 of /proc/PID/stat); across hosts and reboots the boot id and the pid namespace belong to
// it as well. A signal goes through a pidfd whose process was compared with that identity after the pidfd was opened,
// so a number that changed hands in between reaches nobody.
//
// An entry that cannot be read or parsed is unknown. Unknown is neither dead nor ours: callers get an error and must
// leave the process alone.
//
// Nothing outside this package and package cgroup opens /proc or /sys. Files are read with plain system calls: package
// os would register each of them with the runtime's poller, which a process that is started once per server can do
// without.
package proc
