package describe

import (
	"os/user"
	"strconv"

	"github.com/shirou/gopsutil/v3/process"
)

// Memory is the resident memory of a process in bytes, 0 when it cannot be read.
func Memory(pid int) uint64 {
	p := process.Process{Pid: int32(pid)}
	info, err := p.MemoryInfo()
	if err != nil {
		return 0
	}
	return info.RSS
}

// CPU is the share of one processor that a process has used over its life, in percent.
func CPU(pid int) float64 {
	p := process.Process{Pid: int32(pid)}
	c, err := p.CPUPercent()
	if err != nil {
		return 0
	}
	return c
}

// User is the name of a user, or the number where there is no name.
func User(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
