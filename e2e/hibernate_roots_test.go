package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// What a woken server asks its client, and what the client answers.

func (s *session) giveRoots(question, roots string) {
	s.t.Helper()
	r := s.parseAny(question)
	if r.Method != "roots/list" {
		s.t.Fatalf("want the question for roots, got %s", question)
	}
	s.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%q}`+"\n", r.ID, roots))
}

// timeToAsk is for a server that asks for roots by itself: one that sleeps before it has asked is not known to ask. No
// call may keep it awake meanwhile: roots that are asked for amid the work cannot be given to another server.
const timeToAsk = "--hibernate=2s"

// A woken server that asks for the client's roots has the answer before the first call, which stands before it in the
// client's stream.
func TestHibernateRoots(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.mode("roots")
	s.spawn(setup{flags: sleepy(timeToAsk)}, fixture, "mcp", s.dir, "-", "0", "serve", "daemon")
	s.greet()
	s.giveRoots(s.read(), "first")
	s.ids = s.records()
	for n := 1; n <= 3; n++ {
		s.asleep(n)
		s.write(toolCall(n, "where", "") + "\n")
		now := fmt.Sprintf("roots %d", n)
		s.giveRoots(s.read(), now)
		if got := s.read(); !strings.Contains(got, now) {
			t.Fatalf("wake %d: the call was judged by %s", n, got)
		}
	}
	s.farewell()
}

// A client that does not answer, or refuses now, gets an error for its call instead of one that was judged without roots.
func TestHibernateWithoutRoots(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no answer": "",
		"refused":   `{"jsonrpc":"2.0","id":"r","error":{"code":-32603,"message":"no"}}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			s.mode("roots")
			s.spawn(setup{flags: sleepy(timeToAsk, "--wake-timeout=5s")}, fixture, "mcp", s.dir, "-", "0", "serve", "daemon")
			s.greet()
			s.giveRoots(s.read(), "first")
			s.ids = s.records()
			s.asleep(1)
			s.write(toolCall(1, "where", "") + "\n")
			if question := s.read(); !strings.Contains(question, "roots/list") {
				t.Fatalf("got %s", question)
			}
			s.write(answer)
			if answer == "" {
				if withdrawn := s.read(); !strings.Contains(withdrawn, "notifications/cancelled") {
					t.Fatalf("got %s", withdrawn)
				}
			}
			s.wantError(s.read(), 1, "roots")
			if got := strings.Join(s.got(), "\n"); strings.Contains(got, `"where"`) {
				t.Errorf("a server got the call:\n%s", got)
			}
			s.until("asleep", func() bool { return s.sleeper().State == "asleep" })
			s.farewell()
		})
	}
}

// The late answer to a question of the first server is not the consent that the second one asks for under the same id.
func TestHibernateLateConsent(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.mode("impatient")
	s.spawn(setup{flags: sleepy()}, fixture, "mcp", s.dir, "-", "0", "serve", "daemon")
	s.greetHeld(50)
	if question := s.read(); !strings.Contains(question, `"id":0,"method":"sampling/createMessage"`) {
		t.Fatalf("got %s", question)
	}
	s.ids = s.records()
	s.mode("")
	s.write(toolCall(1, "withdraw", "") + "\n")
	s.wantAnswer(s.read(), 1)
	if withdrawn := s.read(); !strings.Contains(withdrawn, "notifications/cancelled") {
		t.Fatalf("got %s", withdrawn)
	}
	s.letGo(50)
	s.asleep(1)
	s.write(toolCall(2, "consent", "") + "\n")
	question := s.parseAny(s.read())
	if question.Method != "elicitation/create" || string(question.ID) == "0" {
		t.Fatalf("got %+v", question)
	}
	s.write(`{"jsonrpc":"2.0","id":0,"result":"late"}` + "\n" + fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":"yes"}`+"\n", question.ID))
	if got := s.read(); !strings.Contains(got, "yes") {
		t.Fatalf("the server took %s for its answer", got)
	}
	s.farewell()
}

// A ping is answered while the server sleeps, and does not count as use while it is awake. Strays disturb nothing.
// Seen to fail where a ping counts as use, where it wakes a server (10 starts), and where a stray does.
func TestHibernatePings(t *testing.T) {
	t.Parallel()
	s := greeted(t, setup{flags: sleepy()}, "serve", "daemon")
	id := 100
	for late := time.Now().Add(testkit.Patience); s.sleeper().State != "asleep"; {
		if time.Now().After(late) {
			t.Fatal("it is kept awake by pings")
		}
		id++
		s.wantAnswer(s.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id)), id)
		pause(limit / 10)
	}
	end := time.Now().Add(2 * limit)
	for time.Now().Before(end) {
		id++
		s.write(fmt.Sprintf(cancelRequest, id) + "\n" + `{"jsonrpc":"2.0","id":"s1","result":{}}` + "\n")
		s.wantAnswer(s.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id)), id)
		pause(limit / 10)
	}
	if r := s.sleeper(); r.State != "asleep" || r.Sleeps != 1 || s.starts() != 1 {
		t.Errorf("it was disturbed: %+v, %d starts", r, s.starts())
	}
	s.echo(1)
	s.farewell()
}

// The official server for files: with roots it serves those and not what is on its command line, after a sleep as
// before.
func TestHibernateRealRoots(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	inside, outside := filepath.Join(dir, "inside"), filepath.Join(dir, "outside")
	for _, d := range []string{inside, outside} {
		noError(t, os.Mkdir(d, 0o777))
		noError(t, os.WriteFile(filepath.Join(d, "file"), []byte("content of "+d), 0o666))
	}
	p := startPatient(t, dir, toldServer{Roots: []string{"file://" + inside}, Idle: "2s"}, "node", filesystemJS, outside)
	read := func(file string) (string, bool) {
		t.Helper()
		answer := p.order(map[string]any{"try": map[string]any{"name": "read_text_file", "arguments": map[string]string{"path": file}}})
		return answer.Text, strings.Contains(answer.Text, "content of")
	}
	cycles := rounds(10)
	for i := 1; i <= cycles; i++ {
		p.asleep()
		// Which of them wakes the server is judged first.
		first, second := filepath.Join(outside, "file"), filepath.Join(inside, "file")
		if i%2 == 0 {
			first, second = second, first
		}
		for _, file := range []string{first, second} {
			if text, ok := read(file); ok != strings.HasPrefix(file, inside) {
				t.Errorf("cycle %d: %s: %q", i, file, text)
			}
		}
	}
	p.bye()
}

// A woken server asks for sampling, elicitation and roots, and gets its answers.
func TestHibernateRealQuestions(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	p := startPatient(t, dir, toldServer{Roots: []string{"file://" + dir}, Idle: "3s"}, "node", everythingJS)
	for i := 1; i <= rounds(6); i++ {
		p.asleep()
		for _, c := range []struct {
			name      string
			arguments map[string]any
			want      string
		}{
			{"trigger-sampling-request", map[string]any{"prompt": "p", "maxTokens": 5}, "sampled"},
			{"trigger-elicitation-request", map[string]any{}, "accept"},
			{"get-roots-list", map[string]any{}, dir},
		} {
			if text := p.call(c.name, c.arguments).Text; !strings.Contains(text, c.want) {
				t.Errorf("wake %d: %s: %q", i, c.name, text)
			}
		}
	}
	p.bye()
}
