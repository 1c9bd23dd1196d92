package e2e

import (
	"os"
	"testing"
)

// A person who talks to a server shares it with nobody, and is told so.
func TestShareOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	ok(t, err)
	defer r.Close()
	y := openTTY(t, []string{"XDG_RUNTIME_DIR=" + dir}, w, tether, "run", "--share", "--", "/bin/echo", "up")
	y.expect("--share, --lazy, --hibernate, --on-crash, --restart-on, --stdout-guard and --keep-stderr have no effect on a terminal")
	y.expect("up")
	if err := y.cmd.Wait(); err != nil {
		t.Error(err)
	}
}
