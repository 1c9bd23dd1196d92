package proc

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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

// UID gives the effective user of a process: the owner of its /proc entry (proc(5); root for one that is not dumpable).
func UID(pid int) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(Path(pid, ""), &st); err != nil {
		return -1, fmt.Errorf("read owner of %d: %w", pid, vanished(err))
	}
	return int(st.Uid), nil
}

// OwnWords reports whether command line and environment of a process are the word of a user. Those of a set-user-ID
// program are its caller's, so its real, effective and saved user must be that one. Root of another pid namespace, as of
// a container, is not root here. Ask after they were read: what changes its user meanwhile does not count.
func OwnWords(pid, uid int) (bool, error) {
	s, err := ReadStatus(pid)
	return err == nil && s.ownWords(uid), err
}

func (s Status) ownWords(uid int) bool {
	ids := strings.Fields(s.Field("Uid"))
	isOther := func(id string) bool { return id != strconv.Itoa(uid) }
	if len(ids) != 4 || slices.ContainsFunc(ids[:3], isOther) {
		return false
	}
	return uid != 0 || len(strings.Fields(s.Field("NSpid"))) <= 1 // gVisor has no such field.
}
