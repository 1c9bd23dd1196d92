package main

import (
	_ "embed"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:embed worlds.txt
var worldList string

// world is a virtual machine in which the tests run.
type world struct {
	name, as string
	options  []string // of scripts/vm
}

// worlds are what worlds.txt says.
type worlds struct {
	all     []world
	e2e     []string // the end-to-end tests that run there
	without []string // tests that do not, with their package
}

// parseWorlds reads the list: a world a line, with its name, its kinds of user and machine, and the options of scripts/vm. A
// line that begins with "e2e" names end-to-end tests that run, and one with "without" a test that does not, and why.
func parseWorlds(text string) (worlds, error) {
	var ws worlds
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case words[0] == "e2e":
			ws.e2e = append(ws.e2e, words[1:]...)
		case len(words) < 3:
			return ws, fmt.Errorf("worlds.txt: want NAME KINDS OPTIONS, or without TEST REASON, in %q", line)
		case words[0] == "without":
			ws.without = append(ws.without, words[1])
		default:
			ws.all = append(ws.all, world{words[0], words[1], words[2:]})
		}
	}
	return ws, nil
}

// skip matches the tests that no world runs.
func (ws worlds) skip() string {
	var names []string
	for _, test := range ws.without {
		_, name, _ := strings.Cut(test, `\.`)
		names = append(names, name)
	}
	return anyOf(names)
}

// anyOf matches the names that one of the expressions matches as a whole.
func anyOf(expressions []string) string {
	return "^(" + strings.Join(expressions, "|") + ")$"
}

// chosen are the worlds that one of the words, between commas, names or is part of the name of.
func chosen(worlds []world, only string) []world {
	return slices.DeleteFunc(slices.Clone(worlds), func(w world) bool {
		return !slices.ContainsFunc(strings.Split(only, ","), func(part string) bool { return strings.Contains(w.name, part) })
	})
}

// option is the value of an option of scripts/vm, or what that takes without it.
func (w world) option(name, otherwise string) string {
	if i := slices.Index(w.options, "-"+name); i >= 0 && i+1 < len(w.options) {
		return w.options[i+1]
	}
	return otherwise
}

// The head of the table, which has a row for each world.
const tableHead = "| processor | Linux | cgroups | user | /proc | Unix sockets | passed | failed | skipped | seconds |\n" +
	"|---|---|---|---|---|---|---|---|---|---|\n"

// kernelTold is what scripts/vm tells of the machine that it starts.
var kernelTold = regexp.MustCompile(`(?m)^vm: Linux (\S+)$`)

// row is what the tests of a world have told.
func (w world) row(r *report, took time.Duration) string {
	kernel := w.option("kernel", "6.12")
	if m := kernelTold.FindSubmatch(r.stderr.Bytes()); m != nil {
		kernel, _, _ = strings.Cut(string(m[1]), "-cloud")
	}
	listed := map[string]string{"yes": "listed", "no": "not listed"}[w.option("diag", "yes")]
	byReason, _ := r.skips()
	skipped := 0
	for _, tests := range byReason {
		skipped += len(tests)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %d | %d | %d | %.0f |\n", w.option("arch", "amd64"), kernel, w.option("cgroup", "v2"),
		w.option("user", "root"), w.option("proc", "open"), listed, r.count(r.passed), r.count(r.failed), skipped, took.Seconds())
}

// tour runs the tests in each world, one after the other. It prints a line for each as it ends, and then the table. It
// reports whether everything passed.
func tour(worlds []world, out io.Writer, try func(w world) (*report, bool)) bool {
	var table strings.Builder
	good := true
	for _, w := range worlds {
		fmt.Fprintf(out, "== %s: scripts/vm %s\n", w.name, strings.Join(w.options, " "))
		began := time.Now()
		r, ok := try(w)
		row := w.row(r, time.Since(began))
		table.WriteString(row)
		verdict := "passed"
		if !ok {
			verdict, good = "FAILED", false
		}
		fmt.Fprintf(out, "== %s %s: %s", w.name, verdict, row)
	}
	fmt.Fprint(out, "\n", tableHead, table.String())
	return good
}
