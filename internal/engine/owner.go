package engine

import "time"

// Owner tells which of an engine's objects belong to a session.
//
// A label alone is no proof: `docker commit` copies labels into images, and so into every container that is made from the
// image later. What the engine assigns is not copied: the id, and the time of creation.
type Owner struct {
	Session string
	// Made are the ids of what the session was seen to create; nil if the process that saw it is dead.
	Made map[string]bool
}

// How far the time of creation may be from the one in the label: clocks are not the same, a list has whole seconds, and a
// busy engine takes its time.
const (
	maxEarly = 2 * time.Second
	maxLate  = 30 * time.Second
)

// Owns reports whether an object is the session's to end, and why. Without a reason nothing connects the two.
func (o Owner) Owns(x *Object) (owns bool, why string) {
	if o.Session == "" || x.Labels[LabelSession] != o.Session || x.IsKept() {
		return false, ""
	}
	if o.Made[x.ID] {
		return true, "created by the session: it carries the label, and its id was seen"
	}
	at, err := time.Parse(time.RFC3339Nano, x.Labels[LabelCreated])
	if err != nil {
		return false, "carries the session's label without its time: a copy"
	}
	if late := x.Created.Sub(at); late < -maxEarly || late > maxLate {
		return false, "carries the session's label, but was created at another time: a copy, or the engine's clock is wrong"
	}
	return true, "carries the session's label, and was created when the label says"
}
