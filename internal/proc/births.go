package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
)

// births shows which processes have started since the whole process table was read, without reading it again. The
// kernel gives out pids in ascending order and names the newest (fifth field of /proc/loadavg, proc_loadavg(5)). A
// process that has started since then has one of the few pids in between.
type births struct {
	// newest is the pid that was given last; 0 when that is unknown.
	newest int
	// open are the pids to look up.
	open []birth
	// table are the pids in the process table. They are not looked up when the pids have wrapped around. If the kernel
	// has given one of them to another process since, that process is missed until the table is read again.
	table map[int]bool
}

// birth is a pid that the kernel gave out, and how often it was looked up. Most such pids belong to threads, or to
// processes that have ended.
type birth struct{ pid, asked int }

const (
	// maxOpen bounds the open pids. Looking up a pid that no process has takes less than a microsecond.
	maxOpen = 32768
	// maxAsked bounds how often a pid without a process is looked up: a fork has its pid a moment before it can be seen.
	maxAsked = 3
)

// errNotFollowed says that the pids given out since the last look are unknown, or too many.
var errNotFollowed = errors.New("cannot tell which processes have started since the process table was read")

// errPassedOver is a judge's answer for a process that is not to be signalled.
var errPassedOver = errors.New("not to be signalled")

// SignalBorn signals each process born since the last full look (All) that judge accepts. It goes from oldest to
// newest, so parents come before their children. A pid is tried again, in this call or a later one, until its process
// was signalled or judged, or is gone. judge is called after the pidfd of the process was opened (signalIf).
//
// It returns how many processes it has met: those that it reached, and those that have ended since and may have started
// others. After SIGSTOP or SIGKILL to all other members as well, 0 means that there is no new process. fork(2) fails
// while such a signal is pending.
func (r *Reader) SignalBorn(judge func(Stat) bool, sigs ...syscall.Signal) (met int, err error) {
	if err := r.countBirths(); err != nil {
		return 0, err
	}
	open := r.births.open
	left := open[:0]
	for i, b := range open {
		yes, told := false, false
		err := r.signalIf(b.pid, func(s Stat) error {
			if yes = judge(s); yes {
				return nil
			}
			// Its parent may be a member that cannot be seen yet.
			is := func(b birth) bool { return b.pid == s.PPID }
			told = !slices.ContainsFunc(left, is) && !slices.ContainsFunc(open[i+1:], is)
			return errPassedOver
		}, sigs...)
		gone := errors.Is(err, ErrGone)
		if yes || gone && b.asked == 0 {
			met++
		}
		if b.asked++; !yes && !told && !(gone && b.asked >= maxAsked) {
			left = append(left, b)
		}
	}
	r.births.open = left
	return met, nil
}

// startTracking starts over at the newest pid. Call it before the process table is read.
func (r *Reader) startTracking() {
	newest, _ := r.newestPID()
	r.births = births{newest: newest}
}

// trackTable takes the process table. All reads a child before its parent. If the parent has ended in between, the
// child has another parent now and is looked up again.
func (r *Reader) trackTable(table []Stat) {
	b := &r.births
	b.table = make(map[int]bool, len(table))
	for _, s := range table {
		b.table[s.PID] = true
	}
	for _, s := range table {
		if s.PPID > 0 && !b.table[s.PPID] {
			b.open = append(b.open, birth{pid: s.PID})
		}
	}
}

// countBirths adds the pids that the kernel has given out since newest was read.
func (r *Reader) countBirths() error {
	b := &r.births
	if b.newest == 0 {
		return errNotFollowed
	}
	newest, err := r.newestPID()
	if err != nil {
		return errors.Join(errNotFollowed, err)
	}
	last := newest
	if newest < b.newest {
		// The pids have wrapped around, to 1 or 300.
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
	b.add(b.newest+1, last)
	if last != newest {
		b.add(1, newest)
	}
	b.newest = newest
	return nil
}

func (b *births) add(first, last int) {
	for pid := first; pid <= last; pid++ {
		if !b.table[pid] {
			b.open = append(b.open, birth{pid: pid})
		}
	}
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

// number reads a file that holds a single number.
func (r *Reader) number(name string) (int, error) {
	b, err := r.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(b)))
}
