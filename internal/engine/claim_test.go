package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is the time at which the session of these tests made its requests.
func asked() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 900e6, time.UTC) }

// labels returns our labels on an object that a request created.
func labels(session, request string) map[string]string {
	return map[string]string{
		LabelSession: session, LabelRequest: request,
		LabelCreated: asked().Format(time.RFC3339Nano),
	}
}

// ledger is what some notes add up to.
func ledger(notes ...Note) (l Ledger) {
	for _, n := range notes {
		l.Add(n)
	}
	return l
}

func createNote(kind Kind, request string) Note {
	return Note{Op: OpCreate, Kind: kind, Request: request, At: asked()}
}

func createdNote(kind Kind, request, id string) Note {
	return Note{Op: OpCreated, Kind: kind, Request: request, ID: id}
}

// images knows the images plain and copied. The latter was committed from the container of request r1 of session s.
func images(id string) (map[string]string, error) {
	switch id {
	case "plain":
		return map[string]string{"maintainer": "x"}, nil
	case "copied":
		return labels("s", "r1"), nil
	}
	return nil, fmt.Errorf("image %s: %w", id, ErrNotFound)
}

func box(id, image string, created time.Time, l map[string]string) Info {
	return Info{Kind: Container, ID: id, ImageID: image, Created: created, Labels: l}
}

func TestTargets(t *testing.T) {
	const c = Container
	inList := asked().Truncate(time.Second) // the time of creation as a list gives it
	recorded := ledger(createNote(c, "r1"), createdNote(c, "r1", "a"))
	pending := ledger(createNote(c, "r1"))
	own, kept, unkept := labels("s", "r1"), labels("s", "r1"), labels("s", "r1")
	kept[LabelKeep], unkept[LabelKeep] = "1", "0"
	for name, x := range map[string]struct {
		ledger   Ledger
		have     []Info
		complete string // claims of a session's own process: the ids of mine, then those of doubtful
		reaped   string // the same user's reaper
		other    string // a reaper of another user's record
	}{
		"nothing":  {recorded, nil, "/", "/", "/"},
		"recorded": {recorded, []Info{box("a", "plain", inList, own)}, "a/", "a/", "a/"},
		"recorded, older than asked by a clock that is off": {recorded, []Info{box("a", "copied", inList.Add(-time.Hour), own)}, "a/", "a/", "a/"},
		"recorded, without a label":                         {recorded, []Info{box("a", "plain", inList, nil)}, "/a", "/a", "/"},
		"recorded, with another request's label":            {recorded, []Info{box("a", "plain", inList, labels("s", "r2"))}, "/a", "/a", "/a"},
		"recorded twice, from the first request": {
			ledger(createNote(c, "r1"), createdNote(c, "r1", "a"), createNote(c, "r2"), createdNote(c, "r2", "a")),
			[]Info{box("a", "plain", inList, own)}, "a/", "a/", "a/",
		},
		"recorded without a request": {
			ledger(Note{Op: OpCreated, Kind: c, ID: "a", At: asked()}), []Info{box("a", "plain", inList, nil)}, "/a", "/a", "/",
		},
		"recorded, with another's label": {recorded, []Info{box("a", "plain", inList, labels("t", "r1"))}, "a/", "a/", "/"},
		"recorded, and removed by the client": {
			ledger(createNote(c, "r1"), createdNote(c, "r1", "a"), Note{Op: OpRemoved, ID: "a"}),
			[]Info{box("z", "plain", inList, nil)}, "/", "/", "/",
		},
		"recorded, and kept":                 {recorded, []Info{box("a", "plain", inList, kept)}, "/", "/", "/"},
		"recorded, with another word":        {recorded, []Info{box("a", "plain", inList, unkept)}, "a/", "a/", "a/"},
		"pending, and kept":                  {pending, []Info{box("a", "plain", inList, kept)}, "/", "/", "/"},
		"labelled, and kept":                 {ledger(), []Info{box("a", "plain", inList, kept)}, "/", "/", "/"},
		"a stranger":                         {recorded, []Info{box("z", "plain", inList, nil)}, "/", "/", "/"},
		"of another session":                 {recorded, []Info{box("z", "plain", inList, labels("t", "r9"))}, "/", "/", "/"},
		"a copy, later":                      {recorded, []Info{box("a", "plain", inList, own), box("z", "copied", inList.Add(time.Hour), own)}, "a/z", "a/z", "a/z"},
		"a copy, at once":                    {recorded, []Info{box("a", "plain", inList, own), box("z", "copied", inList, own)}, "a/z", "a/z", "a/z"},
		"not noted, but labelled":            {ledger(), []Info{box("a", "plain", inList, labels("s", "r2"))}, "/a", "a/", "a/"},
		"labelled, of an image that is gone": {ledger(), []Info{box("a", "gone", inList, own)}, "/a", "/a", "/a"},
		"labelled, created much later":       {ledger(), []Info{box("a", "plain", inList.Add(7*time.Second), own)}, "/a", "/a", "/a"},
		"labelled, without a time":           {ledger(), []Info{box("a", "plain", inList, map[string]string{LabelSession: "s"})}, "/a", "/a", "/a"},
		"pending":                            {pending, []Info{box("a", "plain", inList, own)}, "a/", "a/", "a/"},
		"pending, by a slow engine":          {pending, []Info{box("a", "plain", inList.Add(50*time.Second), own)}, "a/", "a/", "a/"},
		"pending, and a clone made later":    {pending, []Info{box("z", "plain", inList.Add(time.Hour), own)}, "/z", "/z", "/z"},
		"pending, of a nested session":       {pending, []Info{box("a", "plain", inList, labels("t", "r1"))}, "a/", "a/", "/"},
		"pending, but older":                 {pending, []Info{box("z", "plain", inList.Add(-2*time.Second), own)}, "/z", "/z", "/z"},
		"pending, and only the copy left":    {pending, []Info{box("z", "copied", inList.Add(time.Minute), own)}, "/z", "/z", "/z"},
		"pending, and a copy of it":          {pending, []Info{box("z", "copied", inList, own), box("a", "plain", inList, own)}, "a/z", "a/z", "a/z"},
		"pending, two from one request":      {pending, []Info{box("z", "plain", inList.Add(time.Minute), own), box("a", "plain", inList, own)}, "a/z", "a/z", "a/z"},
		"refused, and a copy": {
			ledger(createNote(c, "r1"), Note{Op: OpRefused, Request: "r1"}),
			[]Info{box("z", "copied", inList.Add(time.Minute), own)}, "/z", "/z", "/z",
		},
	} {
		for _, claim := range []struct {
			of   Claim
			want string
		}{
			{Claim{Session: "s", Ledger: x.ledger, Complete: true, TrustIDs: true}, x.complete},
			{Claim{Session: "s", Ledger: x.ledger, TrustIDs: true}, x.reaped},
			{Claim{Session: "s", Ledger: x.ledger}, x.other},
		} {
			mine, doubtful := claim.of.Targets(x.have, images)
			if got := idsOf(mine) + "/" + idsOf(doubtful); got != claim.want {
				t.Errorf("%s, complete %v, trusted %v: %s, want %s", name, claim.of.Complete, claim.of.TrustIDs, got, claim.want)
			}
			for _, target := range slices.Concat(mine, doubtful) {
				if target.Why == "" {
					t.Errorf("%s: %+v", name, target)
				}
			}
		}
	}
}

func idsOf(targets []Target) string {
	var out []string
	for _, t := range targets {
		out = append(out, t.ID)
	}
	return strings.Join(out, ",")
}

// A claim from a damaged record, without a session's id, claims no object that lacks the session's label.
func TestNoSessionClaimsNothing(t *testing.T) {
	mine, doubtful := Claim{TrustIDs: true}.Targets([]Info{box("a", "plain", asked(), nil)}, images)
	if len(mine)+len(doubtful) > 0 {
		t.Errorf("%v, %v", mine, doubtful)
	}
}

// Networks and pods cannot have their labels from an image. A pod's infra container goes with it.
func TestTargetsOfOtherKinds(t *testing.T) {
	own := labels("s", "r1")
	have := []Info{
		{Kind: Network, ID: "n", Created: asked(), Labels: labels("s", "r2")},
		{Kind: Pod, ID: "p", Created: asked(), Labels: own},
		box("infra", "plain", asked(), own),
		{Kind: Network, ID: "bridge", Created: asked().Add(-time.Hour)},
		{Kind: Network, ID: "old", Created: asked().Add(-time.Hour), Labels: labels("s", "r3")},
	}
	claim := Claim{Session: "s", TrustIDs: true, Ledger: ledger(
		createNote(Network, "r2"), createdNote(Network, "r2", "n"),
		createNote(Pod, "r1"),
	)}
	none := func(id string) (map[string]string, error) {
		t.Errorf("asked for the labels of image %s", id)
		return nil, errors.ErrUnsupported
	}
	for _, claim.Complete = range []bool{false, true} {
		mine, doubtful := claim.Targets(have, none)
		if idsOf(mine) != "n,p" || idsOf(doubtful) != "old" {
			t.Errorf("complete %v: mine %s, doubtful %s", claim.Complete, idsOf(mine), idsOf(doubtful))
		}
	}
	claim.Ledger, claim.Complete = Ledger{}, false
	if mine, doubtful := claim.Targets(have, none); idsOf(mine) != "n,p" || idsOf(doubtful) != "old" {
		t.Errorf("by label alone: mine %s, doubtful %s", idsOf(mine), idsOf(doubtful))
	}
}
