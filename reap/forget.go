package reap

import (
	"errors"
	"fmt"
	"os"

	"mcp-tether/internal/session"
)

// ErrNoRecord says that the user has no record of a session.
var ErrNoRecord = errors.New("no such record (mcp-tether reap shows what is left)")

// Forget removes what the user has on disk of a dead session, whatever may be left of it elsewhere. A session whose
// supervisor lives is an error that wraps session.ErrHeld. runtime is $XDG_RUNTIME_DIR.
func Forget(runtime, id string) error {
	if !session.ValidID(id) {
		return fmt.Errorf("forget %q: a session id has 16 hexadecimal digits (mcp-tether reap shows them)", id)
	}
	dirs := session.OpenAll(os.Getuid(), runtime)
	defer session.CloseAll(dirs)
	for _, dir := range dirs {
		if _, err := dir.Held(id); errors.Is(err, os.ErrNotExist) {
			continue
		}
		r, _ := dir.Read(id) // one that cannot be read names no socket
		err := dir.Remove(id)
		if err == nil {
			err = session.RemoveSocket(r.Socket, id)
		}
		if err != nil {
			return fmt.Errorf("forget session %s: %w", id, err)
		}
		return nil
	}
	return fmt.Errorf("forget session %s: %w", id, ErrNoRecord)
}
