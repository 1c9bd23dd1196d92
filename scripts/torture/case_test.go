//go:build amd64

package main

import (
	"context"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// What a failure prints is enough to run it again.
func TestCaseIDs(t *testing.T) {
	for _, id := range []string{
		"leaf/gateway/none", "noleaf/term/ender.openat.7.EMFILE", "hibernate/eof/anchor.clone.1.kill-after",
		"leaf/gateway/kill.supervisor@ready/anchor.prctl.1.EPERM+", "deaf/gateway/kill.anchor@ppoll.3/ender.read.2.delay",
	} {
		c, err := parseCase(id)
		if err != nil || c.String() != id {
			t.Errorf("%s is read as %s, %v", id, c, err)
		}
	}
	for _, id := range []string{
		"", "leaf", "leaf/gateway", "nowhere/gateway/none", "leaf/gateway/supervisor.openat.7", "leaf/gateway/supervisor.openat.0.EIO",
		"leaf/gateway/supervisor.openat.x.EIO", "leaf/gateway/supervisor.openat.1.ENOTHING", "leaf/gateway/kill.supervisor/none",
		"leaf/sideways/none", "leaf/gateway/a/b/c",
	} {
		if c, err := parseCase(id); err == nil {
			t.Errorf("%q is taken for %s", id, c)
		}
	}
}

func TestPlausibleErrnosExist(t *testing.T) {
	for nr := range uint64(500) {
		for _, name := range plausible(callName(nr)) {
			if errno, ok := errnoByName(name); !ok || unix.ErrnoName(errno) != name {
				t.Errorf("%s: unknown errno %s", callName(nr), name)
			}
		}
	}
	if len(plausible("openat")) == 0 || len(plausible("sys_499")) == 0 {
		t.Error("no errno for a call that can fail")
	}
}

// The lists can be read, and name cases that there can be.
func TestLists(t *testing.T) {
	names, err := listIn("known.txt")
	if err != nil {
		t.Fatal(err)
	}
	known, err := parseKnown(names)
	if err != nil || len(known) == 0 {
		t.Fatalf("%d known cases, %v", len(known), err)
	}
	c := campaign{file: "fixed.txt", filter: regexp.MustCompile("")}
	cases, err := c.listed(t.Context())
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, k := range cases {
		for _, verdict := range []string{verdictLeak, verdictHang, verdictLitter} {
			if reason, ok := known.match(Result{Case: k.String(), Verdict: verdict}); ok {
				t.Errorf("%s is fixed, and may fail: %s", k, reason)
			}
		}
	}
}

// A known case may fail as it is known to, and in no other way; a case whose id only contains its name may not.
func TestKnown(t *testing.T) {
	known, err := parseKnown([]string{`hang noleaf/[a-z]+/child\.setpgid\.1\.stop  nobody looks`})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{
		"noleaf/eof/child.setpgid.1.stop": true, "noleaf/eof/child.setpgid.11.stop": false, "leaf/eof/child.setpgid.1.stop": false,
	} {
		if _, ok := known.match(Result{Case: id, Verdict: verdictHang}); ok != want {
			t.Errorf("%s: %v", id, ok)
		}
		if _, ok := known.match(Result{Case: id, Verdict: verdictLeak}); ok {
			t.Errorf("%s may leak", id)
		}
	}
	for _, text := range []string{"hang", "hang a", "ok a reason", "hang ( reason"} {
		if _, err := parseKnown([]string{text}); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// Everything that breaks the promise fails a run, and nothing else does.
func TestFailures(t *testing.T) {
	for verdict, want := range map[string]int{
		verdictOK: 0, verdictReaped: 0, verdictNamed: 0, verdictLate: 0, verdictLeak: 1, verdictHang: 1, verdictLitter: 1, verdictHarm: 1, verdictBroken: 1,
	} {
		var all table
		all.add(Case{Mode: "leaf"}, Result{Verdict: verdict}, false)
		if got := all.failed(); got != want {
			t.Errorf("%s: %d failed", verdict, got)
		}
		var known table
		known.add(Case{Mode: "leaf"}, Result{Verdict: verdict}, true)
		if known.failed() != 0 {
			t.Errorf("%s fails, though it is known", verdict)
		}
	}
}

// The end of a sample takes back no failure that was seen. A case that it cuts short does not count.
func TestEndOfASample(t *testing.T) {
	for name, c := range map[string]struct {
		verdicts             []string // The time is over with the last one.
		counts, failed, told int
	}{
		"held":                    {[]string{verdictOK}, 1, 0, 0},
		"failed":                  {[]string{verdictLeak}, 1, 1, 1},
		"failed twice":            {[]string{verdictLeak, verdictHang}, 1, 1, 1},
		"failed and was cut off":  {[]string{verdictLeak, verdictBroken}, 1, 1, 1},
		"failed and held once":    {[]string{verdictLeak, verdictOK}, 1, 0, 1},
		"failed in a second try":  {[]string{verdictBroken, verdictLeak}, 1, 1, 1},
		"cut off":                 {[]string{verdictBroken}, 0, 0, 0},
		"cut off in a second try": {[]string{verdictBroken, verdictBroken}, 0, 0, 0},
	} {
		ctx, end := context.WithCancel(t.Context())
		sample := campaign{jobs: 1, again: 2}
		sample.try = func(_ context.Context, k Case) Result {
			r := Result{Case: k.String(), Verdict: c.verdicts[0]}
			if c.verdicts = c.verdicts[1:]; len(c.verdicts) == 0 {
				end()
			}
			return r
		}
		sample.all(ctx, []Case{{Mode: "leaf", Ending: endEOF}})
		if got, failed := sample.table.total(), sample.table.failed(); got != c.counts || failed != c.failed || len(sample.told) != c.told {
			t.Errorf("%s: %d count and %d failed: %+v", name, got, failed, sample.told)
		}
	}
}
