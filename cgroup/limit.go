package cgroup

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Limit is one limit on all that is in a leaf.
type Limit struct {
	// File is its control file, such as memory.max, and Value what is written there.
	File, Value string
}

// controller is what the kernel calls the part of it that holds a limit.
func (l Limit) controller() string { return l.File[:strings.IndexByte(l.File, '.')] }

// period is that of cpu.max, in microseconds.
const period = 100_000

// form is how a limit is spelt: with which units, between which bounds of the kernel's, in the unit of its control file.
type form struct {
	units       string
	least, most float64
	like        string
}

func formOf(file string) form {
	switch file {
	case "cpu.max":
		return form{"%", period / 100, 1 << 43, "percent of one processor such as 50% or 200%, at least 1%"}
	case "pids.max":
		return form{"", 1, 1 << 22, "a number of processes and threads such as 100"}
	}
	return form{"KMGT%", 1, 1 << 52, "bytes such as 500M or 2G, or percent of the machine's memory such as 10%"}
}

// ParseLimit reads the limit of a control file as systemd spells it (systemd.resource-control(5)): memory in bytes with K, M, G or T,
// or in percent of the machine's; processors in percent of one; processes as a number; or infinity. That, and nothing, is none.
func ParseLimit(file, text string) (l Limit, wanted bool, err error) {
	if text == "" || text == "infinity" {
		return l, false, nil
	}
	f, number, scale, of := formOf(file), text, 1.0, 1.0
	if at := strings.IndexByte(f.units, text[len(text)-1]); at >= 0 {
		number, scale = text[:len(text)-1], float64(uint64(1)<<(10*(at+1)))
		if text[len(number)] == '%' {
			scale, of = wholeOf(file), 100
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	n = math.Floor(n * scale / of) // in this order, so that 50% is a half
	if err != nil || strings.Trim(number, "0123456789.") != "" || n < f.least || n > f.most {
		return l, false, fmt.Errorf("%q is no limit: give %s, or infinity", text, f.like)
	}
	l = Limit{File: file, Value: strconv.FormatUint(uint64(n), 10)}
	if file == "cpu.max" {
		l.Value += " " + strconv.Itoa(period)
	}
	return l, true, nil
}

// wholeOf is what a percentage is of: one processor, or the memory of the machine.
func wholeOf(file string) float64 {
	var i unix.Sysinfo_t
	if file == "cpu.max" || unix.Sysinfo(&i) != nil {
		return period
	}
	return float64(i.Totalram) * float64(i.Unit)
}

// Use is what a leaf uses and may use, as far as its controllers tell; 0 is unknown, or no limit.
type Use struct {
	MemoryBytes uint64 `json:"memory_bytes,omitempty"`
	MemoryPeak  uint64 `json:"memory_peak_bytes,omitempty"`
	MemoryMax   uint64 `json:"memory_max_bytes,omitempty"`
	Pids        uint64 `json:"pids,omitempty"`
	PidsMax     uint64 `json:"pids_max,omitempty"`
	// CPUMax is in percent of one processor.
	CPUMax     uint64 `json:"cpu_max_percent,omitempty"`
	CPUSeconds uint64 `json:"cpu_seconds,omitempty"`
	// OOMKills is how many processes were killed because memory ran out.
	OOMKills uint64 `json:"oom_kills,omitempty"`
}

// Limited reports whether there is any limit.
func (u Use) Limited() bool { return u.MemoryMax+u.PidsMax+u.CPUMax > 0 }

// Use reads what the leaf uses.
func (l *Leaf) Use() (u Use) {
	for file, field := range map[string]*uint64{
		"memory.current": &u.MemoryBytes, "memory.peak": &u.MemoryPeak, "memory.max": &u.MemoryMax,
		"pids.current": &u.Pids, "pids.max": &u.PidsMax,
	} {
		*field = l.number(file, "")
	}
	u.CPUMax, u.CPUSeconds = l.number("cpu.max", "")*100/period, l.number("cpu.stat", "usage_usec ")/1e6
	u.OOMKills = l.OOMKills()
	return u
}

// OOMKills is how many processes in the leaf and below were killed because memory ran out; 0 where that is not counted.
func (l *Leaf) OOMKills() uint64 { return l.number("memory.events", "oom_kill ") }

// number is the first number after a key in a control file; 0 for none, and for "max".
func (l *Leaf) number(file, key string) uint64 {
	b, err := proc.ReadAt(l.fd, file, nil)
	if err != nil {
		return 0
	}
	_, text, _ := strings.Cut("\n"+string(b), "\n"+key)
	text, _, _ = strings.Cut(strings.TrimSpace(text)+" ", " ")
	text, _, _ = strings.Cut(text, "\n")
	n, _ := strconv.ParseUint(text, 10, 64)
	return n
}
