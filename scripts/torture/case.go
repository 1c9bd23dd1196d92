//go:build amd64

package main

import (
	"fmt"
	"regexp"
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
	roleWaiter     = "waiter"     // what the gateway starts in a mode that sleeps or shares
	roleFront      = "front"      // its child
	roleHost       = "host"       // of a shared server
	roleAnchor     = "anchor"     // while it waits
	roleSupervisor = "supervisor" // while it waits
	roleStarter    = "starter"
	roleChild      = "child"    // forked before it executes the server, or another program
	roleEnder      = "ender"    // the supervisor, once it has a runtime
	roleRecovery   = "recovery" // the anchor, once it has a runtime
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
	return slices.ContainsFunc(roles, isAnchor) && slices.ContainsFunc(roles, isSupervisor)
}

func isAnchor(role string) bool { return role == roleAnchor || role == roleRecovery }

func isSupervisor(role string) bool { return role == roleSupervisor || role == roleEnder }

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

var idForm = regexp.MustCompile(`^(\w+)/(` + endGateway + "|" + endTerm + "|" + endEOF + `)/(?:kill\.([\w-]+)@([\w.]+)/)?` +
	`(?:none|([\w-]+)\.(\w+)\.([1-9]\d*)\.(` + faultDelay + "|" + faultKillBefore + "|" + faultKillAfter + "|" + faultStop + `|E[A-Z0-9]+)(\+?))$`)

func parseCase(id string) (Case, error) {
	m := idForm.FindStringSubmatch(id)
	if m == nil {
		return Case{}, fmt.Errorf("case %q: want MODE/ENDING/[kill.ROLE@MOMENT/]ROLE.CALL.N.FAULT, or none in the last one's place", id)
	}
	c := Case{Mode: m[1], Ending: m[2]}
	if _, ok := modes()[c.Mode]; !ok {
		return Case{}, fmt.Errorf("case %q: unknown mode %q", id, c.Mode)
	}
	if m[3] != "" {
		c.First = &Moment{m[3], m[4]}
	}
	if m[5] == "" {
		return c, nil
	}
	n, err := strconv.Atoi(m[7])
	if err != nil {
		return Case{}, fmt.Errorf("case %q: %w", id, err)
	}
	if _, known := errnoByName(m[8]); !known && m[8][0] == 'E' {
		return Case{}, fmt.Errorf("case %q: unknown fault %q", id, m[8])
	}
	c.Shot = &Shot{m[5], m[6], n, m[8], m[9] != ""}
	return c, nil
}
