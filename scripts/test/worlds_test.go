package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWorlds(t *testing.T) {
	list, err := parseWorlds(worldList)
	if err != nil || len(list.all) < 10 {
		t.Fatalf("%d worlds, %v", len(list.all), err)
	}
	for _, w := range list.all {
		for kind := range strings.SplitSeq(w.as, ",") {
			if !slices.Contains(kinds, kind) {
				t.Errorf("%s: there is no kind %s", w.name, kind)
			}
		}
	}
	for _, e := range list.e2e {
		list.without = append(list.without, `e2e\.`+e)
	}
	// Tests that are renamed or removed leave this list as well.
	for _, e := range list.without {
		names, err := namesOf(regexp.MustCompile(e))
		if err != nil {
			t.Errorf("%s: %v", e, err)
		}
		for _, name := range names {
			if !exists(t, name) {
				t.Errorf("there is no test %s", name)
			}
		}
	}
	for _, bad := range []string{"name vm\n", "without reap\\.TestModel\n"} {
		if _, err := parseWorlds(bad); err == nil {
			t.Errorf("%q was taken for a line", bad)
		}
	}
}

// A world that fails fails the tour, and the others are still visited. The table has what each has told.
func TestTour(t *testing.T) {
	list, err := parseWorlds("a-1 vm -kernel 5.10 -diag no\nb-1 vm -arch arm64 -cgroup v1\nb-2 vm,root -user plain -proc hidepid\n")
	if err != nil {
		t.Fatal(err)
	}
	for only, want := range map[string]string{"a": "a-1", "-": "a-1 b-1 b-2", "b-2,a": "a-1 b-2", "c": ""} {
		var names []string
		for _, w := range chosen(list.all, only) {
			names = append(names, w.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q instead of %q", only, got, want)
		}
	}
	for _, failing := range []string{"", "a-1"} {
		var out bytes.Buffer
		good := tour(list.all, &out, func(w world) (*report, bool) {
			r := taken(&bytes.Buffer{})
			r.stderr.WriteString("vm: Linux 5.10.0-46-cloud-amd64\n")
			return r, w.name != failing
		})
		if good != (failing == "") {
			t.Errorf("with %q failing: %v", failing, good)
		}
		for _, want := range []string{
			"== a-1 " + map[bool]string{true: "passed", false: "FAILED"}[good] + ": ", "\n| amd64 | 5.10.0-46 | v2 | root | open | not listed | 1 | 1 | 1 | 0 |\n",
			"\n| arm64 | 5.10.0-46 | v1 | root | open | listed | ", "\n| amd64 | 5.10.0-46 | v2 | plain | hidepid | listed | ",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in %s", want, out.String())
			}
		}
	}
}

// What was running when its machine ended is named.
func TestCutOff(t *testing.T) {
	var out bytes.Buffer
	r := taken(&out)
	r.take(event1("run", "TestE", ""), &out)
	r.take(event1("output", "TestE", "=== RUN   TestE\n"), &out)
	r.summarize(&out)
	if !strings.Contains(out.String(), "did not end: e2e.TestE\n") {
		t.Error(out.String())
	}
}

// What the table in the documents says was said of a world of today, and nothing failed there.
func TestKernelsAreOfToday(t *testing.T) {
	b, err := os.ReadFile("../../docs/kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseWorlds(worldList)
	if err != nil {
		t.Fatal(err)
	}
	// But for the rest of the kernel's version, and the figures.
	row := regexp.MustCompile(`^(\| \w+ \| \d+\.\d+)\S* (\|.*) \| \d+ \| 0 \| \d+ \| \d+ \|$`)
	var worlds []string
	for _, w := range list.all {
		m := row.FindStringSubmatch(strings.TrimSuffix(w.row(newReport(), time.Second), "\n"))
		worlds = append(worlds, m[1]+m[2])
	}
	_, table, _ := strings.Cut(string(b), tableHead)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.SplitSeq(table, "\n") {
		if m := row.FindStringSubmatch(line); m == nil || !slices.Contains(worlds, m[1]+m[2]) {
			t.Errorf("docs/kernels.md says %s", line)
		}
	}
}
