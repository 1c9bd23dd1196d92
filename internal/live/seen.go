package live

import (
	"os"
	"sort"

	"mcp-tether/internal/display"
	"mcp-tether/internal/session"
)

// Seen are the living sessions that the user of this process may see.
type Seen struct {
	Sessions []Session
	// Unread says what could not be read.
	Unread []string
	// Dirs are the user's directories. They are open until Close, because sessions are asked by what is there.
	Dirs []*session.Directory
}

// See lists the user's living sessions, and as root those of all users, eldest first. more, which may be nil, adds to the user's own.
// runtime is $XDG_RUNTIME_DIR.
func See(runtime string, more func([]Session)) (s Seen, err error) {
	stored, dirs, left := session.ReadAll(runtime)
	s.Dirs = dirs
	note := func(what string) { s.Unread = append(s.Unread, what) }
	for _, err := range left {
		note(err.Error())
	}
	if s.Sessions, err = list(stored, note); err != nil {
		s.Close()
		return Seen{}, err
	}
	if more != nil {
		more(s.Sessions)
	}
	if os.Getuid() == 0 {
		s.Sessions = append(s.Sessions, others(note)...)
	}
	sort.SliceStable(s.Sessions, func(i, j int) bool { return s.Sessions[i].Started.Before(s.Sessions[j].Started) })
	return s, nil
}

// Close closes the directories.
func (s *Seen) Close() { session.CloseAll(s.Dirs) }

// Missing is what could not be read, and what is not known of a session, as text for a terminal.
func (s *Seen) Missing() (all []string) {
	for _, u := range s.Unread {
		all = append(all, display.Text(u))
	}
	for _, l := range s.Sessions {
		if l.Unknown != "" {
			all = append(all, display.Text("session "+l.ID+": "+l.Unknown))
		}
	}
	return all
}
