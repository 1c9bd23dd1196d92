//go:build amd64 || arm64

package waiting

import "golang.org/x/sys/unix"

// Entered reports what this process has become before its runtime started, the page of its session, and for a supervisor
// what has happened. linked is false in a binary that was not linked to enter at atExec.
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

// Queued appends those of the signals that stay blocked which have arrived and are to be passed on, a few in a turn. It is for a
// process with a runtime.
func (p *Page) Queued(into []unix.Signal) []unix.Signal {
	var s arrived
	for n := 0; n < fewSignals && p.take(&s); n++ {
		if sig := s.signal(); !ends(sig) && sig != unix.SIGCHLD && p.passes(&s) {
			into = append(into, sig)
		}
	}
	return into
}
