package front

import (
	"os"
	"time"

	"mcp-tether/internal/proc"
)

// A woken server that has read the client's roots may not have made use of them yet. Servers look at each directory
// first, in threads of their own, and answer pings meanwhile. With nothing but a ping, server-filesystem judged a call
// without the roots once in 60 wakes of a busy machine. Nothing in the protocol tells when that is done. But work on
// this machine shows in the threads of the server: one runs, or waits for a disk.
const (
	// restTime is for how long no look may find a thread of the server at work.
	restTime = 100 * time.Millisecond
	// restLook is the time between two looks.
	restLook = 20 * time.Millisecond
	// maxRestWait bounds the wait for a server that always works.
	maxRestWait = 5 * time.Second
)

// rest is the wait for a server to come to rest.
type rest struct {
	// at is when to look next; zero while nothing is waited for. since is when the rest began, and by when the wait ends.
	at, since, by time.Time
}

func (r *rest) begin(now time.Time) { *r = rest{now, now, now.Add(maxRestWait)} }

// over reports whether the server has rested for long enough. resting says whether it rests now.
func (r *rest) over(now time.Time, resting bool) bool {
	if !resting {
		r.since = now.Add(restLook)
	}
	if now.Sub(r.since) < restTime && now.Before(r.by) {
		r.at = now.Add(restLook)
		return false
	}
	r.at = time.Time{}
	return true
}

// root is the process below which the backend is: we, or the host of a shared server. It is 0 for a host that has ended.
func (f *front) root() int {
	if !f.back.attached {
		return os.Getpid()
	}
	host := f.o.Finder.Host()
	if f.reader.Life(host) != proc.Alive {
		return 0
	}
	return host.PID
}

// resting reports whether no thread of the backend is seen to work. A process that cannot be read does not count: then
// only the time does.
func (f *front) resting() bool {
	root := f.root()
	if root == 0 {
		return true
	}
	below, _ := f.reader.Descendants(root)
	for _, p := range below {
		if resting, err := f.reader.Resting(p.PID); err == nil && !resting {
			return false
		}
	}
	return true
}
