package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// played feeds a report with what go test -json says of one package: ACTION TEST TEXT.
func played(t *testing.T, lines ...string) (shown, told string) {
	t.Helper()
	r := newReport()
	var during, after strings.Builder
	for _, line := range lines {
		words := strings.SplitN(line, " ", 3)
		e := event{Action: words[0], Package: "mcp-tether/internal/room"}
		if len(words) > 1 {
			e.Test = words[1]
		}
		if len(words) > 2 {
			e.Output = words[2] + "\n"
		}
		b, err := json.Marshal(e)
		if err != nil || json.Unmarshal(b, &e) != nil {
			t.Fatal(err)
		}
		r.add(e, &during)
	}
	r.tell(&after, 0)
	return during.String(), after.String()
}

func TestReport(t *testing.T) {
	shown, told := played(t,
		"run TestA", "output TestA quiet", "pass TestA",
		"run TestB", "run TestB/one", "output TestB/one     b_test.go:7: loud", "fail TestB/one", "fail TestB",
		"run TestC", "output TestC === RUN   TestC", "output TestC     c_test.go:9: this needs root", "output TestC > need root", "output TestC --- SKIP: TestC (0.00s)", "skip TestC",
		"run TestD", "output TestD     d_test.go:9: time (make test-all)", "skip TestD",
		"output  FAIL", "fail",
	)
	if shown != "FAIL  room                            0.0 s\n" {
		t.Errorf("while they run: %q", shown)
	}
	want := "\nFAIL room TestB/one\n    b_test.go:7: loud\n\n1 passed, 1 failed, 2 skipped\nleft out here: root (1), time (make test-all) (1)\n"
	if told != want {
		t.Errorf("at the end: %q, want %q", told, want)
	}
}

// The last lines of a long log are shown, and of a test that passed none.
func TestReportIsBrief(t *testing.T) {
	lines := append([]string{"run TestA"}, strings.Split(strings.Repeat("output TestA more,", 3*tail), ",")...)
	_, told := played(t, append(lines[:len(lines)-1], "fail TestA")...)
	if n := strings.Count(told, "more\n"); n != tail || !strings.Contains(told, "(80 lines before)") {
		t.Errorf("%d lines: %q", n, told)
	}
}

// What fails without a test that does: a process that ends while a test runs, and a race that is found while another passes.
func TestReportMissesNothing(t *testing.T) {
	for want, lines := range map[string][]string{
		"panic: oh": {"run TestA", "output TestA panic: oh", "output  FAIL", "fail"},
		"no tests":  {"output  no tests for want of a processor", "output  FAIL", "fail"},
		"at 0x1":    {"run TestA", "output TestA " + strings.TrimSpace(raceFound), "output TestA Read at 0x1", "pass TestA", "pass"},
	} {
		if _, told := played(t, lines...); !strings.Contains(told, want) || !strings.Contains(told, "1 failed") {
			t.Errorf("%q is not in %q", want, told)
		}
	}
}
