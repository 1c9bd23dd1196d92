// Package kernel reads and writes the small files through which the kernel tells its facts: those of /proc and of a
// cgroup hierarchy. It also opens the directories that a user controls, and reaches what is in them by descriptor (Dir): a
// path may lead elsewhere from one call to the next. A file that takes the place of another is written here too (Replace).
//
// It uses plain system calls. Package os would register each file with the runtime's poller, which a process that is
// started once per server can do without.
package kernel
