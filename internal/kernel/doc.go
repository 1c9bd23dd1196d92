// Package kernel reads and writes small files of /proc and of a cgroup hierarchy, through which the kernel gives its
// facts. It also opens the directories that a user controls, and reaches what is in them by descriptor (Dir). A path
// may lead elsewhere from one call to the next. A file that takes the place of another is written here too (Replace).
//
// It reads with plain system calls. Package os would register each file with the runtime's poller, which a process that
// is started once per server can do without.
package kernel
