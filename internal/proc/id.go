package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
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

// ParseGlobalID reads the form that GlobalID.String writes.
func ParseGlobalID(s string) (GlobalID, error) {
	part := strings.Split(s, ":")
	if len(part) != 4 {
		return GlobalID{}, fmt.Errorf("parse process identity %.80q: want pid:start:boot:pidns", s)
	}
	pid, err := strconv.Atoi(part[0])
	if err != nil || pid <= 0 {
		return GlobalID{}, fmt.Errorf("parse process identity %.80q: bad pid", s)
	}
	start, err := strconv.ParseUint(part[1], 10, 64)
	if err != nil {
		return GlobalID{}, fmt.Errorf("parse process identity %.80q: bad start time", s)
	}
	ns, err := strconv.ParseUint(part[3], 10, 64)
	if err != nil {
		return GlobalID{}, fmt.Errorf("parse process identity %.80q: bad pid namespace", s)
	}
	return GlobalID{ID{pid, start}, Host{part[2], ns}}, nil
}

// ReadHost reads the boot id and the pid namespace of the caller. In another time namespace than the first, the kernel tells
// other start times: its inode number is added, so that nothing from elsewhere is taken for what has ended.
func (r *Reader) ReadHost() (Host, error) {
	b, err := r.read("/proc/sys/kernel/random/boot_id", false)
	if err != nil {
		return Host{}, fmt.Errorf("read the boot id: %w", err)
	}
	h := Host{Boot: string(bytes.TrimSpace(b))}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return h, fmt.Errorf("read the pid namespace: %w", err)
	}
	h.PIDNS = st.Ino
	if unix.Stat("/proc/self/ns/time", &st) == nil && st.Ino != firstTimeNamespace {
		h.PIDNS |= st.Ino << 32
	}
	return h, nil
}

// IsFirst reports whether a host is the first pid namespace of its machine, which lasts until the next boot.
func (h Host) IsFirst() bool { return uint32(h.PIDNS) == firstPIDNamespace }

// firstPIDNamespace is the inode of the pid namespace that the kernel starts with (PROC_PID_INIT_INO in linux/proc_ns.h).
const firstPIDNamespace = 0xEFFFFFFC

// firstTimeNamespace is the inode of the time namespace that the kernel starts with (PROC_TIME_INIT_INO in linux/proc_ns.h).
const firstTimeNamespace = 0xEFFFFFFA

// TicksPerSecond is USER_HZ, in which the kernel counts start times (ID.Start, proc_pid_stat(5)). It is 100 on every
// architecture that Go runs on.
const TicksPerSecond = 100

// Tick is the length of one clock tick.
const Tick = time.Second / TicksPerSecond

// Now is the time since boot in the clock ticks of ID.Start.
func Now() (uint64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return uint64(ts.Sec*TicksPerSecond + ts.Nsec*TicksPerSecond/1e9), nil
}
