package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The model and the code are compared by replaying: the log of a session must be one of the model's runs (replay.pml).

//go:embed replay.pml
var replays string

// The processes of the model, by their numbers there. All but the gateway and the sweep are there twice.
const (
	gateway    = 0
	front      = 1
	host       = 3
	anchor     = 5
	supervisor = 7
	sweep      = 9
)

// most is how many sessions and fronts the model has.
const most = 2

// roles are the processes that a line of a test means.
func roles() map[string][]int {
	return map[string][]int{
		"gateway": {gateway}, "front": {front, front + 1}, "host": {host, host + 1}, "anchor": {anchor, anchor + 1},
		"supervisor": {supervisor, supervisor + 1}, "server": {supervisor, supervisor + 1},
		"client": {anchor, anchor + 1, front, front + 1}, "sweep": {sweep}, "": {0},
	}
}

// step is a step of the model that the code logs, or something that a test does.
type step struct {
	name    string
	number  int
	test    bool
	message string
	fields  map[string]string
}

// steps reads the table from replay.pml.
func steps() (all []step) {
	line := regexp.MustCompile(`(?m)^#define (\w+) (\d+) +/\* (LOG|TEST) ([^:*]*?):? *((?:\w+=\S+ )*)\*/$`)
	for _, m := range line.FindAllStringSubmatch(replays, -1) {
		s := step{name: m[1], test: m[3] == "TEST", message: strings.TrimSpace(m[4]), fields: map[string]string{}}
		s.number, _ = strconv.Atoi(m[2])
		for _, f := range strings.Fields(m[5]) {
			key, value, _ := strings.Cut(f, "=")
			s.fields[key] = value
		}
		all = append(all, s)
	}
	return all
}

// event is a line of a log.
type event map[string]any

func (e event) text(key string) string { s, _ := e[key].(string); return s }

// matches reports whether the event is this step.
func (s step) matches(e event) bool {
	if s.test != (e["test"] != nil) || s.test && s.message != e.text("test") || !s.test && s.message != e.text("message") {
		return false
	}
	for key, value := range s.fields {
		if e.text(key) != value {
			return false
		}
	}
	return true
}

// trace is a log as the model takes it.
type trace struct {
	name  string
	kind  int
	free  bool // no test tells of faults, so any may have come
	lines []said
	// fronts and sessions are how many there are, 1 at least.
	fronts, sessions int
}

// said is a step of a process, and the line of the log.
type said struct {
	step    step
	process int
	event   event
}

// readEvents reads the lines that are events. A server may have written others.
func readEvents(b []byte) (all []event) {
	for line := range bytes.Lines(b) {
		var e event
		if json.Unmarshal(line, &e) == nil && (e["session"] != nil || e["test"] != nil) {
			all = append(all, e)
		}
	}
	return all
}

// outside says why the model has nothing like what a session tells; "" if it may have.
func outside(e event) string {
	survivors, _ := e["survivors"].([]any)
	kept, _ := e["kept"].([]any)
	switch level := e.text("level"); {
	case len(survivors) > 0, e["leaked"] == true:
		return "something survives"
	case len(kept) > 0:
		return "a process is kept"
	case e.text("message") == "signalled" && e["error"] != nil:
		return "a signal fails"
	case e.text("message") == "server ended by itself", e.text("message") == "the server's session has not ended in time",
		e.text("message") == "log goes to standard error":
		return ""
	case level == "warn", level == "error":
		return e.text("message")
	}
	return ""
}

// reader makes a trace of events.
type reader struct {
	table    []step
	fronts   []string // sessions that are fronts
	sessions []string
	// recovers says that the anchor of the session has taken over; signalled is the last signal of a process.
	recovers  map[string]bool
	signalled map[int]int
}

// makeTrace reads a log. why says that the model has nothing like that.
func makeTrace(name string, events []event) (t trace, why string) {
	t = trace{name: name, free: true}
	r := reader{table: steps(), recovers: map[string]bool{}, signalled: map[int]int{}}
	plain, alone, shared := false, false, false
	for _, e := range events {
		if why = outside(e); why != "" {
			return t, why
		}
		id, behind := e.text("session"), e.text("behind")
		if id == "" {
			t.free = false
			shared = shared || e.text("kind") == worlds[2]
			if e.text("kind") == worlds[1] {
				t.kind = 1
			}
			continue
		}
		switch {
		case e.text("message") != "server started":
		case e["shared"] == true:
			shared = true
		case behind == "":
			plain = true // whatever the test has asked for
		default:
			alone = true
			r.note(&r.fronts, behind)
		}
		if isFront(e) {
			r.note(&r.fronts, id)
		}
	}
	switch {
	case plain && !alone:
		t.kind = 0
	case shared && alone:
		return t, "a session without the shared server"
	case shared:
		t.kind = 2
	case len(r.fronts) > 0:
		t.kind = 1
	}
	for _, e := range events {
		if id := e.text("session"); id != "" && !slices.Contains(r.fronts, id) {
			r.note(&r.sessions, id)
		}
	}
	if len(r.sessions) > most || len(r.fronts) > most || t.kind == 1 && len(r.fronts) > 1 {
		return t, fmt.Sprintf("%d starts and %d fronts", len(r.sessions), len(r.fronts))
	}
	t.fronts, t.sessions = max(len(r.fronts), 1), max(len(r.sessions), 1)
	for _, e := range events {
		t.lines = append(t.lines, r.read(e)...)
	}
	return t, ""
}

// isFront reports whether a front has logged the event.
func isFront(e event) bool {
	switch e.text("message") {
	case "server sleeps", "server woken", "server restarted", "server ended by itself", "the server's session has not ended in time":
		return true
	}
	return e["sleeps"] != nil
}

func (r *reader) note(list *[]string, id string) {
	if !slices.Contains(*list, id) {
		*list = append(*list, id)
	}
}

// read gives the steps that an event stands for.
func (r *reader) read(e event) (out []said) {
	at := slices.IndexFunc(r.table, func(s step) bool { return s.matches(e) })
	if at < 0 {
		return nil
	}
	s := r.table[at]
	if s.test {
		for _, p := range roles()[e.text("role")] {
			out = append(out, said{s, p, e})
		}
		return out
	}
	p := r.process(e)
	if s.name == "SIGTERMS" || s.name == "SIGKILLS" {
		// The model signals all at once, and what is dying once.
		if r.signalled[p] == s.number {
			return nil
		}
		r.signalled[p] = s.number
	}
	return []said{{s, p, e}}
}

// process says which process of the model has logged an event.
func (r *reader) process(e event) int {
	id := e.text("session")
	if n := slices.Index(r.fronts, id); n >= 0 {
		return front + n
	}
	switch e.text("cause") {
	case "supervisor-gone":
		r.recovers[id] = true
		return anchor + slices.Index(r.sessions, id)
	case "":
		if r.recovers[id] {
			return anchor + slices.Index(r.sessions, id)
		}
	}
	return supervisor + slices.Index(r.sessions, id)
}

// player has the program that searches the model for the end of a log.
type player struct {
	dir string
}

// newPlayer builds the program.
func newPlayer(dir string) (player, error) {
	return player{dir}, compile(dir, "replay", []string{"-DREPLAY"}, "-DVECTORSZ=1024", "-DMEMLIM=1000")
}

// came says how many lines of a log the model takes, with a planted mistake or with 0.
func (p player) came(t trace, bug int) (int, error) {
	var words []string
	faults := 2
	if t.free {
		words = everything()
	} else {
		faults = 10 // They come where the log has them only.
	}
	free := len(words)
	for _, l := range t.lines {
		words = append(words, fmt.Sprintf("%d %d", l.step.number, l.process))
	}
	if len(words) > 250 {
		return 0, fmt.Errorf("%s: %d lines are more than the model can take", t.name, len(words))
	}
	cmd := exec.Command("./replay", "-m10000", "-w18", "-A") // Assertions are for the search.
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("KIND=%d", t.kind), fmt.Sprintf("BUG=%d", bug), fmt.Sprintf("FAULTS=%d", faults), "RICH=1",
		fmt.Sprintf("FRONTS=%d", t.fronts), fmt.Sprintf("TWINS=%d", t.sessions-1),
		"TRACE="+strings.Join(words, " ")+" 0 0")
	out, err := cmd.CombinedOutput()
	n, convErr := strconv.Atoi(first(out, `came to (\d+)`))
	if convErr != nil || n < len(words) && !bytes.Contains(out, []byte("errors: 0")) || bytes.Contains(out, []byte("Search not completed")) {
		return 0, fmt.Errorf("replay %s: %w\n%s", t.name, errors.Join(err, convErr), out)
	}
	return max(n-free, 0), nil
}

// everything lets all happen that a test may do.
func everything() (words []string) {
	for _, s := range steps() {
		if s.test && s.name != "NOTHING" {
			for p := gateway; p <= sweep; p++ {
				words = append(words, fmt.Sprintf("%d %d", s.number, p))
			}
		}
	}
	return words
}

// refusal says which line the model cannot take, and what it could have.
func (p player) refusal(t trace, n int) string {
	l := t.lines[n]
	line, _ := json.Marshal(l.event)
	var may []string
	for _, s := range steps() {
		for at := front; at < sweep && !s.test; at++ {
			if !slices.ContainsFunc(t.lines, func(l said) bool { return l.process == at && !l.step.test }) {
				continue
			}
			other := t
			other.lines = append(slices.Clone(t.lines[:n]), said{step: s, process: at})
			if m, err := p.came(other, 0); err == nil && m > n {
				may = append(may, s.name+" of "+process(at))
			}
		}
	}
	return fmt.Sprintf("%s: line %d of %d is no step of the model: %s of %s\n  %s\n  It could take: %s", t.name, n+1, len(t.lines), l.step.name, process(l.process), line, strings.Join(may, ", "))
}

func process(n int) string {
	for name, all := range roles() {
		if at := slices.Index(all, n); at >= 0 && name != "client" && name != "server" && name != "" {
			return fmt.Sprintf("%s %d", name, at)
		}
	}
	return strconv.Itoa(n)
}

// replayAll replays the logs in files, or in the files of directories. Then come mistakes in them, if asked for.
func replayAll(dir string, names []string, mistakes bool) error {
	p, err := newPlayer(dir)
	if err != nil {
		return err
	}
	logs, err := readLogs(names)
	if err != nil {
		return err
	}
	results := make([]error, len(logs))
	each(len(logs), func(i int) { results[i] = p.take(logs[i]) })
	if err := errors.Join(results...); err != nil {
		return err
	}
	fmt.Printf("%d logs are runs of the model\n", len(logs))
	if !mistakes {
		return nil
	}
	return p.control(logs)
}

// log is one that the model may take, and what was read.
type log struct {
	trace
	events []event
}

// readLogs reads the files, and says what is left out.
func readLogs(names []string) (logs []log, err error) {
	left := map[string]int{}
	read := func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(file)
		for _, events := range apart(readEvents(b)) {
			t, why := makeTrace(file, events)
			if why != "" {
				left[why]++
				continue
			}
			logs = append(logs, log{t, events})
		}
		return err
	}
	for _, name := range names {
		if err := filepath.WalkDir(name, read); err != nil {
			return nil, fmt.Errorf("read the logs in %s: %w", name, err)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		fmt.Printf("%d left out: %s\n", left[why], why)
	}
	return logs, nil
}

// take fails if the model does not take a log.
func (p player) take(l log) error {
	n, err := p.came(l.trace, 0)
	if err == nil && n < len(l.lines) {
		err = errors.New(p.refusal(l.trace, n))
	}
	return err
}

// each does something n times, as often at once as there are processors.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	free := make(chan bool, runtime.NumCPU())
	for i := range n {
		free <- true
		all.Go(func() {
			do(i)
			<-free
		})
	}
	all.Wait()
}

// apart takes the sessions of a log apart that have nothing to do with each other. A test tells of one gateway.
func apart(events []event) [][]event {
	behind := map[string]string{}
	for _, e := range events {
		if e["test"] != nil {
			return [][]event{events}
		}
		if b := e.text("behind"); b != "" {
			behind[e.text("session")] = b
		}
	}
	var order []string
	groups := map[string][]event{}
	for _, e := range events {
		id := e.text("session")
		if b := behind[id]; b != "" {
			id = b
		}
		if groups[id] == nil {
			order = append(order, id)
		}
		groups[id] = append(groups[id], e)
	}
	var out [][]event
	for _, id := range order {
		out = append(out, groups[id])
	}
	return out
}
