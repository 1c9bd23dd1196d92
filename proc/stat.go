package proc

import (
	"bytes"
	"fmt"
	"strconv"
)

// Stat is the part of /proc/PID/stat that decisions need (proc_pid_stat(5)).
type Stat struct {
	ID
	PPID    int
	PGRP    int
	Session int
	// Threads is num_threads; 1 or 0 for a zombie. If all threads have ended and a tracer keeps them, they count as none.
	Threads int
	// State is the one-letter state: R, S, D, T, t, Z, X, I.
	State byte
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
	fieldThreads = 17
	fieldStart   = 19
)

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
	case fieldThreads:
		s.Threads, err = strconv.Atoi(string(field))
	case fieldStart:
		s.Start, err = strconv.ParseUint(string(field), 10, 64)
	}
	return err
}
