//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What tells the processes of a life from others: a variable, and a word for those whose environment is cleared.
const (
	lifeVariable = "SOAK_LIFE="
	lifeWord     = "life="
)

// Roles of processes of mcp-tether.
const (
	roleFront      = "front"
	roleAnchor     = "anchor"
	roleSupervisor = "supervisor"
	roleHost       = "host"
	roleOther      = "other"
	roleMember     = "" // none of mcp-tether
)

// process is one in sight, as the kernel shows it: nothing here is the code under test.
type process struct {
	pid, parent int
	start       string
	state       byte
	args        []string
	life        int // 0 for none
	role        string
}

// living reads all processes that live.
func living() (all []process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// readProcess is false for a process that is gone or dead.
func readProcess(pid int) (p process, ok bool) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return p, false
	}
	// The name may hold anything; the fields after its closing bracket begin with the third.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	p = process{pid: pid, state: fields[0][0], start: fields[19]}
	p.parent, _ = strconv.Atoi(fields[1])
	if p.state == 'Z' || p.state == 'X' {
		return p, false
	}
	line, _ := os.ReadFile(dir + "cmdline")
	p.args = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	env, _ := os.ReadFile(dir + "environ")
	for _, v := range append(strings.Split(string(env), "\x00"), p.args...) {
		for _, sign := range []string{lifeVariable, lifeWord} {
			if n, found := strings.CutPrefix(v, sign); found && p.life == 0 {
				p.life, _ = strconv.Atoi(n)
			}
		}
	}
	p.role = roleOf(dir, p.args)
	return p, true
}

// roleOf goes by the program first: anybody may have such a command line.
func roleOf(dir string, args []string) string {
	var ours, its unix.Stat_t
	if unix.Stat(binFile, &ours) != nil || unix.Stat(dir+"exe", &its) != nil || ours.Ino != its.Ino || ours.Dev != its.Dev || len(args) < 2 {
		return roleMember
	}
	switch {
	case args[1] == "__supervise":
		return roleSupervisor
	case strings.Contains(args[1], "host"):
		return roleHost
	case args[1] != "run":
		return roleOther
	case slices.Contains(args, "--share=false"): // as its front starts it
		return roleAnchor
	case slices.ContainsFunc(args, needsFront):
		return roleFront
	}
	return roleAnchor
}

func needsFront(word string) bool {
	return strings.HasPrefix(word, "--hibernate=") || word == "--share" || word == "--lazy" || word == "--on-crash=restart"
}

// of lists the processes of a life. Its gateway is not among them, nor what was told to stay.
func of(life int, all []process) (out []process) {
	for _, p := range all {
		if p.life == life && !p.kept() && !p.gateway() {
			out = append(out, p)
		}
	}
	return out
}

func (p process) kept() bool {
	return len(p.args) > 2 && p.args[1] == helperRole && p.args[2] == "kept"
}

func (p process) gateway() bool { return len(p.args) > 1 && p.args[1] == "e2e/npm/patient.mjs" }

func (p process) String() string {
	return fmt.Sprintf("%d (%c, parent %d, life %d): %s", p.pid, p.state, p.parent, p.life, strings.Join(p.args, " "))
}

// signal signals that very process, or none.
func (p process) signal(s unix.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return fmt.Errorf("open pid %d: %w", p.pid, err)
	}
	defer unix.Close(fd)
	now, ok := readProcess(p.pid)
	if !ok || now.start != p.start {
		return errors.New("it is gone")
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil {
		return fmt.Errorf("signal pid %d: %w", p.pid, err)
	}
	return nil
}
