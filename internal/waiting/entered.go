//go:build amd64 || arm64

package waiting

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Entered reports what this process has become before its runtime started, the page of its session, and for a supervisor
// what has happened. linked is false in a binary that was not linked to enter at atExec.
func Entered() (role Role, page *Page, happening Event, linked bool) {
	if thisRole != 0 {
		page = *(**Page)(unsafe.Pointer(&pageAddress))
	}
	return Role(thisRole), page, Event{Kind(happened), unix.Signal(detail)}, initialStack != 0
}

// Environ is the environment byte for byte as it was given, duplicates, empty entries and order included; ok is false in
// a binary that was not linked to enter at atExec. Package os leaves out what it does not understand.
func Environ() (env []string, ok bool) {
	if initialStack == 0 {
		return nil, false
	}
	at := *(*unsafe.Pointer)(unsafe.Pointer(&initialStack))
	next := func() *byte {
		at = unsafe.Add(at, wordSize)
		return *(**byte)(at)
	}
	for next() != nil {
	}
	for p := next(); p != nil; p = next() {
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
			n++
		}
		env = append(env, unsafe.String(p, n))
	}
	return env, true
}

// Found is what the process inherited and the runtime has changed since.
func Found() (Inherited, bool) {
	return Inherited{blockedBefore, ignoredBefore, filesBefore, mostFilesBefore}, initialStack != 0
}

// NoteEnd says that the session is to end: the anchor gives the supervisor its time from now on.
func (p *Page) NoteEnd() { p.noteEnd(&p.supervisorRoom) }

// Queued reads a signal that does not end from the queue of those that stay blocked; 0 for none, or for one that is not to be
// passed on. It is for a supervisor with a runtime.
func (p *Page) Queued() (sig unix.Signal, more bool) {
	at := &p.supervisorRoom
	n := p.take(at)
	if n == 0 {
		return 0, false
	}
	if ends(n) || n == uintptr(unix.SIGCHLD) || !p.passes(at) {
		return 0, true
	}
	return unix.Signal(n), true
}
