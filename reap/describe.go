package reap

import (
	"os/user"
	"strconv"

	"github.com/shirou/gopsutil/v3/process"

	"mcp-tether/proc"
)

// describe fills in what people want to see. It reads through gopsutil, which is too slow and too coarse to decide
// anything, and only about what is shown.
func (f *Finding) describe(h *Host) {
	if f.Top.Zero() && !f.born.IsZero() {
		// An engine does not say whose its containers are.
		f.AgeSeconds = max(0, int64(h.Began.Sub(f.born).Seconds()))
		return
	}
	if u, err := user.LookupId(strconv.Itoa(f.UID)); err == nil {
		f.User = u.Username
	} else {
		f.User = strconv.Itoa(f.UID)
	}
	if !f.Top.Zero() && h.Since > f.Top.Start {
		f.AgeSeconds = int64((h.Since - f.Top.Start) / proc.TicksPerSecond)
	}
	for _, m := range f.Members {
		f.MemoryBytes += Memory(m.PID)
	}
}

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
