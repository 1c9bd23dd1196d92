package proc

import (
	"errors"
	"fmt"
	"strings"

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

// Status is /proc/PID/status.
type Status string

// ReadStatus reads the status of a process.
func ReadStatus(pid int) (Status, error) {
	b, err := Read(Path(pid, "status"), nil)
	if err != nil {
		return "", fmt.Errorf("read the status of %d: %w", pid, vanished(err))
	}
	return Status("\n" + string(b)), nil
}

// Field is the value of a field, "" if the kernel has none of that name.
func (s Status) Field(name string) string {
	_, rest, _ := strings.Cut(string(s), "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// Fields are the values of several.
func (s Status) Fields(names ...string) []string {
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = s.Field(name)
	}
	return values
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
