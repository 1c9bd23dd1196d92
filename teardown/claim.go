package teardown

import (
	"slices"
	"time"

	"mcp-tether/container"
)

// Claim is what a session may call its own in an engine.
//
// A label alone is no proof: `docker commit` copies labels into images, and so into the containers of whoever uses the
// image later. What cannot be copied is what the engine assigns: the id, which was recorded at the creation, and the time
// of creation, which has to be that of our request.
type Claim struct {
	Session string
	Ledger  container.Ledger
	// Complete says that the ledger is whole: the session's own process kept it. Otherwise our labels count as well.
	Complete bool
	// TrustIDs says that a recorded id is proof even without our label. A reaper of another user's record must see it.
	TrustIDs bool
}

// Target is an object that belongs to a claim, or one that looks as if it did.
type Target struct {
	container.Info
	// Stop says to stop it, not to remove it: it was there before the session.
	Stop bool
	// Why is the proof, or what is missing from it.
	Why string
	// start is how the session started what is to be stopped.
	start container.Started
}

// How far the engine's times may be from ours.
const (
	// before is what the engine's time of creation loses in a list, which has seconds only.
	before = time.Second
	// labelled is how long after our label was written a busy engine may create the object.
	labelled = 5 * time.Second
)

// ImageLabels tells the labels of an image.
type ImageLabels func(imageID string) (map[string]string, error)

// Targets tells which of what an engine has belongs to the claim, oldest first, and what only looks like it: it carries
// the session's label, or is on record, without the proof. Volumes are in neither. images is asked only about containers
// that a label speaks for, and no recorded id.
//
// What the session merely started is proven by its StartedAt. Where that is zero, as in a list, EndContainers will see.
func (c Claim) Targets(have []container.Info, images ImageLabels) (mine, doubtful []Target) {
	j := newJudge(c, have, images)
	// Of several that came from one request, the oldest is no copy.
	oldest := func(a, b container.Info) int { return a.Created.Compare(b.Created) }
	for _, x := range slices.SortedStableFunc(slices.Values(have), oldest) {
		t, sure := j.judge(x)
		switch {
		case sure:
			mine = append(mine, t)
		case t.Why != "":
			doubtful = append(doubtful, t)
		}
	}
	return mine, doubtful
}

// key is a kind of object with an id or a request.
type key struct {
	kind container.Kind
	name string
}

// judge holds a claim in a form that is quick to look up.
type judge struct {
	Claim
	images  ImageLabels
	objects map[key]bool // by id
	pending map[key]container.Object
	started map[string]container.Started
	pods    map[string]bool // requests that made pods
}

func newJudge(c Claim, have []container.Info, images ImageLabels) *judge {
	j := &judge{c, images, map[key]bool{}, map[key]container.Object{}, map[string]container.Started{}, map[string]bool{}}
	for _, o := range c.Ledger.Objects() {
		j.objects[key{o.Kind, o.ID}] = true
	}
	for _, o := range c.Ledger.Pending() {
		j.pending[key{o.Kind, o.Request}] = o
	}
	for _, s := range c.Ledger.Started() {
		j.started[s.ID] = s
	}
	for _, x := range have {
		if request := x.Labels[container.LabelRequest]; x.Kind == container.Pod && request != "" {
			j.pods[request] = true
		}
	}
	return j
}

// judge tells whether an object is the session's. One with neither proof nor likeness has no Why.
func (j *judge) judge(x container.Info) (t Target, sure bool) {
	t = Target{Info: x}
	ours := x.Labels[container.LabelSession] == j.Session && j.Session != ""
	asked := key{x.Kind, x.Labels[container.LabelRequest]}
	start, foreign := j.started[x.ID]
	want, pending := j.pending[asked]
	switch {
	case x.Kind == container.Volume, x.Kind == container.Container && j.pods[asked.name]:
		// The latter holds a pod together, has its labels and goes with it.
		return t, false
	case j.objects[key{x.Kind, x.ID}] && (ours || j.TrustIDs):
		t.Why = "created by the session: its id is on record"
		return t, true
	case foreign && x.Kind == container.Container:
		return j.judgeStarted(t, start)
	case pending && (ours || j.TrustIDs):
		sure, t.Why = j.judgePending(x, want)
		if sure {
			delete(j.pending, asked)
		}
		return t, sure
	case ours && !j.Complete:
		sure, t.Why = j.judgeLabel(x)
		return t, sure
	case ours:
		t.Why = "carries the session's label, but the session did not create it: a copy"
	}
	return t, false
}

// pendingTime is how long after it was asked for an engine may have created an object, however busy it is. Later ones with
// its labels were made by somebody who copied them.
const pendingTime = time.Minute

// judgePending is for what the session asked for without learning what came of it.
func (j *judge) judgePending(x container.Info, want container.Object) (sure bool, why string) {
	if x.Created.Before(want.At.Add(-before)) {
		return false, "carries the label of a request of the session, but is older"
	}
	if x.Created.After(want.At.Add(pendingTime)) {
		return false, "carries the label of a request of the session, but was created long after it: a copy"
	}
	if why := j.copied(x); why != "" {
		return false, why
	}
	return true, "asked for by the session: it carries the label of the request"
}

// judgeLabel is for what carries the session's label where the record of ids may have gaps.
func (j *judge) judgeLabel(x container.Info) (sure bool, why string) {
	at, err := time.Parse(time.RFC3339Nano, x.Labels[container.LabelCreated])
	if err != nil {
		return false, "carries the session's label without its time: a copy"
	}
	if x.Created.Sub(at).Abs() > labelled {
		return false, "carries the session's label, but was created at another time: a copy"
	}
	if why := j.copied(x); why != "" {
		return false, why
	}
	return true, "carries the session's label, and was created when the label says"
}

// copied tells why a container may have its labels from its image, "" if it has not.
func (j *judge) copied(x container.Info) string {
	if x.Kind != container.Container {
		return ""
	}
	labels, err := j.images(x.ImageID)
	if err != nil {
		return "carries the session's label, but may have it from its image, which cannot be read"
	}
	if labels[container.LabelRequest] == x.Labels[container.LabelRequest] {
		return "carries the session's label, but has it from its image: a copy"
	}
	return ""
}

// judgeStarted is for what was there before the session.
func (j *judge) judgeStarted(t Target, start container.Started) (Target, bool) {
	t.Stop, t.start = true, start
	switch {
	case !t.Running:
		return t, false
	case !j.TrustIDs:
		t.Why = "started by the session, says a record of another user"
		return t, false
	case !t.StartedAt.IsZero() && !t.startedBySession(t.Info):
		return t, false
	}
	t.Why = "was there before, and started by the session"
	return t, true
}

// startedBySession reports whether a container runs since the session started it, and not since somebody else did.
func (t Target) startedBySession(now container.Info) bool {
	switch {
	case !now.Running || now.ID != t.start.ID:
		return false
	case t.start.Known:
		return now.StartedAt.Equal(t.start.At)
	}
	return !now.StartedAt.Before(t.start.At.Add(-before))
}
