package supervise

import "time"

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

// awaitRest begins to wait for the server to come to rest.
func (h *hibernation) awaitRest(now time.Time) {
	h.restAt, h.restSince, h.restBy = now, now, now.Add(maxRestWait)
}

// hasRested reports whether the server has rested for long enough. resting says whether it rests now.
func (h *hibernation) hasRested(now time.Time, resting bool) bool {
	if !resting {
		h.restSince = now.Add(restLook)
	}
	if now.Sub(h.restSince) < restTime && now.Before(h.restBy) {
		h.restAt = now.Add(restLook)
		return false
	}
	h.restAt = time.Time{}
	return true
}

// resting reports whether no thread of the tree is seen to work. A process that cannot be read does not count: then
// only the time does.
func (t *tree) resting() bool {
	members, _, _ := t.scope.Members()
	for _, m := range members {
		if resting, err := t.reader.Resting(m.PID); err == nil && !resting {
			return false
		}
	}
	return true
}
