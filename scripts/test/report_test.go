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
	r.tellLeftOut(&out)
	for _, want := range []string{"1 tests passed, 1 failed, 1 were skipped\n", "1 skipped, this needs root: e2e.TestC\n", "left out: 1 tests", "make test-all"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %q", want, out.String())
		}
	}
}

// The race detector may speak while a test runs that has nothing to do with it, and passes.
func TestReportShowsRaces(t *testing.T) {
	var out bytes.Buffer
	r := newReport()
	for _, line := range []string{
		event1("run", "TestA", ""), event1("output", "TestA", raceFound), event1("output", "TestA", "Read at 0x1\n"), event1("pass", "TestA", ""),
	} {
		r.take(line, &out)
	}
	if got := out.String(); got != raceFound+"Read at 0x1\n" {
		t.Errorf("shown: %q", got)
	}
}

// A test with subtests takes what they take together, and nothing is counted twice.
func TestSlowest(t *testing.T) {
	var out bytes.Buffer
	r := newReport()
	for _, line := range []string{
		event1("run", "TestA", ""), event1("run", "TestA/one", ""), event1("run", "TestA/two", ""), event1("run", "TestB", ""), event1("run", "TestC", ""),
		took("TestA/one", 2), took("TestA/two", 1.5), took("TestA", 3.5), took("TestB", 3), took("TestC", 4),
	} {
		r.take(line, &out)
	}
	r.tellSlowest(&out, 2)
	if got, want := out.String(), "     4.0 s  e2e.TestC\n     3.5 s  e2e.TestA\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	out.Reset()
	r.tellSlowest(&out, 9)
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("it names %d tests, want 3", got)
	}
}

// took is the event of a test that has passed after so many seconds.
func took(name string, seconds float64) string {
	return fmt.Sprintf(`{"Action":"pass","Package":"mcp-tether/e2e","Test":%q,"Elapsed":%v}`+"\n", name, seconds)
}

// The line points to a heading that there is.
func TestLeftOutPointsToTheDocs(t *testing.T) {
	var out bytes.Buffer
	r := taken(&out)
	out.Reset()
	r.tellLeftOut(&out)
	_, place, _ := strings.Cut(out.String(), "(")
	file, heading, _ := strings.Cut(strings.TrimSuffix(place, "\")\n"), ", \"")
	text, err := os.ReadFile("../../" + file)
	if err != nil || heading == "" || !strings.Contains(string(text), "\n## "+heading+"\n") {
		t.Errorf("%s has no heading %q: %v", file, heading, err)
	}
}

// Only some of many names are shown, and the rest is counted.
func TestRestOfSkipsIsCounted(t *testing.T) {
	var all []test
	for i := range shown + 53 {
		all = append(all, test{"x", fmt.Sprint("Test", i)})
	}
	if got := named(all); !strings.HasSuffix(got, " and 53 more") {
		t.Error(got)
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
		"root,user e2e.TestC this needs root":                true,
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
	for _, list := range []string{"user", "user e2e.TestC", "nobody e2e.TestC reason", "user,nobody e2e.TestC reason", "user ( reason"} {
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
			for _, name := range []string{"TestSomethingNew", "TestSomethingNew/case", "TestTrees/zombies/cgroup=auto", "TestServerFinds/pipe",
				"TestReapSomethingNew", "TestPsSomethingNew", "TestHeldByNewIsSuspect", "TestSeveredAnew", "TestSurplusOfNew"} {
				if a.allows(test{pkg, name}, a.why) {
					t.Errorf("%s.%s may be skipped by %s: %s", pkg, name, a.kind, a.tests)
				}
			}
		}
	}
}

// A failure is taken back if the test passes by itself, and so are those of the tests that it is part of. The failure
// of a test that fails again, with its own seed or with another, stays. Nothing is taken back where a package did not
// run to its end or a role is idle.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/go.mod", "module mcp-tether/x\n\ngo 1.24\n")
	write(t, dir+"/x_test.go", `package x

import (
	"flag"
	"os"
	"testing"
)

func TestTop(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		t.Log("MCP_TETHER_SEED=" + seed())
		if f, err := os.OpenFile("seen", os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			t.Fatal("the first time")
		}
	})
	t.Run("fine", func(t *testing.T) {})
}

func seed() string {
	if s := os.Getenv("MCP_TETHER_SEED"); s != "" {
		return s
	}
	return "7"
}

func TestAlways(t *testing.T) {
	if os.Getenv("ALWAYS") != "" {
		t.Fatal("always")
	}
}

// By itself it fails only with the seed of its first failure, or only in the last of a few runs.
func TestRarely(t *testing.T) {
	_, err := os.Stat("rarely")
	first := err != nil && os.WriteFile("rarely", nil, 0o600) == nil
	t.Log("MCP_TETHER_SEED=" + seed())
	if os.Getenv("BY_SEED") != "" && (first || os.Getenv("MCP_TETHER_SEED") == "7") {
		t.Fatal("with seed 7")
	}
	if runs++; os.Getenv("THIRD") != "" && (first || runs == 3) {
		t.Fatal("one of three")
	}
}

var runs int

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("IDLE") != "" && flag.Lookup("test.run").Value.String() == "" {
		println("roles that no test has used: some")
		code = 1
	}
	os.Exit(code)
}

func TestPanics(t *testing.T) {
	if os.Getenv("PANICS") != "" {
		panic("told")
	}
}
`)
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	args := []string{"go", "test", "-json", "-count=1", "-vet=off"}
	for _, c := range []struct {
		variable string
		held     bool
	}{{"", true}, {"ALWAYS", false}, {"PANICS", false}, {"BY_SEED", false}, {"THIRD", false}, {"IDLE", false}} {
		_, _ = os.Remove("seen"), os.Remove("rarely")
		if c.variable != "" {
			t.Setenv(c.variable, "1")
		}
		var out bytes.Buffer
		r, err := run(append(args, "./..."), &out)
		if err == nil || r.count(r.failed) == 0 {
			t.Fatalf("%s: nothing failed: %s", c.variable, out.String())
		}
		if got := r.runAgain(args, &out); got != c.held {
			t.Errorf("%s: %v, want %v\n%s", c.variable, got, c.held, out.String())
		}
		if c.held && (len(r.failed) > 0 || len(r.unsteady) != 1 || r.unsteady[0].name != "TestTop/once") {
			t.Errorf("failed %v, unsteady %v", r.failed, r.unsteady)
		}
		if r.summarize(&out); c.held && !strings.Contains(out.String(), "unsteady: x.TestTop/once failed, and passed when it was run again by itself, MCP_TETHER_SEED=7 and 3 times") {
			t.Errorf("the report:\n%s", out.String())
		}
		if c.variable == "BY_SEED" && !strings.Contains(out.String(), "failed again: x.TestRarely MCP_TETHER_SEED=7\n") {
			t.Errorf("the report:\n%s", out.String())
		}
		if c.variable != "" {
			t.Setenv(c.variable, "")
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
