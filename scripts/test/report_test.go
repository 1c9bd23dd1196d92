package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// stream is what go test -json says of a run: one test passes, one fails, one is skipped, one is left out.
var stream = []string{
	event1("run", "TestA", ""), event1("output", "TestA", "quiet\n"), event1("pass", "TestA", ""),
	event1("run", "TestB", ""), event1("run", "TestB/one", ""), event1("output", "TestB/one", "    b_test.go:7: loud\n"), event1("fail", "TestB/one", ""),
	event1("run", "TestC", ""), event1("output", "TestC", "=== RUN   TestC\n"), event1("output", "TestC", "    c_test.go:9: this needs root\n"),
	event1("output", "TestC", "--- SKIP: TestC (0.00s)\n"), event1("skip", "TestC", ""),
	event1("run", "TestD", ""), event1("output", "TestD", "    d_test.go:9: left out of a short run\n"), event1("skip", "TestD", ""),
	"no event\n",
}

func event1(action, name, output string) string {
	return fmt.Sprintf("{\"Action\":%q,\"Package\":\"mcp-tether/e2e\",\"Test\":%q,\"Output\":%q}\n", action, name, output)
}

func taken(out *bytes.Buffer) *report {
	r := newReport()
	for _, line := range stream {
		r.take(line, out)
	}
	return r
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := taken(&out)
	if got := out.String(); got != "    b_test.go:7: loud\nno event\n" {
		t.Errorf("shown: %q", got)
	}
	out.Reset()
	r.summarize(&out)
	for _, want := range []string{"1 tests passed, 1 failed, 1 were skipped\n", "1 skipped, this needs root: e2e.TestC\n", "left out: 1 tests", "make test-all"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
}

func TestSkipsMustBeListed(t *testing.T) {
	var out bytes.Buffer
	r := taken(&out)
	for list, want := range map[string]bool{
		"":                               false,
		"user e2e.TestC this needs root": true,
		"user e2e.Test[CD] this needs":   true,
		"# only a comment\n\nuser e2e.TestC this needs root": true,
		"root e2e.TestC this needs root":                     false, // of another kind of user
		"user e2e.Test this needs root":                      false, // the beginning of a name is another name
		"user e2e.TestC this needs a shell":                  false, // for another reason
	} {
		all, err := parseSkips(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.judge(&out, all, "user"); got != want {
			t.Errorf("%q: %v", list, got)
		}
	}
	if r.judge(&out, nil, "nonsense") {
		t.Error("there is no such kind of user")
	}
}

func TestMistakesInTheListAreTold(t *testing.T) {
	for _, list := range []string{"user", "user e2e.TestC", "nobody e2e.TestC reason", "user ( reason"} {
		if _, err := parseSkips(list); err == nil {
			t.Errorf("%q was taken", list)
		}
	}
	text, err := os.ReadFile("skips.txt")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parseSkips(string(text)); err != nil {
		t.Error(err)
	}
}

// A test that is new is on no list, whatever it needs: it must be named.
func TestNewTestsAreNotListed(t *testing.T) {
	list, err := parseSkips(skipList)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		for _, pkg := range []string{"e2e", "cgroup", "teardown", "proc", "session", "delegate", "supervise"} {
			for _, name := range []string{"TestSomethingNew", "TestSomethingNew/case", "TestTrees/zombies/cgroup=auto", "TestServerFinds/pipe"} {
				if a.allows(a.kind, test{pkg, name}, a.why) {
					t.Errorf("%s.%s may be skipped by %s: %s", pkg, name, a.kind, a.tests)
				}
			}
		}
	}
}
