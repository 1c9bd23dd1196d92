package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcp-tether/e2e/testkit"
)

// A server that writes to standard output what is no message, and says on standard error why it ends.

// What stands in shell scripts around the fixture's server, and what these write.
const (
	noise  = "[INFO] listening\nready\n"
	noisy  = `echo "[INFO] listening"; echo ready; exec "$@"`
	fatal  = "fatal: no \"token\""
	failed = `"$@"; c=$?; echo 'fatal: no "token"' >&2; exit $c`
)

// scripted starts the fixture's server by a shell script.
func scripted(t *testing.T, with setup, script string, children ...string) *session {
	t.Helper()
	s := startGateway(t).newSession()
	s.Spawn(with, append([]string{"/bin/sh", "-c", script, "sh", fixture, "mcp", s.Dir, "-", "0", "serve"}, children...)...)
	return s
}

func (s *session) errors() string {
	s.t.Helper()
	b, err := os.ReadFile(s.Stderr)
	s.ok(err)
	return string(b)
}

// The client gets messages alone, also from the next server, as wherever a front stands. Without that the first thing that it gets is
// none: the control.
func TestStdoutGuard(t *testing.T) {
	t.Parallel()
	s := scripted(t, setup{Flags: sleepy()}, noisy)
	s.greet()
	s.IDs = s.Records()
	s.asleep(1)
	s.echo(3)
	s.farewell()
	if got := s.errors(); got != noise+noise {
		t.Errorf("standard error has %q", got)
	}
	bare := scripted(t, setup{Flags: awakeFlags(polite()...)}, noisy)
	if got := bare.Ask(initialize(version)); got != "[INFO] listening\n" {
		t.Errorf("without the guard the client got %q first", got)
	}
	bare.closeStdin()
	wantExit(t, bare.Wait(), "exit 0")
	bare.Gone()
	if got := bare.errors(); got != "" {
		t.Errorf("standard error has %q", got)
	}
}

// The error for a lost call quotes what the server has said last. Its standard error reaches the client as it is, and without the
// flag the error quotes nothing: the control.
func TestKeepStderr(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--keep-stderr", "--keep-stderr=false"} {
		env, read := ownHistory(t)
		s := scripted(t, setup{Flags: polite(flag, "--on-crash=restart"), Env: []string{env}}, failed, "daemon")
		s.greet()
		s.IDs = s.Records()
		line := s.Ask(toolCall(3, "die", "7"))
		s.wantError(line, 3, "the server ended (exit code 7) before it answered")
		if quoted := strings.Contains(s.parse(line).Error.Message, `; last line of its standard error: "fatal: no \"token\""`); quoted != (flag == "--keep-stderr") {
			t.Errorf("%s: %s", flag, line)
		}
		s.closeStdin()
		wantExit(t, s.Wait(), "exit 0")
		s.Gone()
		if got := s.errors(); got != fatal+"\n" {
			t.Errorf("%s: standard error has %q", flag, got)
		}
		p := wantPast(t, read, 1)[0]
		shown := strings.Contains(read(p.ID).stdout, "STDERR      "+fatal)
		if kept := slices.Equal(p.Stderr, []string{fatal}); kept != (flag == "--keep-stderr") || shown != kept {
			t.Errorf("%s: the history has %+v\n%s", flag, p, read(p.ID).stdout)
		}
	}
}

// A server that cannot be started says why in the answer to the handshake.
func TestKeepStderrNeverStarted(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.Spawn(setup{Flags: polite("--keep-stderr")}, "/bin/sh", "-c", "read x; echo need API_KEY >&2; exit 3")
	s.wantError(s.Ask(initialize(version)), 0, `(exit code 3) before it answered; last line of its standard error: "need API_KEY"`)
	s.Wait()
	s.Gone()
}

// A process that outlives the server, as it may, has its standard error open: that holds nothing up.
func TestKeepStderrHeldOpen(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := greeted(t, setup{Flags: polite("--keep-stderr")}, "serve", "daemon,keep")
	s.closeStdin()
	wantExit(t, s.Wait(), "exit 0")
	if !s.Alive() {
		t.Error("the process to keep is gone")
	}
	s.EndAll()
	s.NothingLeft()
}

// Of a shared server, the lines that are no messages go to standard error of the session that has been attached longest. Its last
// words are quoted to all. Switched off neither happens: the control.
func TestGuardAndKeepShared(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--stdout-guard=false", "--keep-stderr=false"}} {
		s := share(t, flags...)
		s.command[2] = strings.Replace(s.command[2], `exec "$@"`, `echo "[INFO] listening"; echo ready; `+failed, 1)
		c, other := s.client(), s.client()
		got, err := os.ReadFile(filepath.Join(s.Dir, "stderr"))
		ok(t, err)
		if want := map[bool]string{true: noise}[flags == nil]; string(got) != want {
			t.Errorf("%v: standard error has %q", flags, got)
		}
		other.write(toolCall(5, "hold", ""))
		testkit.Until(t, "held", func() bool { return s.received(`"hold"`) })
		c.write(toolCall(4, "die", "7"))
		for id, c := range map[int]*sharer{4: c, 5: other} {
			r := c.answer(id)
			if r.Error == nil || !strings.Contains(r.Error.Message, "(exit code 7)") || strings.Contains(r.Error.Message, `"fatal: no \"token\""`) != (flags == nil) {
				t.Errorf("%v: %+v", flags, r.Error)
			}
		}
		c.close()
		other.close()
	}
}
