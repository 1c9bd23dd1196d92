package reap

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/proc"
)

const containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func sample() Report {
	return Report{
		Version: display.SchemaVersion, Began: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Warnings: []string{},
		Findings: []Finding{
			{
				Class: classRecord, Session: "00112233445566ff", Top: proc.ID{PID: 10, Start: 5}, Members: []proc.ID{{PID: 10, Start: 5}, {PID: 11, Start: 6}},
				Command: []string{"server", "<a&b>"}, Gateway: gateway{ID: proc.ID{PID: 9, Start: 1}, State: "dead"}, Evidence: []string{"the lease is free", "and more"},
				shown: shown{Name: "files", AgeSeconds: 3725, MemoryBytes: 3 << 29, User: "root"}, outcome: outcome{Result: "listed"},
			},
			{
				Class: classSevered, Top: proc.ID{PID: 20, Start: 7}, Members: []proc.ID{{PID: 20, Start: 7}}, UID: 1000,
				Command: []string{"npx", "x"}, Gateway: gateway{State: "dead"}, Evidence: []string{"nobody"},
				shown: shown{Name: "x", AgeSeconds: 59, MemoryBytes: 5 << 20, User: "u"}, outcome: outcome{Result: "listed"},
			},
			{
				Class: classSurplus, Members: []proc.ID{}, Command: []string{"y"}, Gateway: gateway{State: "alive"}, Evidence: []string{"12 servers"},
				shown: shown{Name: "y", Count: 12, Advice: "restart it", User: "u"}, outcome: outcome{Result: "listed"},
			},
			{Class: classCgroup, Session: "ffffffffffffffff", Members: []proc.ID{}, Command: []string{}, Evidence: []string{"empty"}, outcome: outcome{Result: "removed"}},
			{
				Class: classContainer, Session: "00112233445566ff", Members: []proc.ID{}, Command: []string{"mcp/x"}, Gateway: gateway{State: "dead"}, Evidence: []string{"its label"},
				shown: shown{AgeSeconds: 61}, outcome: outcome{Result: "listed"},
				Containers: []display.Container{
					{Engine: "unix:///e", Kind: engine.Container, ID: containerID, Name: "w\x1bb", Image: "mcp/x", State: "running", Result: "listed"},
					{Engine: "unix:///e", Kind: engine.Network, ID: containerID, Result: "listed"},
				},
			},
		},
	}
}

func TestReportText(t *testing.T) {
	var b strings.Builder
	if err := sample().Text(&b); err != nil {
		t.Fatal(err)
	}
	const want = `CLASS      PID  PROCS  AGE    MEMORY  USER  GATEWAY   RESULT   COMMAND
record     10   2      1h02m  1.5G    root  9 (dead)  listed   server <a&b>
severed    20   1      59s    5M      u     dead      listed   npx x
surplus    -    0      0s     0K      u     alive     listed   y
cgroup     -    0      0s     0K                      removed  
container  -    0      1m01s  0K            dead      listed   mcp/x

record pid 10: the lease is free; and more

severed pid 20: nobody

surplus y: 12 servers
  restart it

cgroup session ffffffffffffffff: empty

container session 00112233445566ff: its label
  container w?b (mcp/x, running): listed
  network 0123456789ab: listed

3 proven: 'mcp-tether reap --kill' ends them.

1 severed: 'mcp-tether reap --kill --unwrapped' ends them as well.
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// After a kill nothing is advised that was done already.
func TestReportTextKilled(t *testing.T) {
	r := sample()
	r.Killed = true
	r.Findings[0].Result, r.Findings[0].Survivors = "survived", []string{"pid 10 (x): will not"}
	var b strings.Builder
	if err := r.Text(&b); err != nil || strings.Contains(b.String(), "reap --kill'") || !strings.Contains(b.String(), "still there: pid 10 (x): will not") {
		t.Errorf("%v\n%s", err, b.String())
	}
	const more = "1 severed: 'mcp-tether reap --kill --unwrapped'"
	if !strings.Contains(b.String(), more) {
		t.Errorf("the kill left a server that was never wrapped, and no word of it:\n%s", b.String())
	}
	r.Findings[1].Result = "ended"
	b.Reset()
	if err := r.Text(&b); err != nil || strings.Contains(b.String(), "--kill") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// The keys are what scripts read: they may be added to, never changed within a version.
func TestReportJSON(t *testing.T) {
	var b strings.Builder
	if err := sample().JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version  int
		Began    string
		Killed   *bool
		Warnings []string
		Findings []map[string]any
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Version != 1 || got.Began != "2026-03-04T05:06:07Z" || got.Killed == nil || got.Warnings == nil || len(got.Findings) != 5 {
		t.Errorf("%+v", got)
	}
	f := got.Findings[0]
	for _, key := range []string{
		"class", "session", "name", "top", "members", "uid", "command", "gateway", "evidence", "age_seconds", "memory_bytes", "user", "result",
	} {
		if _, ok := f[key]; !ok {
			t.Errorf("no %s in %v", key, f)
		}
	}
	if _, ok := f["containers"]; ok {
		t.Error("a finding without containers speaks of them")
	}
	boxes, _ := got.Findings[4]["containers"].([]any)
	if len(boxes) != 2 {
		t.Fatalf("%v", got.Findings[4])
	}
	for key, want := range map[string]string{
		"engine": "unix:///e", "kind": "container", "id": containerID, "name": "w\x1bb", "image": "mcp/x", "state": "running", "result": "listed",
	} {
		if got := boxes[0].(map[string]any)[key]; got != want {
			t.Errorf("%s: %v, want %q", key, got, want)
		}
	}
	if top := f["top"].(map[string]any); top["pid"] != 10.0 || top["start"] != 5.0 {
		t.Errorf("top %v", top)
	}
	if g := f["gateway"].(map[string]any); g["pid"] != 9.0 || g["state"] != "dead" {
		t.Errorf("gateway %v", g)
	}
	if !strings.Contains(b.String(), "<a&b>") {
		t.Error("a command line was escaped as for HTML")
	}
	if strings.Contains(b.String(), "null") {
		t.Error("a list is null, not empty:\n" + b.String())
	}
}

func TestReportLeft(t *testing.T) {
	r := Report{}
	for _, result := range []string{"listed", "ended", "survived", "removed", "failed"} {
		r.Findings = append(r.Findings, Finding{outcome: outcome{Result: result}})
	}
	if r.Left() != 3 {
		t.Errorf("%d left", r.Left())
	}
}

// Whatever others named their processes, files and sessions: nothing of it may reach a terminal as a control sequence.
func TestReportTextControls(t *testing.T) {
	const evil = "a\x1b[2J\u009b31m\r\nb"
	r := Report{Findings: []Finding{{
		Class: classCgroup, Command: []string{evil}, Evidence: []string{"cgroup /sys/fs/cgroup/" + evil}, shown: shown{Name: evil, User: "u"},
		outcome: outcome{Survivors: []string{"pid 7 (" + evil + "): will not"}}, Gateway: gateway{State: "dead", Command: evil},
	}}}
	var b strings.Builder
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	noControls(t, b.String())
}

func noControls(t *testing.T, s string) {
	t.Helper()
	for _, c := range s {
		if c != '\n' && unicode.IsControl(c) {
			t.Errorf("%q in %q", c, s)
			return
		}
	}
}

func TestMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tether.prom")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := sample()
	r.Findings[0].Result = "survived"
	r.Findings[1].Result = "ended"
	if err := r.Metrics(file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`mcp_tether_findings{class="record"} 1`, `mcp_tether_findings{class="mark"} 0`, `mcp_tether_findings{class="cgroup"} 0`,
		`mcp_tether_findings{class="severed"} 0`, `mcp_tether_findings{class="surplus"} 1`, `mcp_tether_processes{class="record"} 2`,
		`mcp_tether_containers{class="container"} 2`, `mcp_tether_containers{class="record"} 0`, `mcp_tether_ended 2`, `mcp_tether_last_pass_seconds 1772600767`,
	} {
		if !strings.Contains(string(b), "\n"+line+"\n") {
			t.Errorf("no %s in\n%s", line, b)
		}
	}
	declared := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			declared[f[2]] = true
			continue
		}
		if name, _, _ := strings.Cut(f[0], "{"); !declared[name] || len(f) != 2 {
			t.Errorf("undeclared or odd: %s", line)
		}
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// What cannot be replaced stays as it was, and nothing else is left.
func TestMetricsFails(t *testing.T) {
	dir := t.TempDir()
	if err := (Report{}).Metrics(filepath.Join(dir, "none", "x.prom")); err == nil {
		t.Error("written into a directory that is not there")
	}
	taken := filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (Report{}).Metrics(taken); err == nil {
		t.Error("a directory was replaced")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
