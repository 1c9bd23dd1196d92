package e2e

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mcp-tether/e2e/testkit"
)

// copyProgram is testkit.WriteProgram with what another file holds.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	ok(t, err)
	testkit.WriteProgram(t, to, b)
}

// setuidCopy is the name of a copy of the fixture, beside it, that runs as root. It is short enough for the name of a process,
// and its own even among processes of other pid namespaces that share the fixture.
func setuidCopy(t *testing.T) string {
	t.Helper()
	in, err := os.Open(fixture)
	ok(t, err)
	defer in.Close()
	syscall.ForkLock.RLock() // as in testkit.WriteProgram
	defer syscall.ForkLock.RUnlock()
	out, err := os.CreateTemp(filepath.Dir(fixture), "suid-*")
	ok(t, err)
	t.Cleanup(func() { _ = os.Remove(out.Name()) })
	_, err = io.Copy(out, in)
	ok(t, err)
	ok(t, out.Close())
	ok(t, os.Chmod(out.Name(), 0o755|os.ModeSetuid))
	return filepath.Base(out.Name())
}
