package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// past is a session as history shows it.
type past struct {
	ID, Name, Behind, Cause, Signal string
	Gateway                         identity
	GatewayComm                     string `json:"gateway_comm"`
	Started                         time.Time
	Seconds                         float64
	Args, Names, Left, Stderr       []string
	Exit, Ended, Killed             int
	Kept, Sleeps, Restarts          int
	PeakBytes                       uint64 `json:"peak_bytes"`
	Starts                          []past
	Open, Reaped                    bool
}

// ownHistory gives the sessions of a test a history of their own, and says how to read it.
func ownHistory(t *testing.T) (env string, read func(args ...string) outcome) {
	t.Helper()
	env = "XDG_STATE_HOME=" + t.TempDir()
	return env, func(args ...string) outcome {
		cmd := exec.Command(tether, append([]string{"history"}, args...)...)
		cmd.Env = []string{env}
		return finish(t, cmd)
	}
}

// wantPast reads so many sessions.
func wantPast(t *testing.T, read func(args ...string) outcome, n int) []past {
	t.Helper()
	o := read("--json")
	var list struct {
		Version  int
		Sessions []past
	}
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || o.code != 0 || list.Version != 1 || len(list.Sessions) != n {
		t.Fatalf("%d sessions, want %d; exit code %d, %v\n%s%s", len(list.Sessions), n, o.code, err, o.stdout, o.stderr)
	}
	return list.Sessions
}

// runIn runs a command below run with a history, and without a gateway of the test.
func runIn(t *testing.T, env []string, words ...string) outcome {
	t.Helper()
	cmd := exec.Command(tether, append([]string{"run"}, words...)...)
	cmd.Env = append(append(cmd.Environ(), "XDG_RUNTIME_DIR="+t.TempDir()), env...)
	return finish(t, cmd)
}

// A start that fails is in the history, a secret is not, nor is a session that was to be left out.
func TestHistoryHasStartsAndNoSecrets(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	runIn(t, []string{env}, "--", "/nonexistent/server", "--token", "hunter2")
	runIn(t, []string{env}, "--no-history", "--", "/bin/true")
	runIn(t, []string{env, "MCP_TETHER_NO_HISTORY=1"}, "--", "/bin/true")
	p := wantPast(t, read, 1)[0]
	if p.Cause != "start-failed" || p.Exit != 127 || strings.Contains(fmt.Sprint(p.Args), "hunter2") {
		t.Errorf("%+v", p)
	}
	runIn(t, []string{env}, "--", "/bin/sh", "-c", "exit 7")
	if p := wantPast(t, read, 2)[1]; p.Exit != 7 {
		t.Errorf("%+v", p)
	}
}

// A session of which both processes were killed is written by reap, unless it was to be left out.
func TestHistoryOfWhatReapEnds(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	env, read := ownHistory(t)
	for n, flags := range [][]string{deaf("--name=files"), deaf("--no-history")} {
		s := startGateway(t).newSession()
		s.shareRuntime()
		s.Spawn(setup{Flags: flags, Env: []string{env}}, node(s.Dir, "serve,ignore-eof", "daemon")...)
		s.WaitReady()
		s.WaitRecord()
		killPair(t, s.PID)
		s.gw.Kill()
		outgrow(t)
		caller{env: []string{env}}.run(t, "reap", "--kill")
		s.WaitDead()
		p := wantPast(t, read, 1)[0]
		if n == 0 && (p.ID != s.IDs[0] || !p.Reaped || p.Exit != -1 || p.Cause != "supervisor-gone" || p.Name != "files" || p.Ended == 0) {
			t.Errorf("%+v", p)
		}
	}
	if o := read(); !strings.Contains(o.stdout, "supervisor-gone, ended by reap  -") {
		t.Errorf("%q", o.stdout)
	}
}

// However often a server slept, its session is one line, with the sum of its starts.
func TestHistoryFoldsNaps(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	s := startGateway(t).mcpSession(setup{Flags: sleepy("--hibernate-anyway"), Env: []string{env}}, "serve", "daemon,comm=helper")
	s.greet()
	s.asleep(1)
	if p := wantPast(t, read, 1)[0]; !p.Open || len(p.Starts) != 1 || p.ID == p.Starts[0].ID {
		t.Errorf("while it sleeps: %+v", p)
	}
	s.wantAnswer(s.Ask(toolCall(1, "echo", "x")), 1)
	s.asleep(2)
	s.closeStdin()
	s.Wait()
	p := wantPast(t, read, 1)[0]
	if p.Open || len(p.Starts) != 2 || p.Sleeps != 2 || p.Ended < 2 || !slices.Contains(p.Names, "helper") || p.Cause != "stdin-closed" {
		t.Errorf("%+v", p)
	}
	if o := read(); strings.Count(o.stdout, "\n") != 2 || !strings.Contains(o.stdout, "slept 2") {
		t.Errorf("%q", o.stdout)
	}
	// The id of a start means its session.
	if o := read(p.Starts[1].ID); o.code != 0 || strings.Count(o.stdout, "START ") != 2 || !strings.Contains(o.stdout, p.ID) {
		t.Errorf("%+v", o)
	}
}

// What one process had at most is told, if it is more than our own have.
func TestHistoryTellsThePeak(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	dd, err := exec.LookPath("dd")
	testkit.Lacks(t, testkit.Tools, err != nil, "dd")
	runIn(t, []string{env}, "--", "/bin/sh", "-c", `"$0" if=/dev/zero of=/dev/null bs=64M count=1; exit`, dd)
	runIn(t, []string{env}, "--", "/bin/true")
	all := wantPast(t, read, 2)
	if all[0].PeakBytes < 64<<20 || all[0].PeakBytes > 128<<20 || all[1].PeakBytes != 0 {
		t.Errorf("%d, %d: %+v", all[0].PeakBytes, all[1].PeakBytes, all)
	}
}

// brokenHistories are states of the directory in which no line can be written. None holds up a session, or changes its code.
var brokenHistories = map[string]struct {
	step  string // of the fixture's verb world
	spoil func(t *testing.T, state string)
	env   func(state string) string
}{
	"full": {step: "full"},
	"a FIFO": {spoil: func(t *testing.T, state string) {
		ownState(t, state)
		ok(t, unix.Mkfifo(state+"/mcp-tether/history.jsonl", 0o600))
	}},
	"no home":       {env: func(string) string { return "HOME=" }},
	"never answers": {spoil: func(t *testing.T, state string) { testkit.Need(t, testkit.Namespaces); mountHung(t, state, true) }},
}

func ownState(t *testing.T, state string) {
	t.Helper()
	ok(t, os.Mkdir(state+"/mcp-tether", 0o700))
}

func TestHistoryCannotBeWritten(t *testing.T) {
	t.Parallel()
	for name, c := range brokenHistories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			g := startGateway(t)
			if c.env != nil && os.Getuid() == 0 {
				g = startGatewayAs(t, nobody) // root has /var/lib
			}
			s := g.newSession()
			argv := s.Wrap(resisting(), node(s.Dir, "serve", "daemon,ignore-term")...)
			env := []string{"XDG_STATE_HOME=" + state}
			if c.env != nil {
				env = []string{"XDG_STATE_HOME=", c.env(state)}
			}
			if c.step != "" {
				testkit.Need(t, testkit.Namespaces)
				argv = inWorld(argv, c.step+"="+state)
			}
			if c.spoil != nil {
				c.spoil(t, state)
			}
			s.Spawn(setup{Bare: true, Env: env}, argv...)
			s.WaitReady()
			began := time.Now()
			s.closeStdin()
			s.WaitDead()
			ended := time.Now()
			if how := s.Wait(); how != "exit 0" {
				t.Error(how)
			}
			s.EndedWhole("stdin-closed", "server-exited")
			t.Logf("ended in %v, exited %v later", ended.Sub(began), time.Since(ended))
			if late := time.Since(ended); late > testkit.Patience/2 {
				t.Errorf("it went on for %v", late)
			}
		})
	}
}

// A limit of file sizes costs the line, and neither code nor a core file.
func TestHistoryAtALimitOfFileSizes(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	dir := t.TempDir()
	cmd := exec.Command("/bin/sh", "-c", `ulimit -f 0; cd "$1"; exec "$0" run -- /bin/sh -c 'exit 7'`, tether, dir)
	cmd.Env = append(cmd.Environ(), env, "XDG_RUNTIME_DIR=")
	if o := finish(t, cmd); o.code != 7 {
		t.Errorf("%+v", o)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	wantPast(t, read, 0)
	runIn(t, []string{env}, "--", "/bin/true")
	wantPast(t, read, 1)
}

// tellPast adds a line to what other sessions have written.
func tellPast(t *testing.T, env, id string, more ...any) {
	t.Helper()
	addHistory(t, env, fmt.Sprintf(`{"id":%q,"cause":"signal","exit":0,"args":["x"]%s}`+"\n", id, fmt.Sprint(more...)))
}

func addHistory(t *testing.T, env, text string) {
	t.Helper()
	name := strings.TrimPrefix(env, "XDG_STATE_HOME=") + "/mcp-tether/history.jsonl"
	ok(t, os.MkdirAll(filepath.Dir(name), 0o700))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ok(t, err)
	defer f.Close()
	_, err = f.WriteString(text)
	ok(t, err)
}

// A history that was torn, or that somebody has filled, is read as far as it can be.
func TestHistoryThatIsHostile(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	tellPast(t, env, strings.Repeat("a", 16))
	evil := `{"id":"bbbbbbbbbbbbbbbb","name":"\u001b[2J\u202e","gateway_comm":"\u009b1m","cause":"\u001b]0;x\u0007","args":["\u001b[31m","\n"],"names":["\u001b"],"left":["\u001b[1m"],"seconds":-1e300,"started":"0001-01-01T00:00:00Z","starts":[null]}`
	junk := "\n\x1b[2J\x00\xff\n" + `{"id":"../../etc"}` + "\n" + `{"id":"cccccccccccccccc","behind":"x"}` + "\n[1]\n"
	addHistory(t, env, evil+junk+`{"id":"ddddd`) // The next line is lost with what is torn.
	tellPast(t, env, strings.Repeat("e", 16))
	tellPast(t, env, strings.Repeat("f", 16))
	for _, args := range [][]string{nil, {"--json"}, {"bbbb"}} {
		o := read(args...)
		if regexp.MustCompile(`[^\n -~…]`).MatchString(o.stdout+o.stderr) || o.code != 2 || !strings.Contains(o.stderr, "5 lines of the history could not be read") {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := read(); strings.Count(o.stdout, "\n") != 4 {
		t.Errorf("%q", o.stdout)
	}
}

// It fits the terminal without colour, and through a pipe nothing is cut.
func TestHistoryFitsTheTerminal(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	tellPast(t, env, strings.Repeat("a", 16), `,"name":"files","ended":3,"killed":1,"left":["pid 1"],"names":["`+strings.Repeat("n", 100)+`"]`)
	tellPast(t, env, strings.Repeat("b", 16), `,"args":["`+strings.Repeat("w", 300)+`"]`)
	if o := read(); !strings.Contains(o.stdout, strings.Repeat("w", 300)) || !strings.Contains(o.stdout, "3, 1 by SIGKILL") {
		t.Errorf("%+v", o)
	}
	y := openTTY(t, []string{env}, nil, "/bin/sh", "-c", `stty cols 80; exec "$0" history`, tether)
	_ = y.cmd.Wait()
	out, _ := io.ReadAll(y.master)
	for line := range strings.Lines(string(out)) {
		if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 80 || strings.Contains(line, "\x1b") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if !strings.Contains(string(out), "aaaaaaaa  files") {
		t.Errorf("%q", out)
	}
	for args, code := range map[string]int{"": 2, "aa": 0, "zz": 2, "a b": 2, "--nothing": 2} {
		if o := read(strings.Split(args, " ")...); o.code != code {
			t.Errorf("%q: %+v", args, o)
		}
	}
	tellPast(t, env, "aa"+strings.Repeat("c", 14))
	if o := read("aa"); o.code != 2 || !strings.Contains(o.stderr, "2 sessions begin with") {
		t.Errorf("%+v", o)
	}
	complete := exec.Command(tether, "__complete", "history", "b")
	complete.Env = []string{env}
	if o := finish(t, complete); !strings.HasPrefix(o.stdout, strings.Repeat("b", 16)+"\twww") {
		t.Errorf("%+v", o)
	}
}

// Who only reads makes nothing.
func TestHistoryMakesNothing(t *testing.T) {
	t.Parallel()
	env, read := ownHistory(t)
	if o := read(); o.code != 0 || o.stdout != "" || !strings.Contains(o.stderr, "no session has ended yet") {
		t.Errorf("%+v", o)
	}
	wantPast(t, read, 0)
	if left, _ := os.ReadDir(strings.TrimPrefix(env, "XDG_STATE_HOME=")); len(left) > 0 {
		t.Errorf("made %v", left)
	}
}
