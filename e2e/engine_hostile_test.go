package e2e

import (
	"bytes"
	"encoding/json"
	"syscall"
	"testing"
)

// clientOf is a route without a docker command: what is sent is written here, byte for byte.
func clientOf(t *testing.T, host string) route {
	return route{t: t, name: "route1", host: host}
}

// end closes the session's stdin and expects that nothing of it is left.
func (s *session) end() {
	s.t.Helper()
	s.closeStdin()
	wantExit(s.t, s.Wait(), "exit 0")
	s.Gone()
}

// endLeaving ends a session that cannot know what became of its containers: it says so, and its record stays for reap.
func (s *session) endLeaving() {
	s.t.Helper()
	s.closeStdin()
	wantExit(s.t, s.Wait(), "exit 0")
	s.wantLeft()
}

// wantLeft waits for the end of a session that says that containers may be left, and whose record stays for reap.
func (s *session) wantLeft() {
	s.t.Helper()
	s.WaitDead()
	if !s.warned("containers may be left") {
		s.t.Error("nobody says that containers may be left")
	}
	if len(s.Records()) != 1 {
		s.t.Errorf("records: %v, want one for reap", s.Records())
	}
}

// warned tells whether the log of a session that has ended has a warning, or worse, with these words.
func (s *session) warned(words string) bool {
	s.t.Helper()
	for line := range bytes.Lines(readFile(s.t, s.Log)) {
		var e struct{ Level string }
		s.ok(json.Unmarshal(line, &e))
		if (e.Level == "warn" || e.Level == "error") && bytes.Contains(line, []byte(words)) {
			return true
		}
	}
	return false
}

// leavings are ways in which a session ends beside an engine that does not do its part. What the proxy makes of odd engines and of
// odd clients are tests of its own (internal/engine/keeper).
var leavings = map[string]func(s *session, f *fakeEngine){
	// What may be left is said, and the record stays for reap.
	"gone": func(s *session, f *fakeEngine) {
		f.die()
		s.endLeaving()
	},
	"back again": func(s *session, f *fakeEngine) {
		f.die()
		f.comeBack()
		s.end()
	},
	// A container that ignores its stop signal uses up its grace period, and is killed.
	"stubborn container, supervisor killed": func(s *session, f *fakeEngine) {
		f.beStubborn()
		s.ok(syscall.Kill(s.Supervisor(), syscall.SIGKILL))
		s.Gone()
	},
}

// Whatever its engine does, a session ends in time. What it cannot remove it names, and what it can is gone.
func TestEngineAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range leavings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, nil)
			s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + f.host}})
			clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
			if left := f.Left(); len(left) != 1 || left[0].Labels["mcp-tether.session"] != s.ID() {
				t.Fatalf("there is %+v, want one container of the session", left)
			}
			end(s, f)
			if left := f.Left(); (len(left) > 0) != (name == "gone") {
				t.Errorf("left: %+v, asked: %v", left, f.Asked(""))
			}
		})
	}
}

// beStubborn has the containers run and ignore their stop signal.
func (f *fakeEngine) beStubborn() {
	f.Lock()
	defer f.Unlock()
	for _, x := range f.Have {
		x.Running, x.Ignores = true, true
	}
}
