package proc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
)

// births shows which processes have started since a look at the whole process table, without another such look. The
// kernel gives pids in turn and says which it gave last (fifth field of /proc/loadavg, proc_loadavg(5)). What has
// started since has one of the few pids in between.
type births struct {
	// newest is the pid that was given last; 0 when that is unknown.
	newest int
	// open are the pids to ask for.
	open []birth
	// table are the pids of that look. They are not asked for when the kernel begins anew with low pids. One that was given
	// to another process since is missed until the next such look.
	table map[int]bool
}

// birth is a pid that was given, and how often it was asked for. Most belong to threads, or to processes that have ended.
type birth struct{ pid, asked int }

const (
	// maxOpen bounds the open pids. To ask for one that no process has takes less than a microsecond.
	maxOpen = 32768
	// maxAsked bounds how often one is asked for that no process has: a fork has its pid a moment before it can be seen.
	maxAsked = 3
)

// errNotFollowed says that the pids that were given since the last look are unknown, or too many.
var errNotFollowed = errors.New("cannot tell which processes have started since the process table was read")

// errPassedOver is a judge's answer: it is none of those to signal.
var errPassedOver = errors.New("not to be signalled")

// SignalBorn signals each process born since the last full look (All) that judge accepts. It goes from oldest to
// newest, so parents come before their children. A pid is tried again, in this call or a later one, until its process
// was signalled or judged, or is gone. judge is called after the pidfd of the process was opened (SignalIf).
//
// It returns how many it has met: those that were reached, and those that have ended since and may have started others.
// After SIGSTOP or SIGKILL to all other members as well, none met means that there is none. fork(2) fails while such a
// signal waits.
func (r *Reader) SignalBorn(judge func(Stat) bool, sigs ...syscall.Signal) (met int, err error) {
	if err := r.countBirths(); err != nil {
		return 0, err
	}
	open := r.births.open
	left := open[:0]
	for i, b := range open {
		yes, told := false, false
		err := r.SignalIf(b.pid, func(s Stat) error {
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
		if b.asked++; !yes && !told && !(gone && b.asked == maxAsked) {
			left = append(left, b)
		}
	}
	r.births.open = left
	return met, nil
}

// follow begins before the process table is read.
func (r *Reader) follow() {
	newest, _ := r.newestPID()
	r.births = births{newest: newest}
}

// followTable takes what was read. What was read before its parent, when that had ended in between, has another parent now.
func (r *Reader) followTable(table []Stat) {
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

// countBirths adds the pids that were given since it was asked last.
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

// number reads a file that holds one.
func (r *Reader) number(name string) (int, error) {
	b, err := r.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(bytes.TrimSpace(b)))
}
