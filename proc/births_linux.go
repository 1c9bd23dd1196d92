package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
)

// births tells which processes have started since a look at the whole process table, without another such look. The kernel
// gives pids in turn and says which it gave last (fifth field of /proc/loadavg, proc_loadavg(5)). What has started since
// has one of the few pids in between.
type births struct {
	// newest is the pid that was given last; 0 when that is unknown.
	newest int
	// open are the pids to look at in each turn. Most belong to threads, or to processes that have ended. But a fork has its
	// pid some time before it can be seen.
	open []int
}

// maxOpen bounds the open pids. To ask for one that no process has takes less than a microsecond.
const maxOpen = 8192

// errNotFollowed says that the pids that were given since the last look are unknown, or too many.
var errNotFollowed = errors.New("cannot tell which processes have started since the process table was read")

// errPassedOver is a judge's answer: it is none of those to signal.
var errPassedOver = errors.New("not to be signalled")

// SignalBorn sends the signals to each process that has started since the last look at the whole process table (All), and
// of which judge says so; the oldest is asked for first, so that parents come before their children. Each is asked for until
// it was told, in this call or a later one, and judge hears of it after its pidfd was opened (SignalIf).
//
// It returns how many were reached. If the caller had stopped all members before, and none is reached now, no other has
// started: SIGSTOP and fork(2) exclude each other.
func (r *Reader) SignalBorn(judge func(Stat) bool, sigs ...syscall.Signal) (reached int, err error) {
	if err := r.countBirths(); err != nil {
		return 0, err
	}
	open := r.births.open
	left := open[:0]
	for i, pid := range open {
		told := false
		err := r.SignalIf(pid, func(s Stat) error {
			if told = judge(s); told {
				return nil
			}
			// Its parent may be a member that cannot be seen yet.
			told = !slices.Contains(left, s.PPID) && !slices.Contains(open[i+1:], s.PPID)
			return errPassedOver
		}, sigs...)
		if err == nil {
			reached++
		}
		if !told {
			left = append(left, pid)
		}
	}
	r.births.open = left
	return reached, nil
}

// follow begins before the process table is read.
func (r *Reader) follow() {
	newest, _ := r.newestPID()
	r.births = births{newest: newest}
}

// followOrphans adds what was read before its parent, when that had ended in between. It has another parent now.
func (r *Reader) followOrphans(table []Stat) {
	there := make(map[int]bool, len(table))
	for _, s := range table {
		there[s.PID] = true
	}
	for _, s := range table {
		if s.PPID > 0 && !there[s.PPID] {
			r.births.open = append(r.births.open, s.PID)
		}
	}
}

// countBirths adds the pids that were given since it was asked last.
func (r *Reader) countBirths() error {
	b := &r.births
	newest, err := r.newestPID()
	if err != nil || b.newest == 0 {
		return errors.Join(errNotFollowed, err)
	}
	last := newest
	if newest < b.newest {
		// The pids have begun anew, from 1 or 300.
		if last, err = r.number("/proc/sys/kernel/pid_max"); err != nil {
			return errors.Join(errNotFollowed, err)
		}
	}
	given := last - b.newest
	if last != newest {
		given += newest
	}
	if given < 0 || given+len(b.open) > maxOpen {
		b.newest = 0
		return errNotFollowed
	}
	for pid := b.newest + 1; pid <= last; pid++ {
		b.open = append(b.open, pid)
	}
	for pid := 1; last != newest && pid <= newest; pid++ {
		b.open = append(b.open, pid)
	}
	b.newest = newest
	return nil
}

// newestPID is the pid that the kernel gave last in this pid namespace, to a process or to a thread.
func (r *Reader) newestPID() (int, error) {
	b, err := r.read("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b)
	if len(fields) != 5 {
		return 0, fmt.Errorf("read /proc/loadavg: %.60q has no newest pid", b)
	}
	return strconv.Atoi(string(fields[4]))
}

// number reads a file that holds one.
func (r *Reader) number(name string) (int, error) {
	b, err := r.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(b)))
}
