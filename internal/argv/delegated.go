package argv

import (
	"fmt"
	"strconv"
	"strings"
)

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
	word := joined(as.UID, as.GID, as.Tasks, strings.Trim(fmt.Sprint(as.Groups), "[]"))
	return inRole(program, roleDelegated, append([]string{word}, words...)...)
}

func (as *Delegated) read(w *word) {
	*as = Delegated{UID: parsed(w, parseID), GID: parsed(w, parseID), Tasks: parsed(w, parseID), Groups: parsed(w, parseGroups)}
}

// parseID reads the number of a user or group. A negative one would mean "no other" to setresuid(2).
func parseID(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int(n), err
}

func parseGroups(s string) (list []int, err error) {
	for f := range strings.FieldsSeq(s) {
		n, err := parseID(f)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// SplitDelegatedArgs undoes DelegatedArgs: the command line without what is hidden. ok is false where the command line
// is not a delegated one.
func SplitDelegatedArgs(args []string) (own []string, as Delegated, ok bool, err error) {
	if !hasRole(args, roleDelegated) {
		return nil, as, false, nil
	}
	own, err = splitRole(args, 4, as.read)
	return own, as, true, err
}
