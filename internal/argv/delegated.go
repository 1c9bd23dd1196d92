package argv

import "strconv"

// DelegatedArgs is the command line of a child that becomes a user, for the program that was started under the given
// name.
func DelegatedArgs(program string, uid int, words []string) []string {
	return inRole(program, roleDelegated, append([]string{strconv.Itoa(uid)}, words...)...)
}

// SplitDelegatedArgs undoes DelegatedArgs: the command line without what is hidden. ok is false where the command line
// is not a delegated one. A negative number would mean "no other" to setresuid(2).
func SplitDelegatedArgs(args []string) (own []string, uid int, ok bool, err error) {
	if !hasRole(args, roleDelegated) {
		return nil, 0, false, nil
	}
	own, err = splitRole(args, 1, func(w *word) {
		uid = parsed(w, func(s string) (int, error) { n, err := strconv.ParseUint(s, 10, 32); return int(n), err })
	})
	return own, uid, true, err
}
