package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// plainLog is a session whose anchor takes over from a killed supervisor.
const plainLog = `{"test":"kills","role":"supervisor"}
a line of the server
{"level":"debug","session":"a","pid":7,"behind":"","shared":false,"message":"server started"}
{"level":"debug","session":"a","cause":"gateway-gone","state":"ending","message":"server is ending"}
{"level":"debug","session":"a","signal":"SIGTERM","cause":"gateway-gone","message":"signalled"}
{"level":"debug","session":"a","cause":"supervisor-gone","state":"ending","message":"server is ending"}
{"level":"debug","session":"a","signal":"SIGTERM","cause":"supervisor-gone","message":"signalled"}
{"level":"debug","session":"a","signal":"SIGTERM","cause":"supervisor-gone","message":"signalled"}
{"level":"debug","session":"a","message":"session record removed"}
{"level":"info","session":"a","cause":"supervisor-gone","leaked":false,"survivors":[],"kept":[],"message":"session ended"}
{"test":"has found nothing left"}
`

// frontLog is a front with two sessions behind it.
const frontLog = `{"session":"a","behind":"f","message":"server started"}
{"session":"a","cause":"stdin-closed","state":"draining","message":"server is ending"}
{"session":"a","message":"session record removed"}
{"session":"a","cause":"stdin-closed","message":"server and all that it started ended"}
{"session":"f","sleeps":1,"message":"server sleeps"}
{"session":"b","behind":"f","message":"server started"}
{"session":"f","cause":"gateway-gone","sleeps":1,"message":"session ended"}
`

func TestReadLog(t *testing.T) {
	for _, c := range []struct{ name, log, want string }{
		{"plain", plainLog, "MAY_DIE 7, MAY_DIE 8, STARTED 7, GATEWAY_GONE 7, SIGTERMS 7, RECOVERING 5, SIGTERMS 5, UNRECORDED 5, OVER 5, NOTHING 0"},
		{"front", frontLog, "STARTED 7, DRAINING 7, UNRECORDED 7, ENDED 7, NAPS 1, STARTED 8, OVER 1"},
	} {
		read, why := makeTrace(c.name, readEvents([]byte(c.log)))
		var got []string
		for _, l := range read.lines {
			got = append(got, fmt.Sprintf("%s %d", l.step.name, l.process))
		}
		if text := strings.Join(got, ", "); why != "" || text != c.want {
			t.Errorf("%s: %q\n got %s\nwant %s", c.name, why, text, c.want)
		}
		if worlds[read.kind] != c.name {
			t.Errorf("%s is read as %s", c.name, worlds[read.kind])
		}
	}
}

// What the model does not have is left out, not refused.
func TestLeftOut(t *testing.T) {
	for name, line := range map[string]string{
		"survivor": `{"session":"a","survivors":[{"pid":3}],"message":"session ended"}`,
		"kept":     `{"session":"a","kept":[3],"message":"session ended"}`,
		"warning":  `{"session":"a","level":"warn","message":"session record not written"}`,
		"starts":   strings.ReplaceAll(frontLog, `"b"`, `"c"`) + strings.ReplaceAll(frontLog, `"a"`, `"d"`),
	} {
		if _, why := makeTrace(name, readEvents([]byte(line))); why == "" {
			t.Errorf("%s is not left out", name)
		}
	}
}

// Each mistake names steps that there are, and changes a log.
func TestMutations(t *testing.T) {
	all := steps()
	for _, name := range []string{"STARTED", "RECOVERING", "NOTHING", "MAY_SWEEP"} {
		if !slices.ContainsFunc(all, func(s step) bool { return s.name == name }) {
			t.Errorf("%s is not in the table: %v", name, all)
		}
	}
	changed := 0
	for _, m := range mutations() {
		for _, log := range []string{plainLog, frontLog} {
			events := readEvents([]byte(log))
			was := fmt.Sprint(events)
			if other := m.change(slices.Clone(events)); other != nil {
				changed++
				if fmt.Sprint(other) == was {
					t.Errorf("%s changes nothing", m.what)
				}
			}
			if fmt.Sprint(events) != was {
				t.Errorf("%s changes the log that it is given", m.what)
			}
		}
	}
	if changed < 8 {
		t.Errorf("only %d mistakes can be made in these logs", changed)
	}
}

// Sessions in one file that have nothing to do with each other are replayed one by one.
func TestApart(t *testing.T) {
	if n := len(apart(readEvents([]byte(frontLog + `{"session":"x","message":"server started"}`)))); n != 2 {
		t.Errorf("%d groups, want 2", n)
	}
	if n := len(apart(readEvents([]byte(plainLog)))); n != 1 {
		t.Errorf("%d groups with a test, want 1", n)
	}
}
