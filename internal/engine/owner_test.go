package engine

import (
	"strings"
	"testing"
	"time"
)

func TestOwns(t *testing.T) {
	at := time.Date(2026, 5, 6, 12, 0, 0, 900e6, time.UTC)
	made := map[string]bool{"seen": true}
	for name, c := range map[string]struct {
		id, session, created string
		late                 time.Duration
		keep                 bool
		owns                 bool
		why                  string
	}{
		"in time":             {session: "s", owns: true, why: "created when"},
		"of a list's second":  {session: "s", late: -900 * time.Millisecond, owns: true, why: "created when"},
		"just early":          {session: "s", late: -2 * time.Second, owns: true, why: "created when"},
		"early":               {session: "s", late: -2*time.Second - 1, why: "another time"},
		"just late":           {session: "s", late: 30 * time.Second, owns: true, why: "created when"},
		"late":                {session: "s", late: 30*time.Second + 1, why: "another time"},
		"late, but seen":      {id: "seen", session: "s", late: time.Hour, owns: true, why: "its id was seen"},
		"no time":             {session: "s", created: "-", why: "without its time"},
		"no time, but seen":   {id: "seen", session: "s", created: "-", owns: true, why: "its id was seen"},
		"another session's":   {session: "t"},
		"seen, without label": {id: "seen"},
		"kept":                {id: "seen", session: "s", keep: true},
	} {
		x := Object{ID: c.id, Labels: map[string]string{LabelSession: c.session, LabelCreated: at.Format(time.RFC3339Nano)}, Created: at.Add(c.late)}
		if c.created != "" {
			x.Labels[LabelCreated] = c.created
		}
		if c.keep {
			x.Labels[labelKeep] = "1"
		}
		owns, why := Owner{Session: "s", Made: made}.Owns(&x)
		if owns != c.owns || !strings.Contains(why, c.why) || c.why == "" && why != "" {
			t.Errorf("%s: %v, %q", name, owns, why)
		}
	}
	if owns, why := (Owner{}).Owns(&Object{}); owns || why != "" {
		t.Errorf("no session: %v, %q", owns, why)
	}
}
