package proc

import (
	"bytes"
	"os"
	"strconv"
)

// Usage is what a process uses: its resident memory in bytes, and the processor time of its life in clock ticks, both
// coarse (proc_pid_stat(5)). They are for people, and 0 where they cannot be read.
func (r *Reader) Usage(pid int) (memory, ticks uint64) {
	number := r.numbers(pid)
	return number(fieldPages) * uint64(os.Getpagesize()), number(fieldUser) + number(fieldSystem)
}

// WaitedFor is the processor time of all descendants of a process that have ended and were waited for, in clock ticks; 0 where
// it cannot be read.
func (r *Reader) WaitedFor(pid int) (ticks uint64) {
	number := r.numbers(pid)
	return number(fieldChildUser) + number(fieldChildSystem)
}

// numbers gives the fields of /proc/PID/stat by their indices. Without that file all are 0.
func (r *Reader) numbers(pid int) func(field int) uint64 {
	line, err := r.readEntry(Path(pid, "stat"))
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	return func(i int) uint64 {
		if err != nil || len(fields) <= fieldPages {
			return 0
		}
		n, _ := strconv.ParseUint(string(fields[i]), 10, 64)
		return n
	}
}

// More indices like those of parseStat.
const (
	fieldUser        = 11
	fieldSystem      = 12
	fieldChildUser   = 13
	fieldChildSystem = 14
	fieldPages       = 21
)
