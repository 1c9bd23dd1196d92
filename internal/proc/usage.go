package proc

import (
	"bytes"
	"os"
	"strconv"
)

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
