package argv

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mcp-tether/internal/proc"
)

// roleSupervise is the hidden first argument with which the anchor starts the supervisor. The handover follows as the
// second argument.
const roleSupervise = "__supervise"

// roleRemove is the same for the process that removes a session's containers for a recovering anchor.
const roleRemove = "__remove"

// roleSweep is the hidden first argument of the process that ends the user's dead sessions beside a session.
const roleSweep = "__sweep"

// SweepArgs is the command line of a sweep, for the program that was started under the given name.
func SweepArgs(program string) []string { return []string{program, roleSweep} }

// IsSweep reports whether a command line is one of SweepArgs.
func IsSweep(args []string) bool { return len(args) == 2 && args[1] == roleSweep }

// SupervisorArgs is the command line of the supervisor that continues args, the command line of its anchor.
func SupervisorArgs(args []string, h Handover) []string {
	role := roleSupervise
	if h.Removes {
		role = roleRemove
	}
	return append([]string{args[0], role, h.String()}, args[1:]...)
}

// isHandedOver reports whether a command line is one of SupervisorArgs.
func isHandedOver(args []string) bool {
	return len(args) > 1 && (args[1] == roleSupervise || args[1] == roleRemove)
}

// errNotHandedOver says that a user has typed the hidden argument.
var errNotHandedOver = errors.New(roleSupervise + " and " + roleRemove + " are for mcp-tether itself: use 'mcp-tether run'")

// SplitSupervisorArgs undoes SupervisorArgs. ok is false where the command line is not a supervisor's.
func SplitSupervisorArgs(args []string) (anchors []string, h Handover, ok bool, err error) {
	if !isHandedOver(args) {
		return nil, Handover{}, false, nil
	}
	if len(args) < 4 {
		return nil, Handover{}, true, errNotHandedOver
	}
	h, err = parseHandover(args[2])
	h.Removes = args[1] == roleRemove
	return append([]string{args[0]}, args[3:]...), h, true, err
}

// SupervisedID is the session id in the command line of a supervisor, "" for any other command line. Every process can
// choose its command line, so what it says counts for the process's own user only.
func SupervisedID(args []string) string {
	if len(args) < 3 || !isHandedOver(args) {
		return ""
	}
	id, _, _ := strings.Cut(args[2], wordSeparator)
	return id
}

// Handover is what the anchor passes to its supervisor, as one word of the command line.
type Handover struct {
	// ID is the session id.
	ID string
	// Anchor is the anchor's pid; 0 when there is none.
	Anchor int
	// Parent is the pid of the process that spawned us, from the anchor's view; ParentFD is its pidfd, or -1.
	Parent, ParentFD int
	// Mailbox is the supervisor's end of the socket pair to the anchor, or -1.
	Mailbox int
	// Terminal says that a person started us in the foreground of a terminal.
	Terminal bool
	// Group is the process group that the gateway gave us, where there is a controlling terminal and Terminal is false.
	// The server must stay in that group, or it could not use the terminal. 0 otherwise.
	Group int
	// Foreign are the children that the anchor had before the session.
	Foreign []proc.ID
	// Removes says that the process does not supervise a session, but removes the containers of one that is over. It is no
	// part of the word.
	Removes bool
}

// SharesGroup reports whether the server stays in the process group that the gateway gave us. Signals from the keyboard
// then reach it without us.
func (h Handover) SharesGroup() bool { return h.Terminal || h.Group != 0 }

// wordSeparator separates the parts of a Handover or a Host in their word.
const wordSeparator = ","

// String encodes the handover.
func (h Handover) String() string {
	terminal := 0
	if h.Terminal {
		terminal = 1
	}
	part := []string{h.ID}
	for _, n := range []int{h.Anchor, h.Parent, h.ParentFD, h.Mailbox, terminal, h.Group} {
		part = append(part, strconv.Itoa(n))
	}
	var foreign []string
	for _, id := range h.Foreign {
		foreign = append(foreign, id.String())
	}
	return strings.Join(append(part, strings.Join(foreign, " ")), wordSeparator)
}

// parseHandover decodes what String wrote.
func parseHandover(s string) (Handover, error) {
	part := strings.Split(s, wordSeparator)
	var n [6]int
	if len(part) != len(n)+2 {
		return Handover{}, fmt.Errorf("parse handover %.80q: want %d fields", s, len(n)+2)
	}
	for i := range n {
		v, err := strconv.Atoi(part[i+1])
		if err != nil {
			return Handover{}, fmt.Errorf("parse handover %.80q: %w", s, err)
		}
		n[i] = v
	}
	h := Handover{ID: part[0], Anchor: n[0], Parent: n[1], ParentFD: n[2], Mailbox: n[3], Terminal: n[4] == 1, Group: n[5]}
	for f := range strings.FieldsSeq(part[7]) {
		id, err := proc.ParseID(f)
		if err != nil {
			return Handover{}, fmt.Errorf("parse handover %.80q: %w", s, err)
		}
		h.Foreign = append(h.Foreign, id)
	}
	return h, nil
}
