package proc

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrGone says that the process of that identity has ended, or that its pid belongs to another one now.
var ErrGone = errors.New("process is gone")

// ID identifies one process on one running kernel.
type ID struct {
	PID int `json:"pid"`
	// Start is the start time in clock ticks since boot, field 22 of /proc/PID/stat (proc_pid_stat(5)), as the first time
	// namespace has it.
	Start uint64 `json:"start"`
}

// Zero reports whether the identity is unset.
func (id ID) Zero() bool { return id == ID{} }

// String gives "pid:start".
func (id ID) String() string {
	return strconv.Itoa(id.PID) + ":" + strconv.FormatUint(id.Start, 10)
}

// Host identifies the kernel and pid namespace in which an ID means something.
type Host struct {
	// Boot is /proc/sys/kernel/random/boot_id.
	Boot string `json:"boot"`
	// PIDNS is the inode number of the pid namespace, from /proc/self/ns/pid.
	PIDNS uint64 `json:"pidns"`
}

// GlobalID is an identity that can be compared across reboots and namespaces.
type GlobalID struct {
	ID
	Host
}

// String gives "pid:start:boot:pidns", the form of the mark in the environment.
func (g GlobalID) String() string {
	return g.ID.String() + ":" + g.Boot + ":" + strconv.FormatUint(g.PIDNS, 10)
}

// parseID reads the form that ID.String writes.
func parseID(s string) (ID, error) {
	p, t, ok := strings.Cut(s, ":")
	pid, err := strconv.Atoi(p)
	if !ok || err != nil || pid <= 0 {
		return ID{}, fmt.Errorf("parse process identity %.80q: bad pid", s)
	}
	start, err := strconv.ParseUint(t, 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("parse process identity %.80q: bad start time", s)
	}
	return ID{pid, start}, nil
}

// ParseGlobalID reads the form that GlobalID.String writes.
func ParseGlobalID(s string) (GlobalID, error) {
	part := strings.Split(s, ":")
	if len(part) != 4 {
		return GlobalID{}, fmt.Errorf("parse process identity %.80q: want pid:start:boot:pidns", s)
	}
	id, err := parseID(part[0] + ":" + part[1])
	if err != nil {
		return GlobalID{}, err
	}
	ns, err := strconv.ParseUint(part[3], 10, 64)
	if err != nil {
		return GlobalID{}, fmt.Errorf("parse process identity %.80q: bad pid namespace", s)
	}
	return GlobalID{id, Host{part[2], ns}}, nil
}
