package argv

import (
	"strings"

	"mcp-tether/internal/proc"
)

// SweepArgs is the command line of a sweep, for the program that was started under the given name.
func SweepArgs(program string) []string { return inRole(program, roleSweep) }

// IsSweep reports whether a command line is one of SweepArgs.
func IsSweep(args []string) bool { return hasRole(args, roleSweep) && len(args) == 2 }

// Handover is what the anchor passes to its supervisor, as one word of the command line.
type Handover struct {
	// ID is the session id.
	ID string `json:"-"`
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
	Removes bool `json:"-"`
}

// SharesGroup reports whether the server stays in the process group that the gateway gave us. Signals from the keyboard
// then reach it without us.
func (h Handover) SharesGroup() bool { return h.Terminal || h.Group != 0 }

// SupervisorArgs is the command line of the supervisor that continues args, the command line of its anchor.
func SupervisorArgs(args []string, h Handover) []string {
	role := roleSupervise
	if h.Removes {
		role = roleRemove
	}
	// SupervisedID, also that of other versions, expects the id in front.
	return inRole(args[0], role, append([]string{joined(h.ID, h)}, args[1:]...)...)
}

// SplitSupervisorArgs undoes SupervisorArgs. ok is false where the command line is not a supervisor's.
func SplitSupervisorArgs(args []string) (anchors []string, h Handover, ok bool, err error) {
	if !isHandedOver(args) {
		return nil, h, false, nil
	}
	anchors, h.ID, err = splitRole(args, &h)
	h.Removes = args[1] == roleRemove
	return anchors, h, true, err
}

func isHandedOver(args []string) bool { return hasRole(args, roleSupervise, roleRemove) }

// SupervisedID is the session id in the command line of a supervisor, "" for any other command line. What it says counts
// for the process's own user only.
func SupervisedID(args []string) string {
	if len(args) < 3 || !isHandedOver(args) {
		return ""
	}
	id, _, _ := strings.Cut(args[2], separator)
	return id
}
