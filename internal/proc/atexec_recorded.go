//go:build amd64 || arm64

package proc

import (
	"syscall"
	"unsafe"
)

// Written once by atExec before the runtime starts, read-only afterwards.
var execRan, execMask, execIgnored, execClosed, execFilesCur, execFilesMax, execSlack, execStack uint64

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

func recordedSlack() uint64 { return execSlack }

// recordedEnviron reads the environment where the kernel put it (execve(2)): the initial stack holds argc, the
// arguments, nil, the environment, nil.
func recordedEnviron() ([]string, bool) {
	if execRan == 0 {
		return nil, false
	}
	word := *(*unsafe.Pointer)(unsafe.Pointer(&execStack))
	next := func() *byte {
		word = unsafe.Add(word, unsafe.Sizeof(uintptr(0)))
		return *(**byte)(word)
	}
	for next() != nil {
	}
	var env []string
	for p := next(); p != nil; p = next() {
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
			n++
		}
		env = append(env, unsafe.String(p, n))
	}
	return env, true
}
