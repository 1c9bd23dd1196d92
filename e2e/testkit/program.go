package testkit

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram makes a file that is executed next. A process that another test forks meanwhile would hold the descriptor
// that the file is written through, until it executes something. Until then the kernel refuses to execute the file
// (ETXTBSY, golang.org/issue/22315). So no fork falls within the write.
func WriteProgram(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
}
