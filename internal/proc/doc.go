// Package proc holds the kernel's facts about processes: their identities, their parents, and how to signal exactly the
// process that was meant.
//
// A pid is a number that the kernel hands out again. Here an identity is always the pair of pid and start time, in
// clock ticks since boot (field 22 of /proc/PID/stat). Across hosts and reboots the boot id and the pid namespace
// belong to it as well. A signal goes through a pidfd whose process was compared with that identity after the pidfd was
// opened. So a pid that was reused in between gets no signal.
//
// An entry that cannot be read or parsed is unknown. Unknown is neither dead nor ours: callers get an error and must
// leave the process alone.
//
// Only this package, evidence, cgroup and, without a runtime, waiting read facts about processes and cgroups from /proc and
// cgroup hierarchies. The machine's memory is read by package cli, through a library.
//
// Who there is: id.go, stat.go, tree.go, table.go. What a process says of itself: memory.go, status.go. What is done to one: signal.go,
// life.go, wait.go. Who has started us: gateway.go, owner.go. This process: self.go, start.go, catch.go, poll.go, descriptors.go,
// runtime.go, inherited.go.
//
// What they read them with is here too (file.go, dir.go): plain system calls, for package os would register each file with
// the runtime's poller. Dir opens a directory that a user controls and reaches what is in it by descriptor, because a path
// may lead elsewhere from one call to the next. Replace writes a file that takes the place of another.
package proc
