package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

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
	// The last process of the server ends before that, where one is kept.
	testkit.Until(s.t, "a closing event", func() bool {
		return len(s.Events("session ended"))+len(s.Events("server and all that it started ended")) > 0
	})
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
		cmd.Env = []string{"XDG_RUNTIME_DIR=" + ts.Getenv("XDG_RUNTIME_DIR"), "XDG_STATE_HOME=" + ts.Getenv("XDG_STATE_HOME")}
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
	switch {
	case len(args) != 2 || args[0] != "left":
		ts.Fatalf("usage: bare left N|+")
	case args[1] == "+" && !s.Alive():
		ts.Fatalf("nothing is left")
	case args[1] != "+":
		s.left(ts, args[1:])
	}
	s.EndAll()
}
