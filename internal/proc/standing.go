package proc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// What a process is to the kernel beside its command, environment and directory: a server inherits it, or is bound by it. Two
// processes that are equal in it have the same numbers and texts.

// Namespaces are those of this process, and of the children that it starts.
func Namespaces() (numbers []uint64, err error) {
	for _, kind := range [...]string{"cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"} {
		var st unix.Stat_t
		err := unix.Stat("/proc/self/ns/"+kind, &st)
		if err != nil && !errors.Is(err, unix.ENOENT) { // An older kernel has fewer.
			return nil, fmt.Errorf("read the %s namespace: %w", kind, err)
		}
		numbers = append(numbers, st.Ino)
	}
	return numbers, nil
}

// Label is what a security module calls this process. Why there is none counts as a label.
func Label() string {
	b, err := Read("/proc/self/attr/current", nil)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Limits are resource limits, scheduling, personality and signals as this process has inherited them.
// found are numbers that the runtime has changed since, and exact says that the limit of open files is among them.
func Limits(found []uint64, exact bool) ([]uint64, error) {
	const resources = 16 // RLIM_NLIMITS
	numbers := found
	for resource := range resources {
		if resource == unix.RLIMIT_NOFILE && exact { // The runtime has raised it.
			continue
		}
		var limit unix.Rlimit
		if err := unix.Getrlimit(resource, &limit); err != nil {
			return nil, fmt.Errorf("read the resource limits: %w", err)
		}
		numbers = append(numbers, limit.Cur, limit.Max)
	}
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return nil, fmt.Errorf("read the scheduling policy: %w", err)
	}
	const current, process = 0xffffffff, 1
	persona, _, _ := unix.Syscall(unix.SYS_PERSONALITY, current, 0, 0)
	secure, _, _ := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_SECUREBITS, 0, 0)
	inOut, _, _ := unix.Syscall(unix.SYS_IOPRIO_GET, process, 0, 0)
	return append(numbers, uint64(a.Policy), a.Flags, uint64(a.Nice), uint64(a.Priority), a.Runtime, a.Deadline, a.Period,
		uint64(persona), uint64(secure), uint64(inOut)), nil
}
