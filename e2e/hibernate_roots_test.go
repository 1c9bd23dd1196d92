package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// What a woken server asks its client, and what the client answers.

func (s *session) giveRoots(question, roots string) {
	s.t.Helper()
	r := s.parseAny(question)
	if r.Method != "roots/list" {
		s.t.Fatalf("want the question for roots, got %s", question)
	}
	s.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`+"\n", r.ID, roots))
}

// timeToAsk is for a server that asks for roots by itself: one that sleeps before it has asked is not known to ask. No
// call may keep it awake meanwhile: roots that are asked for amid the work cannot be given to another server.
const timeToAsk = "--hibernate=2s"

// The same with a call right behind the handshake: then it cannot be seen whether the server asks for the call or at its start.
func TestHibernateRootsBesideACall(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.mode("roots")
	s.Spawn(setup{Flags: sleepy(timeToAsk)}, fixture, "mcp", s.Dir, "-", "0", "serve", "daemon")
	s.wantAnswer(s.Ask(initialize(version)), 0)
	s.Write(initialized + "\n" + toolCall(7, "echo", "") + "\n")
	for range 2 {
		if line := s.Read(); strings.Contains(line, "roots/list") {
			s.giveRoots(line, "first")
		}
	}
	s.IDs = s.Records()
	s.asleep(1)
	s.Write(toolCall(8, "where", "") + "\n")
	s.giveRoots(s.Read(), "again")
	if got := s.Read(); !strings.Contains(got, "again") {
		t.Fatalf("the call was judged by %s", got)
	}
	s.farewell()
}

// A woken server that asks for the client's roots has the answer before the first call, which stands before it in the
// client's stream.
func TestHibernateRoots(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.mode("roots")
	s.Spawn(setup{Flags: sleepy(timeToAsk)}, fixture, "mcp", s.Dir, "-", "0", "serve", "daemon")
	s.greet()
	s.giveRoots(s.Read(), "first")
	s.IDs = s.Records()
	for n := 1; n <= 2; n++ {
		s.asleep(n)
		s.Write(toolCall(n, "where", "") + "\n")
		now := fmt.Sprintf("roots %d", n)
		s.giveRoots(s.Read(), now)
		if got := s.Read(); !strings.Contains(got, now) {
			t.Fatalf("wake %d: the call was judged by %s", n, got)
		}
	}
	s.farewell()
}
