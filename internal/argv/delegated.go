package argv

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// roleDelegated is the hidden first argument of a process that becomes a user, to work in the place of root. Delegated
// follows as the second argument, then a command and its flags.
const roleDelegated = "__as"

// errNotDelegated says that a person has typed the hidden argument.
var errNotDelegated = errors.New(roleDelegated + " is for mcp-tether itself: use 'mcp-tether reap', 'ps' or 'stop'")

// Delegated is the user that a process becomes, as one word of its command line.
type Delegated struct {
	UID, GID int
	// Tasks is how many processes and threads of the user were seen.
	Tasks  int
	Groups []int
}

// DelegatedArgs is the command line of a child that becomes a user, for the program that was started under the given
// name.
func DelegatedArgs(program string, as Delegated, words []string) []string {
	var word strings.Builder
	for _, n := range append([]int{as.UID, as.GID, as.Tasks}, as.Groups...) {
		if word.Len() > 0 {
			word.WriteString(wordSeparator)
		}
		word.WriteString(strconv.Itoa(n))
	}
	return append([]string{program, roleDelegated, word.String()}, words...)
}

// SplitDelegatedArgs undoes DelegatedArgs: the command line without what is hidden. ok is false where the command line
// is not a delegated one.
func SplitDelegatedArgs(args []string) (own []string, as Delegated, ok bool, err error) {
	if len(args) < 2 || args[1] != roleDelegated {
		return nil, Delegated{}, false, nil
	}
	if len(args) < 4 {
		return nil, Delegated{}, true, errNotDelegated
	}
	var n []int
	for part := range strings.SplitSeq(args[2], wordSeparator) {
		v, err := strconv.ParseUint(part, 10, 32)
		if err != nil {
			return nil, Delegated{}, true, fmt.Errorf("%w (%w)", errNotDelegated, err)
		}
		n = append(n, int(v))
	}
	if len(n) < 3 {
		return nil, Delegated{}, true, errNotDelegated
	}
	return append([]string{args[0]}, args[3:]...), Delegated{UID: n[0], GID: n[1], Tasks: n[2], Groups: n[3:]}, true, nil
}
