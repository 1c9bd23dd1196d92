package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/stage"
	"mcp-tether/internal/testkit"
)

// The plays of a scenario. The last is the control: what is promised does not come about by itself.
const (
	withCgroup = "cgroup"
	noCgroup   = "nocgroup"
	barePlay   = "bare"
)

// TestScenario plays testdata/script: a file a behaviour, with a cgroup, without one, and bare. A short run plays each
// file once, and a third of the controls. Besides testscript's own commands and conditions there are
//
//	need root|cgroup...            what the scenario needs
//	world [STEP...] [hide=FILE...] the gateway lives where something is missing: steps of the fixture's verb world
//	flags FLAG...                  of the wrapper, beside graces of 20 s
//	spawn KEY=VALUE...             how the gateway starts it: stdio=socketpair, stderr=pipe, setsid=1, env=K=V
//	unwrapped                      the gateway starts the tree itself, in any play
//	launch sh|nested|COMMAND...    what stands between the wrapper and the tree
//	tree ROOT [CHILD...]           starts the session, and waits until all of the tree is up (fixture/main.go)
//	start ROOT [CHILD...]          the same, without waiting
//	session NAME                   a further session of this name, or back to one: the others' records lie beside its own
//	signal WHOM SIGNAL             gateway, group (the gateway's), wrapper, wrapper-group, supervisor, server, or pair: the
//	                               wrapper's two so that neither sees the other's end
//	trace WHOM                     holds a process by ptrace
//	exit                           the gateway exits
//	close stdin|stdout|stderr      the gateway closes its end; shutdown is for a half of a socketpair
//	write LINE, ask LINE           to the server; to the second an answer comes, with the same id
//	until WHOM [not] STATE         until it is in this state of proc_pid_stat(5), or not; until server stuck=FD
//	exits exit N|signal N          how what the gateway has started ends
//	gone                           nothing is left: no process, cgroup, record or socket
//	closing [KEY=VALUE|VALUE...]   the closing event; survivors=0 leaked=false unless told otherwise
//	log MESSAGE [TEXT...]          one event of the log says this, with these texts; silent MESSAGE: none does
//	past PATTERN...                the history has the session, with these patterns
//	exits-with CODE COMMAND...     a command ends with this code
//	eventually PATTERN WORD...     mcp-tether, with these words, says this at last
//	end                            what is left on purpose is killed, and then nothing is left
//	noted TEXT                     a member of the tree has left that note
//	said TEXT..., quiet            standard error has these texts; nothing was said there, nor in the log
//	in-leaf                        the server is in the session's cgroup
//	left N                         so many processes of the tree live
//	bare left N                    the same in the control
//
// In the control the server stands for the wrapper and its supervisor, and exits, gone, closing, log, noted, past, left and end
// do nothing. Once the tree is up, $SESSION, $SERVER and $GATEWAY are set, and "exec mcp-tether" finds the session.
func TestScenario(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for n, play := range []string{withCgroup, noCgroup, barePlay} {
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			if play == withCgroup {
				needCgroup(t)
			}
			perform(t, play, sampled(files, n)...)
		})
	}
}

// TestReapScenario plays what a sweep does, each file on a host of its own: a sweep sees every process. None is
// played bare: each says what is left before the sweep.
func TestReapScenario(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "reap", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for n, play := range []string{withCgroup, noCgroup} {
		for _, file := range files {
			t.Run(play+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				if testing.Short() && hashOf(file)%2 != n {
					testkit.Long(t)
				}
				if play == withCgroup {
					needCgroup(t)
				}
				if onOwnHost(t) {
					perform(t, play, file)
				}
			})
		}
	}
}

func perform(t *testing.T, play string, files ...string) {
	testscript.Run(t, testscript.Params{
		WorkdirRoot: t.TempDir(), // testscript leaves its own where no script was asked for
		Files:       files, RequireExplicitExec: true, Cmds: actions(), Condition: condition(play),
		Setup: func(env *testscript.Env) error { return setScenario(env, play) },
	})
}

// sampled are the files that a short run plays in the nth way: half of them with a cgroup and the others without, and a
// third bare. Their names decide, so that a new file changes nothing for the others.
func sampled(files []string, n int) []string {
	if !testing.Short() {
		return files
	}
	var out []string
	for _, f := range files {
		if h := hashOf(f); n < 2 && h%2 == n || n == 2 && h%3 == 0 {
			out = append(out, f)
		}
	}
	return out
}

// condition knows the plays, for what only one of them can show.
func condition(play string) func(string) (bool, error) {
	return func(word string) (bool, error) {
		if slices.Contains([]string{withCgroup, noCgroup, barePlay}, word) {
			return word == play, nil
		}
		return false, fmt.Errorf("no such condition: %s", word)
	}
}

// scenario is one play of a scenario: the session that is spoken of, and what was said about it before it began.
type scenario struct {
	*stage.Session
	t          testing.TB // the script's own
	play       string
	world      stage.World
	gateway    *stage.Gateway
	hidden     []string
	asked      *opens
	setup      stage.Setup
	launch     []string
	supervisor int
	name       string
	direct     bool // never wrapped
	others     map[string]*stage.Session
}

type scenarioKey struct{}

func setScenario(env *testscript.Env, play string) error {
	// What testscript calls its T is a *testing.T in thin clothes.
	s := &scenario{play: play, t: env.T().(testing.TB), others: map[string]*stage.Session{}}
	s.begin()
	env.Values[scenarioKey{}] = s
	return setUp(env)
}

// begin is the state before a session.
func (s *scenario) begin() {
	s.setup, s.launch, s.supervisor = stage.Setup{Bare: s.play == barePlay, Flags: polite()}, nil, 0
	if s.play == noCgroup {
		s.setup.Flags = append(s.setup.Flags, "--cgroup=off")
	}
}

// actions are the commands.
func actions() map[string]func(*testscript.TestScript, bool, []string) {
	tethered := map[string]func(*scenario, *testscript.TestScript, []string){
		"exits": (*scenario).exits, "gone": (*scenario).gone, "closing": (*scenario).closing, "log": (*scenario).log, "silent": (*scenario).silent,
		"noted": (*scenario).noted, "left": (*scenario).left, "past": (*scenario).past, "end": (*scenario).end,
		"quiet": (*scenario).quiet, "said": (*scenario).said, "in-leaf": (*scenario).inLeaf,
	}
	all := map[string]func(*scenario, *testscript.TestScript, []string){
		"need": (*scenario).need, "world": (*scenario).within, "flags": (*scenario).flags, "spawn": (*scenario).spawn, "launch": (*scenario).launched,
		"tree": (*scenario).tree, "start": (*scenario).start, "signal": (*scenario).signal, "exit": (*scenario).exit, "close": (*scenario).close,
		"shutdown": (*scenario).shutdown, "write": (*scenario).write, "ask": (*scenario).ask, "until": (*scenario).until, "bare": (*scenario).bare,
		"session": (*scenario).session, "eventually": (*scenario).eventually, "trace": (*scenario).trace, "unwrapped": (*scenario).unwrapped,
	}
	cmds := map[string]func(*testscript.TestScript, bool, []string){}
	add := func(name string, do func(*scenario, *testscript.TestScript, []string), control bool) {
		cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(scenarioKey{}).(*scenario)
			if neg {
				ts.Fatalf("unsupported: ! %s", name)
			}
			if s.setup.Bare && !control {
				return
			}
			do(s, ts, args)
			if s.t.Failed() {
				ts.Fatalf("see above")
			}
		}
	}
	for name, do := range tethered {
		add(name, do, false)
	}
	for name, do := range all {
		add(name, do, true)
	}
	cmds["exits-with"] = exits
	return cmds
}

// What is said before the session begins.

func (s *scenario) need(ts *testscript.TestScript, args []string) {
	for _, word := range args {
		switch word {
		case "root":
			testkit.Need(s.t, testkit.Root)
		case "cgroup":
			testkit.Need(s.t, testkit.Cgroup)
		default:
			ts.Fatalf("need what? %s", word)
		}
	}
}

func (s *scenario) within(_ *testscript.TestScript, args []string) {
	needWorld(s.t)
	for _, word := range args {
		if file, found := strings.CutPrefix(word, "hide="); found {
			s.hidden = append(s.hidden, file)
			continue
		}
		if word == "uid=65534" {
			s.world.UID = nobody
			continue
		}
		s.world.Steps = append(s.world.Steps, word)
	}
}

func (s *scenario) flags(_ *testscript.TestScript, args []string) {
	s.setup.Flags = append(s.setup.Flags, args...)
}

func (s *scenario) spawn(_ *testscript.TestScript, args []string) {
	for _, word := range args {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "stdio":
			s.setup.Stdio = value
		case "stderr":
			s.setup.Stderr = value
		case "env":
			s.setup.Env = append(s.setup.Env, value)
		default:
			s.setup.Keys = append(s.setup.Keys, word)
		}
	}
}

// unwrapped has the gateway start the server itself, in any play.
func (s *scenario) unwrapped(*testscript.TestScript, []string) { s.direct = true }

func (s *scenario) launched(_ *testscript.TestScript, args []string) { s.launch = args }

// The session begins.

func (s *scenario) tree(ts *testscript.TestScript, args []string) {
	s.start(ts, args)
	s.WaitReady()
	ts.Setenv("SERVER", strconv.Itoa(s.Server))
	if !s.setup.Bare && !s.direct {
		ts.Setenv("SESSION", s.ID())
	}
}

func (s *scenario) start(ts *testscript.TestScript, args []string) {
	storm(s.t, args...)
	if len(s.hidden) > 0 {
		s.asked = hide(s.t, s.hidden...)
		s.world.Files = []*os.File{s.asked.theirs}
		s.world.Steps = append(s.world.Steps, "ask=3")
	}
	if s.gateway == nil {
		s.gateway = stage.Start(s.t, programs(), s.world)
		if s.asked != nil {
			s.asked.answer()
		}
	}
	s.Session = s.gateway.NewSession()
	if s.name != "" {
		s.Share(ts.Getenv("XDG_RUNTIME_DIR"))
	}
	if s.name != "" {
		s.others[s.name] = s.Session
	}
	s.setup.Env = append(s.setup.Env, "XDG_STATE_HOME="+ts.Getenv("XDG_STATE_HOME"))
	argv := s.Node(args[0], args[1:]...)
	switch {
	case slices.Equal(s.launch, []string{"nested"}):
		argv = inShells(3)(argv)
	case slices.Equal(s.launch, []string{"sh"}):
		argv = inShells(1)(argv)
	default:
		argv = append(slices.Clone(s.launch), argv...)
	}
	s.setup.Bare = s.setup.Bare || s.direct
	s.Spawn(s.setup, argv...)
	s.setup.Bare = s.play == barePlay
	ts.Setenv("GATEWAY", strconv.Itoa(s.gateway.PID))
	ts.Setenv("XDG_RUNTIME_DIR", s.Runtime)
}

// session says of which session is spoken from here on: of a new one of the same gateway, or of one that has begun.
func (s *scenario) session(_ *testscript.TestScript, args []string) {
	if known := s.others[args[0]]; known != nil {
		s.Session, s.supervisor = known, 0
		return
	}
	s.begin()
	s.setup.Flags = append(s.setup.Flags, "--name="+args[0])
	s.name = args[0]
}

// What happens to it.

func (s *scenario) signal(ts *testscript.TestScript, args []string) {
	sig := unix.SignalNum("SIG" + args[1])
	if sig == 0 {
		ts.Fatalf("no such signal: %s", args[1])
	}
	switch args[0] {
	case "gateway":
		if sig == syscall.SIGKILL {
			s.Gateway.Kill()
		} else {
			s.Gateway.Signal(sig)
		}
	case "group":
		s.Gateway.SignalGroup(sig)
	case "wrapper":
		s.Signal(sig)
	case "wrapper-group":
		s.Gateway.Call("killpg", s.Name, strconv.Itoa(int(sig)))
	case "pair":
		// As the kernel does when memory is short: neither sees the other's end.
		_ = syscall.Kill(s.PID, syscall.SIGSTOP)
		stage.Until(s.t, "a stopped wrapper", func() bool { return slices.Contains([]string{"T", "Z", "X", ""}, stage.Describe(s.PID).State) })
		for _, whom := range []string{"supervisor", "wrapper"} {
			pid := s.pid(ts, whom)
			_ = syscall.Kill(pid, sig) // in the control they are one
			stage.AwaitExit(s.t, pid)
		}
	default:
		ts.Check(syscall.Kill(s.pid(ts, args[0]), sig))
	}
}

// trace stops a process by ptrace until the play is over.
func (s *scenario) trace(ts *testscript.TestScript, args []string) {
	cmd := exec.Command(fixture, "trace", strconv.Itoa(s.pid(ts, args[0])))
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		ts.Fatalf("the tracer says %q, %v", line, err)
	}
}

// pid is a process by its part in the play. In the control the server stands for the wrapper's own.
func (s *scenario) pid(ts *testscript.TestScript, whom string) int {
	switch whom {
	case "wrapper":
		return s.PID
	case "server":
		return s.Server
	case "supervisor":
		if s.setup.Bare {
			return s.Server
		}
		if s.supervisor == 0 { // its record goes when it ends
			s.supervisor = s.Supervisor()
		}
		return s.supervisor
	}
	ts.Fatalf("nobody here is called %s", whom)
	return 0
}

func (s *scenario) exit(*testscript.TestScript, []string)         { s.Gateway.Exit() }
func (s *scenario) close(_ *testscript.TestScript, args []string) { s.Close(args[0]) }
func (s *scenario) shutdown(*testscript.TestScript, []string)     { s.Shutdown() }
func (s *scenario) write(_ *testscript.TestScript, args []string) {
	s.Write(strings.Join(args, " ") + "\n")
}

func (s *scenario) ask(ts *testscript.TestScript, args []string) {
	var asked, answered struct{ ID json.RawMessage }
	line := strings.Join(args, " ")
	ts.Check(json.Unmarshal([]byte(line), &asked))
	answer := s.Ask(line)
	if err := json.Unmarshal([]byte(answer), &answered); err != nil || string(answered.ID) != string(asked.ID) {
		ts.Fatalf("answer %q (%v)", answer, err)
	}
}

// until has words of its own for a state: stuck=N is a server that sleeps in a write to a stream that nobody reads.
func (s *scenario) until(ts *testscript.TestScript, args []string) {
	what := strings.Join(args, " ")
	if fd, found := strings.CutPrefix(what, "server stuck="); found {
		stage.Until(s.t, what, func() bool { return stuckIn(s.Server, fd) })
		return
	}
	pid := s.pid(ts, args[0])
	in := args[1] != "not"
	states := strings.Join(args[1:], "")
	stage.Until(s.t, what, func() bool {
		state := stage.Describe(pid).State
		if in {
			return strings.Contains(states, state) && state != ""
		}
		return !strings.Contains(strings.TrimPrefix(states, "not"), state)
	})
}

// What is expected.

func (s *scenario) exits(ts *testscript.TestScript, args []string) {
	if got := s.Wait(); got != strings.Join(args, " ") {
		ts.Fatalf("it ended with %q, want %q", got, strings.Join(args, " "))
	}
}

func (s *scenario) gone(ts *testscript.TestScript, _ []string) {
	s.Gone()
	if s.asked != nil && s.play == withCgroup && s.asked.denied.Load() == 0 {
		ts.Fatalf("nobody has looked for %v", s.hidden)
	}
}

// closing compares the one closing event of the session, as a table of words.
func (s *scenario) closing(ts *testscript.TestScript, args []string) {
	c := s.Ended()
	got := map[string]string{
		"cause": c.Cause, "signal": c.Signal, "exit": strconv.Itoa(*c.Exit), "leaked": strconv.FormatBool(*c.Leaked),
		"survivors": strconv.Itoa(len(c.Survivors)), "kept": strconv.Itoa(len(c.Kept)), "ended": strconv.Itoa(c.Ended),
		"killed": strconv.Itoa(c.Killed), "names": strings.Join(c.Names, ","),
	}
	for _, word := range append([]string{"survivors=0", "leaked=false"}, args...) {
		key, want, _ := strings.Cut(word, "=")
		if value, known := got[key]; !known || !slices.Contains(strings.Split(want, "|"), value) && !overridden(key, word, args) {
			ts.Fatalf("the closing event has %s=%q, want %q", key, value, want)
		}
	}
}

// overridden tells whether a default is replaced by what the script says.
func overridden(key, word string, args []string) bool {
	return !slices.Contains(args, word) && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, key+"=") })
}

func (s *scenario) log(ts *testscript.TestScript, args []string) {
	found := s.Events(args[0])
	if len(found) != 1 {
		ts.Fatalf("%d events say %q, want 1", len(found), args[0])
	}
	for _, text := range args[1:] {
		if !strings.Contains(string(found[0]), text) {
			ts.Fatalf("want %q in %s", text, found[0])
		}
	}
}

// silent expects no event of this kind.
func (s *scenario) silent(ts *testscript.TestScript, args []string) {
	if found := s.Events(args[0]); len(found) > 0 {
		ts.Fatalf("unexpected: %s", found[0])
	}
}

// past waits for the session in the history, and looks for texts in its line.
func (s *scenario) past(ts *testscript.TestScript, args []string) {
	var text string
	stage.Until(s.t, "the session in the history", func() bool {
		cmd := exec.Command(tether, "history", "--json")
		cmd.Env = []string{"XDG_STATE_HOME=" + ts.Getenv("XDG_STATE_HOME")}
		b, err := cmd.Output()
		text = string(b)
		return err == nil && strings.Contains(text, s.IDs[0])
	})
	for _, want := range args {
		if !regexp.MustCompile(want).MatchString(text) {
			ts.Fatalf("want %q in the history: %s", want, text)
		}
	}
}

// eventually runs a command until it says something.
func (s *scenario) eventually(ts *testscript.TestScript, args []string) {
	want := regexp.MustCompile(args[0])
	stage.Until(s.t, strings.Join(args, " "), func() bool {
		cmd := exec.Command(tether, args[1:]...)
		cmd.Env = []string{"XDG_RUNTIME_DIR=" + ts.Getenv("XDG_RUNTIME_DIR")}
		out, _ := cmd.CombinedOutput()
		return want.Match(out)
	})
}

// end ends what was left on purpose, and expects nothing else.
func (s *scenario) end(*testscript.TestScript, []string) {
	s.EndAll()
	s.Gone()
}

// quiet expects that nothing was said, neither in the log nor on standard error.
func (s *scenario) quiet(ts *testscript.TestScript, _ []string) {
	for _, file := range []string{s.Log, s.Stderr} {
		if b, err := os.ReadFile(file); err != nil || len(b) > 0 {
			ts.Fatalf("%s (%v): %s", filepath.Base(file), err, b)
		}
	}
}

// said expects these texts on standard error.
func (s *scenario) said(ts *testscript.TestScript, args []string) {
	b, err := os.ReadFile(s.Stderr)
	ts.Check(err)
	for _, text := range args {
		if !strings.Contains(string(b), text) {
			ts.Fatalf("want %q in: %s", text, b)
		}
	}
}

// inLeaf expects the server in the session's own cgroup.
func (s *scenario) inLeaf(ts *testscript.TestScript, _ []string) {
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", s.Server))
	ts.Check(err)
	if !strings.Contains(string(in), "/mcp-tether-"+s.ID()+"\n") {
		ts.Fatalf("the server is in %s", in)
	}
}

func (s *scenario) noted(ts *testscript.TestScript, args []string) {
	if text := strings.Join(args, " "); !strings.Contains(s.Notes(), text) {
		ts.Fatalf("no member noted %q", text)
	}
}

// left counts the processes of the tree, and waits until there are no more than these: some may be about to end.
func (s *scenario) left(ts *testscript.TestScript, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	n := func() int { return len(stage.Holders(s.Life.Path)) + len(stage.Holders(s.Flock)) }
	stage.Until(s.t, "no more than "+args[0]+" processes", func() bool { return n() <= want })
	if now := n(); now != want {
		ts.Fatalf("%d processes are left, want %d", now, want)
	}
}

// bare left N is the control.
func (s *scenario) bare(ts *testscript.TestScript, args []string) {
	if !s.setup.Bare {
		return
	}
	if len(args) != 2 || args[0] != "left" {
		ts.Fatalf("usage: bare left N")
	}
	s.left(ts, args[1:])
	s.EndAll()
}
