package reap

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"mcp-tether/session"
)

// errNoRecord says that the user has no record of a session.
var errNoRecord = errors.New("no such record")

// Forget removes what the user has on disk of a dead session, whatever may be left of it elsewhere. A session whose
// supervisor lives is an error that wraps session.ErrHeld. runtime is $XDG_RUNTIME_DIR.
func Forget(runtime, id string) error {
	if !session.ValidID(id) {
		return fmt.Errorf("forget %q: a session id has 16 hexadecimal digits (mcp-tether reap shows them)", id)
	}
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	for _, dir := range dirs {
		if ids, err := dir.IDs(); err == nil && slices.Contains(ids, id) {
			if err := dir.Remove(id); err != nil {
				return fmt.Errorf("forget session %s: %w", id, err)
			}
			return nil
		}
	}
	return fmt.Errorf("forget session %s: %w", id, errNoRecord)
}
