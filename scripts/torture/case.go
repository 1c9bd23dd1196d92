//go:build amd64

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fault kinds beside the names of errnos.
const (
	faultDelay      = "delay"       // the call begins later
	faultKillBefore = "kill-before" // SIGKILL instead of the call
	faultKillAfter  = "kill-after"  // SIGKILL when the call is done
	faultStop       = "stop"        // SIGSTOP when the call is done
)

// Moments at which a first fault can strike instead of at a system call.
const (
	atReady  = "ready"  // server and helpers are up
	atEnding = "ending" // in the grace of the teardown
)

// Ways to end a session.
const (
	endGateway = "gateway" // SIGKILL to the gateway
	endTerm    = "term"    // SIGTERM to the process that the gateway started
	endEOF     = "eof"     // the gateway closes standard input and lives on
)

// Roles whose system calls are counted. A further process of mcp-tether's has its first argument as its role.
const (
	roleFront      = "front" // of a mode that sleeps or shares
	roleHost       = "host"  // of a shared server
	roleAnchor     = "anchor"
	roleSupervisor = "supervisor"
	roleChild      = "child" // forked by the supervisor, before it executes the server
)

// Case is one session with its faults. Its id is
//
//	MODE/ENDING/ROLE.CALL.N.FAULT
//	MODE/ENDING/kill.ROLE@MOMENT/ROLE.CALL.N.FAULT
//
// where N counts the calls of that name in that role: from the start, or from the first fault on. MOMENT is ready, ending
// or CALL.N. A "+" after the fault makes each later call of that name fail as well. MODE/ENDING/none has no fault.
type Case struct {
	Mode, Ending string
	First        *Moment
	Shot         *Shot
}

// Moment is when a role is killed before the second fault.
type Moment struct {
	Role, At string
}

// Shot is the fault at one system call.
type Shot struct {
	Role, Call string
	N          int
	Fault      string
	Persistent bool
}

func (c Case) String() string {
	part := []string{c.Mode, c.Ending}
	if c.First != nil {
		part = append(part, "kill."+c.First.Role+"@"+c.First.At)
	}
	last := "none"
	if s := c.Shot; s != nil {
		last = fmt.Sprintf("%s.%s.%d.%s", s.Role, s.Call, s.N, s.Fault)
		if s.Persistent {
			last += "+"
		}
	}
	return strings.Join(append(part, last), "/")
}

// killsBoth reports whether anchor and supervisor are killed, which no session can withstand. Such cases are not made, but may be
// listed.
func (c Case) killsBoth() bool {
	if c.First == nil || c.Shot == nil || c.Shot.Fault != faultKillBefore && c.Shot.Fault != faultKillAfter {
		return false
	}
	roles := []string{c.First.Role, c.Shot.Role}
	return slices.Contains(roles, roleAnchor) && slices.Contains(roles, roleSupervisor)
}

// Class is the column of the table that a case belongs to.
func (c Case) Class() string {
	if c.Shot == nil {
		if c.First != nil {
			return "kill"
		}
		return "none"
	}
	class := "errno"
	switch c.Shot.Fault {
	case faultDelay, faultStop:
		class = c.Shot.Fault
	case faultKillBefore, faultKillAfter:
		class = "kill"
	}
	if c.Shot.Persistent {
		class += " persistent"
	}
	if c.First != nil {
		class = "kill " + c.First.Role + " + " + class
	}
	return class
}

func parseCase(id string) (Case, error) {
	part := strings.Split(id, "/")
	if len(part) < 3 || len(part) > 4 {
		return Case{}, fmt.Errorf("case %q: want MODE/ENDING/FAULT or MODE/ENDING/kill.ROLE@MOMENT/FAULT", id)
	}
	c := Case{Mode: part[0], Ending: part[1]}
	if _, ok := modes()[c.Mode]; !ok {
		return Case{}, fmt.Errorf("case %q: unknown mode %q", id, c.Mode)
	}
	if c.Ending != endGateway && c.Ending != endTerm && c.Ending != endEOF {
		return Case{}, fmt.Errorf("case %q: unknown ending %q", id, c.Ending)
	}
	if len(part) == 4 {
		role, at, ok := strings.Cut(strings.TrimPrefix(part[2], "kill."), "@")
		if !ok {
			return Case{}, fmt.Errorf("case %q: %q is no kill.ROLE@MOMENT", id, part[2])
		}
		c.First = &Moment{role, at}
	}
	last := part[len(part)-1]
	if last == "none" {
		return c, nil
	}
	f := strings.Split(last, ".")
	if len(f) != 4 {
		return Case{}, fmt.Errorf("case %q: %q is no ROLE.CALL.N.FAULT", id, last)
	}
	n, err := strconv.Atoi(f[2])
	if err != nil || n < 1 {
		return Case{}, fmt.Errorf("case %q: %q counts no call", id, f[2])
	}
	fault, persistent := strings.CutSuffix(f[3], "+")
	if _, known := errnoByName(fault); !known && !isKind(fault) {
		return Case{}, fmt.Errorf("case %q: unknown fault %q", id, fault)
	}
	c.Shot = &Shot{f[0], f[1], n, fault, persistent}
	return c, nil
}

func isKind(fault string) bool {
	return fault == faultDelay || fault == faultKillBefore || fault == faultKillAfter || fault == faultStop
}
