package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Stat is the part of /proc/PID/stat that decisions need (proc_pid_stat(5)).
type Stat struct {
	ID
	PPID    int
	PGRP    int
	Session int
	// Threads is num_threads; 1 or 0 for a zombie, unless a tracer has not waited for those that have ended (ptrace(2)).
	Threads int
	// State is the one-letter state: R, S, D, T, t, Z, X, I.
	State byte
	// Kernel says that it is a thread of the kernel. In a pid namespace process 2, the parent of all of them, may be anything.
	Kernel bool
	// Comm is the command name, at most 15 bytes as the kernel cuts it. It may hold any byte, also ')' and newlines.
	Comm string
}

// Dead reports whether the process has ended and only waits to be reaped. A process whose main thread has ended shows
// state Z as well while its other threads live.
func (s Stat) Dead() bool {
	return s.State == 'Z' && s.Threads <= 1 || s.State == 'X' || s.State == 'x'
}

// Indices of the fields after the command name, counted from the state (field 3) as 0.
const (
	fieldState   = 0
	fieldPPID    = 1
	fieldPGRP    = 2
	fieldSession = 3
	fieldFlags   = 6
	fieldThreads = 17
	fieldStart   = 19
)

// kernelThread is PF_KTHREAD in the flags of a process (include/linux/sched.h).
const kernelThread = 0x00200000

// parseStat reads one line of /proc/PID/stat. The command name is bounded by the first '(' and the last ')': a process
// may name itself ") R 1 (". A short or odd line is an error, never a guess.
func parseStat(line []byte) (Stat, error) {
	var s Stat
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 2 || end < open {
		return s, fmt.Errorf("parse stat %.60q: no command name", line)
	}
	pid, err := strconv.Atoi(string(line[:open-1]))
	if err != nil || pid <= 0 || line[open-1] != ' ' {
		return s, fmt.Errorf("parse stat %.60q: bad pid", line)
	}
	s.PID, s.Comm = pid, string(line[open+1:end])

	rest := line[end+1:]
	for i := 0; i <= fieldStart; i++ {
		var field []byte
		if len(rest) < 2 || rest[0] != ' ' {
			return s, fmt.Errorf("parse stat of %d: %d fields only", pid, i)
		}
		rest = rest[1:]
		if sp := bytes.IndexAny(rest, " \n"); sp >= 0 {
			field, rest = rest[:sp], rest[sp:]
		} else {
			field, rest = rest, nil
		}
		if err := s.set(i, field); err != nil {
			return s, fmt.Errorf("parse stat of %d: field %d: %w", pid, i+3, err)
		}
	}
	return s, nil
}

func (s *Stat) set(i int, field []byte) (err error) {
	switch i {
	case fieldState:
		if len(field) != 1 {
			return fmt.Errorf("bad state %.20q", field)
		}
		s.State = field[0]
	case fieldPPID:
		s.PPID, err = strconv.Atoi(string(field))
	case fieldPGRP:
		s.PGRP, err = strconv.Atoi(string(field))
	case fieldSession:
		s.Session, err = strconv.Atoi(string(field))
	case fieldFlags:
		var flags uint64
		flags, err = strconv.ParseUint(string(field), 10, 32)
		s.Kernel = flags&kernelThread != 0
	case fieldThreads:
		s.Threads, err = strconv.Atoi(string(field))
	case fieldStart:
		s.Start, err = strconv.ParseUint(string(field), 10, 64)
	}
	return err
}

// Reader reads process entries; it keeps its buffer from one to the next. The zero value is ready. Not for use by
// several goroutines.
type Reader struct {
	buf []byte
	// Apart has memory read by a goroutine that can be left behind, also that of processes with a thread in state D. It is for those
	// who read processes that are not below them, and may start threads.
	Apart bool
	// apart is the buffer of that goroutine.
	apart []byte
	// Unseen says that the last call of Descendants met a child that lives and cannot be read (hidepid in proc(5)).
	Unseen bool
	// waiting are the processes that have kept a reader waiting.
	waiting map[ID]bool
}

// read reads a file into the reader's buffer; whole as for read.
func (r *Reader) read(name string, whole bool) ([]byte, error) {
	b, err := read(unix.AT_FDCWD, name, r.buf, whole)
	if err == nil {
		r.buf = b
	}
	return b, err
}

// Stat reads /proc/PID/stat. The error is ErrGone when there is no such process; any other error means unknown.
func (r *Reader) Stat(pid int) (Stat, error) {
	b, err := r.read(Path(pid, "stat"), true)
	if err != nil {
		return Stat{}, vanished(err)
	}
	s, err := parseStat(b)
	if err == nil && s.PID != pid {
		err = fmt.Errorf("stat of %d names pid %d: /proc belongs to another pid namespace", pid, s.PID)
	}
	return s, err
}

// vanished is the one place that decides which errors of a /proc entry mean that its process is gone. ENOENT says that
// it ended before the open, ESRCH between open and read.
func vanished(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w (%w)", ErrGone, err)
	}
	return err
}

// Usage is what a process uses: its resident memory in bytes, the processor time of its life in clock ticks, and that of all
// descendants that have ended and were waited for (proc_pid_stat(5)). All are coarse, and 0 where they cannot be read.
func (r *Reader) Usage(pid int) (memory, ticks, waited uint64) {
	line, err := r.read(Path(pid, "stat"), true)
	if err != nil {
		return 0, 0, 0
	}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= fieldPages {
		return 0, 0, 0
	}
	number := func(i int) uint64 {
		n, _ := strconv.ParseUint(string(fields[i]), 10, 64)
		return n
	}
	return number(fieldPages) * uint64(os.Getpagesize()), number(fieldUser) + number(fieldSystem), number(fieldChildUser) + number(fieldChildSystem)
}

// More indices like those of parseStat.
const (
	fieldUser        = 11
	fieldSystem      = 12
	fieldChildUser   = 13
	fieldChildSystem = 14
	fieldPages       = 21
)
