package argv

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mcp-tether/proc"
)

// roleSupervise is the hidden first argument by which the anchor tells the process that it starts its role. The handover
// follows as the second.
const roleSupervise = "__supervise"

// SupervisorArgs is the command line of the supervisor that continues args, the command line of its anchor.
func SupervisorArgs(args []string, h Handover) []string {
	return append([]string{args[0], roleSupervise, h.String()}, args[1:]...)
}

// ErrNotHandedOver says that a user has typed the hidden word.
var ErrNotHandedOver = errors.New(roleSupervise + " is for mcp-tether itself: use 'mcp-tether run'")

// SplitSupervisorArgs undoes SupervisorArgs. ok is false where the command line is not a supervisor's.
func SplitSupervisorArgs(args []string) (anchors []string, h Handover, ok bool, err error) {
	if len(args) < 2 || args[1] != roleSupervise {
		return nil, Handover{}, false, nil
	}
	if len(args) < 4 {
		return nil, Handover{}, true, ErrNotHandedOver
	}
	h, err = ParseHandover(args[2])
	return append([]string{args[0]}, args[3:]...), h, true, err
}

// SupervisedID is the session id in the command line of a supervisor, "" where it is none. A command line is what its
// process says of itself: it counts for the process's own user only.
func SupervisedID(args []string) string {
	if len(args) < 3 || args[1] != roleSupervise {
		return ""
	}
	id, _, _ := strings.Cut(args[2], separator)
	return id
}

// Handover is what the anchor tells its supervisor, as one word of the command line. The anchor uses it itself when the
// supervisor was killed.
type Handover struct {
	// ID is the session id.
	ID string
	// Anchor is the anchor's pid; 0 when there is none.
	Anchor int
	// Parent is the pid of the process that spawned us, from the anchor's view; ParentFD is its pidfd, or -1.
	Parent, ParentFD int
	// Terminal says that a person started us in the foreground of a terminal.
	Terminal bool
	// Status is the killed supervisor's exit code, and Signals the descriptor of the anchor's caught signals. Both stay in
	// the process and are not encoded.
	Status, Signals int
	// Foreign are the children that the anchor had before the session.
	Foreign []proc.ID
	// Restore are the assignments to put back into the server's environment in place of ours.
	Restore []string
}

// separator of the fields; Restore comes last and may hold anything but the byte that separates its elements.
const (
	separator = ","
	restorer  = "\x1f"
)

// String encodes the handover.
func (h Handover) String() string {
	terminal := 0
	if h.Terminal {
		terminal = 1
	}
	part := []string{h.ID}
	for _, n := range []int{h.Anchor, h.Parent, h.ParentFD, terminal} {
		part = append(part, strconv.Itoa(n))
	}
	var foreign []string
	for _, id := range h.Foreign {
		foreign = append(foreign, id.String())
	}
	return strings.Join(append(part, strings.Join(foreign, " "), strings.Join(h.Restore, restorer)), separator)
}

// ParseHandover decodes what String wrote.
func ParseHandover(s string) (Handover, error) {
	part := strings.SplitN(s, separator, 7)
	if len(part) != 7 {
		return Handover{}, fmt.Errorf("parse handover %.80q: want 7 fields", s)
	}
	var n [4]int
	for i := range n {
		v, err := strconv.Atoi(part[i+1])
		if err != nil {
			return Handover{}, fmt.Errorf("parse handover %.80q: %w", s, err)
		}
		n[i] = v
	}
	h := Handover{ID: part[0], Anchor: n[0], Parent: n[1], ParentFD: n[2], Terminal: n[3] == 1}
	for f := range strings.FieldsSeq(part[5]) {
		id, err := proc.ParseID(f)
		if err != nil {
			return Handover{}, fmt.Errorf("parse handover %.80q: %w", s, err)
		}
		h.Foreign = append(h.Foreign, id)
	}
	if part[6] != "" {
		h.Restore = strings.Split(part[6], restorer)
	}
	return h, nil
}
