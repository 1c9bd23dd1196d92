package proc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// SelfExe is the running program for exec(2), also after its file was replaced by an upgrade.
const SelfExe = "/proc/self/exe"

// SetComm sets the command name of the calling thread, which is the process's when that is the main thread. After an
// exec of SelfExe it would read "exe".
func SetComm(name string) {
	b := append([]byte(name), 0)
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&b[0])), 0, 0, 0)
}
