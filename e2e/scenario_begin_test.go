package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// What is said before the session begins.

func (s *scenario) need(ts *testscript.TestScript, args []string) {
	for _, word := range args {
		switch word {
		case "root":
			testkit.Need(s.t, testkit.Root)
		case "cgroup":
			testkit.Need(s.t, testkit.Cgroup)
		case "namespaces":
			testkit.Need(s.t, testkit.Namespaces)
		case "processes":
			testkit.Need(s.t, testkit.Processes)
			s.large = true
		default:
			ts.Fatalf("need what? %s", word)
		}
	}
}

func (s *scenario) within(_ *testscript.TestScript, args []string) {
	testkit.Need(s.t, testkit.Namespaces)
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
	if os.Getenv(inHost) != "" {
		outgrow(s.t) // or a sweep that comes at once would spare it as newborn
	}
	ts.Setenv("SERVER", strconv.Itoa(s.Server))
	if !s.setup.Bare && !s.direct {
		ts.Setenv("SESSION", s.ID())
	}
}

func (s *scenario) start(ts *testscript.TestScript, args []string) {
	if s.large || storms(args...) {
		s.large = false // a second session has the turn already
		stormy.Lock()
		s.t.Cleanup(stormy.Unlock)
	}
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
