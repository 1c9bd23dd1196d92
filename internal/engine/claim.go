package engine

import (
	"slices"
	"sort"
	"time"
)

// Claim tells which of an engine's objects belong to a session.
//
// A label alone is no proof: `docker commit` copies labels into images, and so into every container that is made from
// the image later. What the engine assigns cannot be copied: the id, which was noted at the creation, and the time of
// creation, which must match our request.
type Claim struct {
	Session string
	Ledger  Ledger
	// Complete says that the ledger lacks nothing: the session's own process kept it. Otherwise our labels count too.
	Complete bool
	// TrustIDs says that a recorded id and request are proof even without the session's label. A session inside of this
	// one puts its own label on objects. TrustIDs must be false for another user's record.
	TrustIDs bool
}

// Target is an object that belongs to a claim, or that only seems to.
type Target struct {
	Info
	// Why is the proof, or what is missing from it.
	Why string
}

// How far an engine's time of creation may be from ours.
const (
	// listPrecision is the precision of the times in a list.
	listPrecision = time.Second
	// maxLabelDelay is the longest that a busy engine may take to create an object after its label was written.
	maxLabelDelay = 5 * time.Second
	// maxRequestDelay is the longest that a busy engine may take to create an object after a request whose outcome
	// is unknown. An object with the request's labels that was created later is a copy.
	maxRequestDelay = time.Minute
)

// ImageLabels returns the labels of an image.
type ImageLabels func(imageID string) (map[string]string, error)

// Targets sorts the objects of an engine, oldest first. mine belong to the claim. doubtful ones carry the session's
// label or are on record, but the proof is missing. images is called only for containers that have our labels but no
// recorded id.
func (c Claim) Targets(have []Info, images ImageLabels) (mine, doubtful []Target) {
	j := newJudge(c, have, images)
	// Of several objects with the label of one request, the oldest is the original.
	oldest := slices.Clone(have)
	sort.SliceStable(oldest, func(a, b int) bool { return oldest[a].Created.Before(oldest[b].Created) })
	for i := range oldest {
		t, sure := j.judge(&oldest[i])
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
	kind Kind
	name string
}

// reply is an id that a request was answered with.
type reply struct {
	key
	request string
}

// judge is a claim with an index.
type judge struct {
	Claim
	images  ImageLabels
	ids     map[key]bool // on record
	replies map[reply]bool
	pending map[key]Object
	pods    map[string]bool // requests that created pods
}

func newJudge(c Claim, have []Info, images ImageLabels) *judge {
	j := &judge{c, images, map[key]bool{}, map[reply]bool{}, map[key]Object{}, map[string]bool{}}
	for _, o := range c.Ledger.Objects() {
		id := key{o.Kind, o.ID}
		j.ids[id], j.replies[reply{id, o.Request}] = true, true
	}
	for _, o := range c.Ledger.Pending() {
		j.pending[key{o.Kind, o.Request}] = o
	}
	for _, x := range have {
		if request := x.Labels[LabelRequest]; x.Kind == Pod && request != "" {
			j.pods[request] = true
		}
	}
	return j
}

// judge says whether an object is the session's. Why stays empty if nothing connects it with the session.
func (j *judge) judge(x *Info) (t Target, sure bool) {
	t = Target{Info: *x}
	ours := x.Labels[LabelSession] == j.Session && j.Session != ""
	asked := key{x.Kind, x.Labels[LabelRequest]}
	want, pending := j.pending[asked]
	switch {
	case x.Kind == Container && j.pods[asked.name]:
		// That container is a pod's infra container. It has the pod's labels, and is removed with it.
		return t, false
	case x.IsKept():
		return t, false
	case j.ids[key{x.Kind, x.ID}] && (ours || j.TrustIDs):
		sure, t.Why = j.judgeRecorded(x)
		return t, sure
	case pending && (ours || j.TrustIDs):
		sure, t.Why = j.judgePending(x, &want)
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

// judgeRecorded judges an object whose id is on record.
func (j *judge) judgeRecorded(x *Info) (sure bool, why string) {
	request := x.Labels[LabelRequest]
	if j.replies[reply{key{x.Kind, x.ID}, request}] && request != "" {
		return true, "created by the session: its id is on record, with the request that it carries"
	}
	return false, "its id is on record, but not its request: it was there before, or was made anew by another"
}

// judgePending judges an object that the session asked for without learning the outcome.
func (j *judge) judgePending(x *Info, want *Object) (sure bool, why string) {
	if x.Created.Before(want.At.Add(-listPrecision)) {
		return false, "carries the label of a request of the session, but is older"
	}
	if x.Created.After(want.At.Add(maxRequestDelay)) {
		return false, "carries the label of a request of the session, but was created long after it: a copy"
	}
	if why := j.copied(x); why != "" {
		return false, why
	}
	return true, "asked for by the session: it carries the label of the request"
}

// judgeLabel judges an object with the session's label where the record of ids may be incomplete.
func (j *judge) judgeLabel(x *Info) (sure bool, why string) {
	at, err := time.Parse(time.RFC3339Nano, x.Labels[LabelCreated])
	if err != nil {
		return false, "carries the session's label without its time: a copy"
	}
	if x.Created.Sub(at).Abs() > maxLabelDelay {
		return false, "carries the session's label, but was created at another time: a copy"
	}
	if why := j.copied(x); why != "" {
		return false, why
	}
	return true, "carries the session's label, and was created when the label says"
}

// copied says why a container's labels may come from its image; "" if they do not.
func (j *judge) copied(x *Info) string {
	if x.Kind != Container {
		return ""
	}
	labels, err := j.images(x.ImageID)
	if err != nil {
		return "carries the session's label, but may have it from its image, which cannot be read"
	}
	if labels[LabelRequest] == x.Labels[LabelRequest] {
		return "carries the session's label, but has it from its image: a copy"
	}
	return ""
}
