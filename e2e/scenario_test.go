package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
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
//	need root|namespaces|cgroup|processes...  what the scenario needs
//	world [STEP...] [hide=FILE...] the gateway lives where something is missing: steps of the fixture's verb world
//	flags FLAG...                  of the wrapper, beside graces of 20 s
//	spawn KEY=VALUE...             how the gateway starts it: stdio=socketpair, stderr=pipe, setsid=1, env=K=V
//	unwrapped                      the gateway starts the tree itself, in any play
//	launch sh|nested|COMMAND...    what stands between the wrapper and the tree
//	tree ROOT [CHILD...]           starts the session, and waits until all of the tree is up (fixture/main.go)
//	start ROOT [CHILD...]          the same, without waiting
//	session NAME                   a further session of this name, or back to one: the others' records lie beside its own
//	signal WHOM SIGNAL             gateway, group (the gateway's), wrapper, wrapper-group, front, supervisor, server, or pair: the
//	                               wrapper's two so that neither sees the other's end
//	connect unix|tcp [UID]         a process outside connects to what listens in the tree; disconnect ends it
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
//	bare left N|+                  the same in the control, which every file must have; + is at least one
//
// In the control the server stands for the wrapper and its supervisor, and exits, gone, closing, log, noted, past, left and end
// do nothing. Once the tree is up, $SESSION, $SERVER and $GATEWAY are set, and "exec mcp-tether" finds the session.
func TestScenario(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "\nbare left ") {
			t.Errorf("%s has no control: bare left N (%v)", file, err)
		}
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

// sampled are the files that a short run plays in the nth way: half of them with a cgroup and the others without (all,
// where there is no cgroup to be had), and a third bare. Their names decide, so that a new file changes nothing for the others.
func sampled(files []string, n int) []string {
	if !testing.Short() {
		return files
	}
	var out []string
	_, err := stage.WritableCgroup()
	for _, f := range files {
		h := hashOf(f)
		if n < 2 && h%2 == n || n == 1 && err != nil || n == 2 && h%3 == 0 {
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
	large      bool // hundreds of processes
	others     map[string]*stage.Session
	user       func() // ends the process outside that is connected
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
		"connect": (*scenario).connect, "disconnect": (*scenario).disconnect,
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
