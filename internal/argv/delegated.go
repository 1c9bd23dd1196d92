package argv

import "fmt"

// delegatedArgs is the command line of a child that becomes a user, for the program that was started under the given
// name.
func delegatedArgs(program string, uid int, words []string) []string {
	return inRole(program, roleDelegated, append([]string{joined("", uid)}, words...)...)
}

// SplitDelegatedArgs undoes delegatedArgs: the command line without what is hidden. ok is false where the command line
// is not a delegated one.
func SplitDelegatedArgs(args []string) (own []string, uid int, ok bool, err error) {
	if !hasRole(args, roleDelegated) {
		return nil, 0, false, nil
	}
	own, _, err = splitRole(args, &uid)
	if err == nil && uid < 0 {
		// To setresuid(2), a negative number means "no other".
		err = fmt.Errorf("%s: %w", args[1], errRole)
	}
	return own, uid, true, err
}
