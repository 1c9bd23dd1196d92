package proc

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/waiting"
)

// SelfExe is the running program for exec(2), also after its file was replaced by an upgrade.
const SelfExe = "/proc/self/exe"

// SetComm sets the command name of the calling thread, which is the process's when that is the main thread. After an
// exec of SelfExe it would read "exe".
func SetComm(name string) {
	b := append([]byte(name), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}

// Environ is the environment byte for byte as it was given, duplicates, empty entries and order included. Package os leaves out
// what it does not understand; a binary that was built without an entry before the runtime has nothing better.
func Environ() []string {
	if env, ok := waiting.Environ(); ok {
		return env
	}
	return os.Environ()
}
