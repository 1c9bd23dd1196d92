package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// A container keeps the server that made it awake, as its work is not the server's to tell, and what has become of it is not asked.
// The control is a server that makes none, see TestHibernateServerInContainer.
func TestHibernateNeverWithContainer(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	for _, c := range []struct {
		name, words string
	}{
		{"detached", "-d $image tool rest"},
		{"kept", "-d --label mcp-tether.keep=1 $image tool rest"},
		{"over", "$image tool say a b 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mark := e.mark(t)
			with := setup{Flags: sleepy()}
			s := startGateway(t).newSession()
			with.Env = boxEnviron(e, s)
			s.Spawn(with, fixture, "mcp", s.Dir, "-", "0", "serve")
			s.greet()
			s.hold(1)
			s.IDs = s.Records()
			run := "exec docker run --network none --label " + markLabel + "=" + mark + " " + strings.ReplaceAll(c.words, "$image", e.image(t)) + " >/dev/null"
			s.wantAnswer(s.Ask(toolCall(2, "run", run)), 2)
			s.Write(fmt.Sprintf(cancelRequest, 1) + "\n")
			s.keptAwake("container ")
			e.remove(t, e.marked(t, mark)...)
			s.keptAwake("container ")
			s.echo(3)
			s.farewell()
		})
	}
}

// A server that is itself in a container, which ends with its client, sleeps as ever.
func TestHibernateServerInContainer(t *testing.T) {
	e := engineFor(t)
	t.Parallel()
	mark := e.mark(t)
	s := startGateway(t).newSession()
	s.Spawn(setup{Flags: sleepy(), Env: boxEnviron(e, s)}, "docker", "run", "-i", "--rm", "--network", "none", "--label", markLabel+"="+mark,
		e.image(t), "boxed", "mcp")
	s.waitBox()
	s.greet()
	for n := range 2 {
		s.asleep(n + 1)
		if left := e.marked(t, mark); len(left) > 0 {
			t.Errorf("asleep, and there is %v", left)
		}
		s.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", n+1))
		s.waitBox() // it says again that it is up
		s.wantAnswer(s.Read(), n+1)
	}
	s.closeStdin()
	s.Wait()
	s.Gone()
}
