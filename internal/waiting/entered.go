//go:build amd64 || arm64

package waiting

import "golang.org/x/sys/unix"

// Entered reports what this process has become before its runtime started, the page of its session, and for a supervisor
// what has early.happened. linked is false in a binary that was not linked to enter at atExec.
func Entered() (role Role, page *Page, happening Event, linked bool) {
	if early.role != None {
		page = thePage()
	}
	return early.role, page, early.happened, early.stack != 0
}

// Environ is the environment byte for byte as it was given, duplicates, empty entries and order included; ok is false in
// a binary that was not linked to enter at atExec. Package os leaves out what it does not understand.
func Environ() (env []string, ok bool) {
	if early.stack == 0 {
		return nil, false
	}
	for _, variable := range environment() {
		env = append(env, textAt(variable))
	}
	return env, true
}

// Found is what the process inherited and the runtime has changed since.
func Found() (Inherited, bool) { return early.found, early.stack != 0 }

// Queued reads a signal that does not end from the queue of those that stay blocked; 0 for none, or for one that is not to be
// passed on. It is for a supervisor with a runtime.
func (p *Page) Queued() (sig unix.Signal, more bool) {
	var s arrived
	if !p.take(&s) {
		return 0, false
	}
	if sig = s.signal(); ends(sig) || sig == unix.SIGCHLD || !p.passes(&s) {
		return 0, true
	}
	return sig, true
}
