package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
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

// leaving is how one session ends beside an engine that does not do its part. What the proxy makes of odd engines and of odd
// clients are tests of its own (internal/engine/keeper).
type leaving struct {
	name  string
	takes func(leaving, http.ResponseWriter, *http.Request) bool
	// end ends the session, and expects what is right.
	end func(leaving, *session, *fakeEngine, string)
	// asked is closed when the engine hears of a container that is called slow, and it answers when release is.
	asked, release chan struct{}
}

func leavings() []leaving {
	return []leaving{
		// What may be left is said, and the record stays for reap.
		{name: "gone", end: func(_ leaving, s *session, f *fakeEngine, _ string) {
			f.die()
			s.endLeaving()
		}},
		{name: "back again", end: func(_ leaving, s *session, f *fakeEngine, _ string) {
			f.die()
			f.comeBack()
			s.end()
		}},
		{name: "never answers a create", takes: answerSlowly, end: leaving.endUnanswered},
		// The gate is shut, and the other container removed, before the engine answers. Then both are gone.
		{name: "answers a create late", takes: answerSlowly, end: leaving.endLate},
		// A container that ignores its stop signal uses up its grace period, and is killed.
		{name: "stubborn container", end: func(_ leaving, s *session, f *fakeEngine, _ string) {
			f.beStubborn()
			s.end()
		}},
		{name: "stubborn container, supervisor killed", end: func(_ leaving, s *session, f *fakeEngine, _ string) {
			f.beStubborn()
			s.ok(syscall.Kill(s.Supervisor(), syscall.SIGKILL))
			s.Gone()
		}},
	}
}

// Whatever its engine does, a session ends in time. What it cannot remove it names, and what it can is gone.
func TestEngineAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, l := range leavings() {
		t.Run(l.name, func(t *testing.T) {
			sample(t, 3)
			t.Parallel()
			l.asked, l.release = make(chan struct{}), make(chan struct{})
			f := newFake(t, func(w http.ResponseWriter, r *http.Request) bool { return l.takes != nil && l.takes(l, w, r) })
			s, host := proxied(t, setup{Env: []string{"DOCKER_HOST=" + f.host}})
			clientOf(t, host).raw(lastMessage("POST", "/v1.41/containers/create", `{"Image":"a"}`))
			if left := f.Left(); len(left) != 1 || left[0].Labels["mcp-tether.session"] != s.ID() {
				t.Fatalf("there is %+v, want one container of the session", left)
			}
			l.end(l, s, f, host)
			if left := f.Left(); (len(left) > 0) != (l.name == "gone") {
				t.Errorf("left: %+v, asked: %v", left, f.Asked(""))
			}
		})
	}
}

func answerSlowly(l leaving, _ http.ResponseWriter, r *http.Request) bool {
	if strings.HasSuffix(r.URL.Path, "/containers/create") && r.URL.Query().Get("name") == "slow" {
		close(l.asked)
		<-l.release
	}
	return false
}

// beStubborn has the containers run and ignore their stop signal.
func (f *fakeEngine) beStubborn() {
	f.Lock()
	defer f.Unlock()
	for _, x := range f.Have {
		x.Running, x.Ignores = true, true
	}
}

// askSlowly asks for a container, and returns when the engine has heard of it.
func (l leaving) askSlowly(t *testing.T, host string) {
	t.Helper()
	c := dialEngine(t, host)
	_, err := io.WriteString(c, message("POST", "/v1.41/containers/create?name=slow", `{"Image":"a"}`))
	ok(t, err)
	<-l.asked
}

func (l leaving) endUnanswered(s *session, _ *fakeEngine, host string) {
	s.t.Cleanup(func() { close(l.release) })
	l.askSlowly(s.t, host)
	s.endLeaving()
}

func (l leaving) endLate(s *session, f *fakeEngine, host string) {
	l.askSlowly(s.t, host)
	s.closeStdin()
	refused := func() string {
		return clientOf(s.t, host).raw(lastMessage("POST", "/v1.41/networks/create", `{"Name":"a"}`))
	}
	testkit.Until(s.t, "another create refused", func() bool { return strings.HasPrefix(refused(), "HTTP/1.1 503 ") })
	testkit.Until(s.t, "the other container removed", func() bool { return len(f.Left()) == 0 })
	close(l.release)
	wantExit(s.t, s.Wait(), "exit 0")
	s.Gone()
	if event := s.Events("session ended"); len(event) != 1 || !bytes.Contains(event[0], []byte(`"containers":2,`)) {
		s.t.Errorf("closing event: %s, want one with two containers", event)
	}
}

// A server that does not end when it is asked to makes its first container in the grace period. Nobody would look for it.
func TestEngineFirstClientAtTheEnd(t *testing.T) {
	t.Parallel()
	f := newFake(t, nil)
	s := begin(t, setup{Flags: []string{"--term-grace=20s"}, Env: []string{"DOCKER_HOST=" + f.host}}, "serve,ignore-term")
	s.WaitRecord()
	host := s.environment("DOCKER_HOST")
	s.Signal(syscall.SIGTERM)
	s.awaitState(t, "ending")
	if c, err := net.Dial("unix", strings.TrimPrefix(host, "unix://")); err == nil {
		_ = c.Close()
		t.Error("it could connect")
	}
	if stage.Describe(s.Server).State == "" {
		t.Error("the grace was over before the client came")
	}
	_ = syscall.Kill(s.Server, syscall.SIGKILL)
	s.Gone()
	s.EndedWhole("signal")
}
