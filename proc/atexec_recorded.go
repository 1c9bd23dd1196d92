//go:build linux && (amd64 || arm64)

package proc

import "syscall"

// Written once by atExec before the runtime starts, read-only afterwards.
var execRan, execMask, execIgnored, execClosed, execFilesCur, execFilesMax uint64

// atExec is the entry point of the linked binary; it is never called.
//
//nolint:unused // named by the linker flag -E
func atExec()

func recorded() (AtExec, bool) {
	return AtExec{
		Exact:   true,
		Mask:    execMask,
		Ignored: execIgnored,
		Closed:  execClosed,
		Files:   syscall.Rlimit{Cur: execFilesCur, Max: execFilesMax},
	}, execRan != 0
}
