package reap

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const examples = "../scripts/packaging/examples/"

var (
	metricName    = regexp.MustCompile(`mcp_tether_\w+`)
	selectedClass = regexp.MustCompile(`class=~?\\?"([^"\\]*)`)
)

// The alert rules ask for metrics and classes that a pass writes.
func TestExamplesUseMetricsThatAreWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "metrics")
	if err := (Report{}).Metrics(file); err != nil {
		t.Fatal(err)
	}
	written := read(t, file)
	alerts := read(t, examples+"alerts.yaml")
	if used := metricName.FindAllString(alerts, -1); len(used) < 4 {
		t.Errorf("they use only %q", used)
	}
	if odd := neverWritten(alerts, written); odd != nil {
		t.Errorf("never written: %q", odd)
	}
	// The control.
	for _, change := range [][2]string{{"mcp_tether_incomplete", "mcp_tether_missed"}, {"|mark|", "|marks|"}} {
		made := strings.Replace(alerts, change[0], change[1], 1)
		if odd := neverWritten(made, written); !slices.Equal(odd, []string{strings.Trim(change[1], "|")}) {
			t.Errorf("with %s: %q", change[1], odd)
		}
	}
}

// neverWritten are the metrics and the classes of a text that what is written has not.
func neverWritten(text, written string) (odd []string) {
	names := metricName.FindAllString(written, -1)
	for _, name := range metricName.FindAllString(text, -1) {
		if !slices.Contains(names, name) {
			odd = append(odd, name)
		}
	}
	for _, m := range selectedClass.FindAllStringSubmatch(text, -1) {
		for class := range strings.SplitSeq(m[1], "|") {
			if !strings.Contains(written, `class="`+class+`"`) {
				odd = append(odd, class)
			}
		}
	}
	return odd
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
