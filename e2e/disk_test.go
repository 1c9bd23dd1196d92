package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// spoiled is a runtime directory in which no record can be kept. Its place is known only once the session is.
type spoiled struct {
	name string
	step string // of the fixture's verb world, on the runtime directory
	do   func(*session)
	why  string // part of the warning
}

func (s *session) recordDir() string { return filepath.Join(s.Runtime, "mcp-tether") }

var spoiledDirs = []spoiled{
	{name: "read-only", step: "readonly", why: "read-only file system"},
	{name: "full", step: "full", why: "no space left"},
	{name: "of another user", do: func(s *session) {
		s.ok(os.Mkdir(s.recordDir(), 0o700))
		s.ok(os.Chown(s.recordDir(), nobody, nobody))
	}, why: "belongs to uid 65534"},
	{name: "open to others", do: func(s *session) {
		s.ok(os.Mkdir(s.recordDir(), 0o700))
		s.ok(os.Chmod(s.recordDir(), 0o777))
	}, why: "open to others"},
	{name: "a link", do: func(s *session) { s.ok(os.Symlink(s.Dir, s.recordDir())) }, why: "not a directory"},
}

// The server starts all the same, its session ends whole, and a warning tells what is lost.
func TestRecordCannotBeKept(t *testing.T) {
	t.Parallel()
	for _, d := range spoiledDirs {
		t.Run(d.name, func(t *testing.T) {
			testkit.Need(t, testkit.Namespaces)
			t.Parallel()
			s := startGateway(t).newSession()
			argv := s.Wrap(polite(), node(s.Dir, "serve", "daemon", "setsid,closefds,clearenv,chdir")...)
			if d.do != nil {
				d.do(s)
			} else {
				argv = inWorld(argv, d.step+"="+s.Runtime)
			}
			s.Spawn(setup{Bare: true}, argv...)
			s.WaitReady()
			s.wantWarning(d.why)
			s.gw.Kill()
			s.WaitDead()
			s.EndedWhole(deathCauses...)
		})
	}
}

// A runtime directory of somebody else is not used: the record goes to the next place, and nothing is lost.
func TestRuntimeOfAnotherUser(t *testing.T) {
	t.Parallel()
	s := startGatewayAs(t, nobody).newSession()
	s.ok(os.Chown(s.Runtime, 0, 0))
	s.ok(os.Chmod(s.Runtime, 0o777))
	next := "/tmp/mcp-tether-65534" // it stays: other tests' sessions may be about to use it
	s.Spawn(setup{Flags: polite()}, node(s.Dir, "serve", "daemon")...)
	s.WaitReady()
	record := filepath.Join(next, strings.Trim(answerTo(s, "MCP_TETHER_SESSION"), `"`)+".json")
	testkit.Until(t, record, func() bool { _, err := os.Stat(record); return err == nil })
	s.gw.Kill()
	s.Gone()
	s.EndedWhole(deathCauses...)
	if _, err := os.Stat(record); err == nil {
		t.Errorf("%s is left", record)
	}
	if log, _ := os.ReadFile(s.Log); strings.Contains(string(log), `"level":"warn"`) {
		t.Errorf("a warning:\n%s", log)
	}
}

func inWorld(argv []string, steps ...string) []string {
	return append(append(append([]string{fixture, "world"}, steps...), "--"), argv...)
}

func (s *session) wantWarning(why string) {
	s.t.Helper()
	warned := s.logged(func(line []byte) bool {
		var e struct{ Level, Message, Error string }
		s.ok(json.Unmarshal(line, &e))
		return e.Level == "warn" && strings.Contains(e.Error, why) && strings.Contains(e.Message, "record")
	})
	if !warned {
		s.t.Errorf("no warning about %q", why)
	}
}

// logged waits for a line in the log: it is written when there is time. Meanwhile the server is kept talking.
func (s *session) logged(is func(line []byte) bool) bool {
	s.t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		log, err := os.ReadFile(s.Log)
		s.ok(err)
		whole := log[:bytes.LastIndexByte(log, '\n')+1]
		for line := range bytes.Lines(whole) {
			if is(line) {
				return true
			}
		}
		s.Ask(`{"id":1,"method":"ping"}`)
	}
	return false
}
