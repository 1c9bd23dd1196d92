//go:build linux

package main

import (
	"slices"
	"strconv"
	"strings"

	"mcp-tether/e2e/stage"
	"mcp-tether/internal/waiting"
)

// lifeVariable tells the processes of a life from others, where its directory in the command line does not.
const lifeVariable = "SOAK_LIFE="

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
	stage.Proc
	life int // 0 for none
	role string
}

// living reads all processes that live.
func (s *soak) living() (all []process) {
	for _, p := range stage.Living() {
		all = append(all, process{p, lifeOf(p), s.roleOf(p)})
	}
	return all
}

func lifeOf(p stage.Proc) (life int) {
	for _, v := range append(p.Environ(), p.Words()...) {
		for _, sign := range []string{lifeVariable, lifeDir} {
			if n, found := strings.CutPrefix(v, sign); found && life == 0 {
				life, _ = strconv.Atoi(n)
			}
		}
	}
	return life
}

// roleOf goes by the program first: anybody may have such a command line.
func (s *soak) roleOf(p stage.Proc) string {
	args := p.Words()
	if len(args) < 2 || !p.Runs(s.bin) {
		return roleMember
	}
	switch {
	case strings.Contains(args[1], "host"):
		return roleHost
	case args[1] != "run" && args[1] != waiting.RoleSession:
		return roleOther
	case args[1] == "run" && slices.ContainsFunc(args, needsFront):
		return roleFront
	}
	// The processes of a session have one command line: the supervisor is the anchor's child, and the starter is its.
	up := stage.Describe(p.PPID)
	switch {
	case up.Args != p.Args || !up.Runs(s.bin):
		return roleAnchor
	case stage.Describe(up.PPID).Args == p.Args:
		return roleOther
	}
	return roleSupervisor
}

func needsFront(word string) bool {
	return strings.HasPrefix(word, "--hibernate=") || word == "--share" || word == "--lazy" || word == "--on-crash=restart"
}

// of lists the processes of a life. Its gateway is not among them, nor what was told to stay.
func of(life int, all []process) (out []process) {
	for _, p := range all {
		if p.life == life && !p.is(traitsKept) && !p.gateway() {
			out = append(out, p)
		}
	}
	return out
}

// is tells what the fixture has started with such traits.
func (p process) is(traits string) bool {
	args := p.Words()
	return len(args) > 5 && args[1] == "node" && args[5] == traits
}

func (p process) gateway() bool { return len(p.Words()) > 1 && p.Words()[1] == "e2e/npm/patient.mjs" }
