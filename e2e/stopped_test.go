package e2e

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// A process of ours is stopped while a session starts, and the gateway is killed: that costs time, and nothing is left. Whoever waits
// above a stopped process continues it. Above what the gateway has started nobody does, so the test continues that.
// Where nobody continues a stopped process, the rounds were seen to take as long as all graces.
func TestStoppedAtStart(t *testing.T) {
	t.Parallel()
	for _, front := range []string{"", "--hibernate=10m"} {
		for _, who := range []string{"child", "grandchild"} {
			t.Run(strings.Trim(front+"/"+who, "-/"), func(t *testing.T) {
				t.Parallel()
				from := newSeed(t)
				for range testkit.Rounds(20) {
					s, after := startGateway(t).newSession(), from.between(0, 20*time.Millisecond)
					argv := s.Wrap(deaf(), node(s.Dir, "serve,ignore-eof", "daemon", "setsid,closefds,clearenv,chdir")...)
					if front != "" {
						argv = s.Wrap(deaf(front), node(s.Dir, "serve,ignore-eof", "daemon", "setsid,closefds,clearenv,chdir")...)
					}
					b := s.brief([]string{
						"who=" + who, "signal=" + strconv.Itoa(int(unix.SIGSTOP)), "after=" + strconv.FormatInt(after.Microseconds(), 10), "last=self",
					}, argv)
					if who == "child" {
						pause(50 * time.Millisecond)
						for _, p := range s.Wrappers() {
							_ = unix.Kill(p.PID, unix.SIGCONT)
						}
					}
					s.Gone()
					b.end()
					if t.Failed() {
						t.Fatalf("after %v", after)
					}
				}
			})
		}
	}
}

// brief is a gateway for one early death, see fixture/brief.go.
type brief struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// brief starts the gateway and returns when the signal is sent.
func (s *session) brief(keys, argv []string) *brief {
	s.t.Helper()
	full := append([]string{"brief", "stderr=" + s.Stderr, "lifeline=" + s.Life.Path, "env=XDG_RUNTIME_DIR=" + s.Runtime}, keys...)
	b := &brief{cmd: exec.Command(fixture, append(append(full, "--"), argv...)...)}
	b.cmd.Stderr = os.Stderr
	in, err := b.cmd.StdinPipe()
	s.ok(err)
	out, err := b.cmd.StdoutPipe()
	s.ok(err)
	b.in = in
	s.ok(b.cmd.Start())
	s.t.Cleanup(b.end)
	// This reads "sent", or the end of the file if the gateway itself got the signal.
	_, _ = bufio.NewReader(out).ReadString('\n')
	return b
}

func (b *brief) end() {
	_ = b.in.Close()
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}
