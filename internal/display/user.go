package display

import (
	"os/user"
	"strconv"
)

// User is the name of a user, or the number where there is no name.
func User(uid int) string {
	number := strconv.Itoa(uid)
	if u, err := user.LookupId(number); err == nil {
		return u.Username
	}
	return number
}
