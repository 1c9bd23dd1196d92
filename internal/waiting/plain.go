//go:build !(amd64 || arm64)

package waiting

import "golang.org/x/sys/unix"

// Entered says that this binary has no entry of ours: there is none for the architecture.
func Entered() (role Role, page *Page, happening Event, linked bool) {
	return None, nil, Event{}, false
}

// Environ has nothing better than package os.
func Environ() (env []string, ok bool) { return nil, false }

// Found says that nothing was noted.
func Found() (Inherited, bool) { return Inherited{}, false }

// NoteEnd does nothing: there is no anchor.
func (p *Page) NoteEnd() {}

// Queued has nothing: there is no page.
func (p *Page) Queued(into []unix.Signal) []unix.Signal { return into }
