//go:build amd64

package main

import (
	"regexp"
	"testing"
)

// The lists can be read, name cases that there can be, and no case that is fixed may fail in a known way.
func TestLists(t *testing.T) {
	known, err := readKnown()
	if err != nil || len(known) == 0 {
		t.Fatalf("%d known cases, %v", len(known), err)
	}
	c := campaign{file: "fixed.txt", filter: regexp.MustCompile("")}
	cases, err := c.listed(t.Context())
	if err != nil || len(cases) == 0 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, k := range cases {
		if back, err := parseCase(k.String()); err != nil || back.String() != k.String() {
			t.Errorf("%s is read as %s, %v", k, back, err)
		}
		for _, verdict := range []string{verdictLeak, verdictHang, verdictLitter} {
			if reason, ok := known.match(Result{Case: k.String(), Verdict: verdict}); ok {
				t.Errorf("%s is fixed, and may fail: %s", k, reason)
			}
		}
	}
}
