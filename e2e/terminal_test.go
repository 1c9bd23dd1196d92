package e2e

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A shell inside the wrapper is as good as one without.
func TestTerminalShell(t *testing.T) {
	t.Parallel()
	y, s := newShell(t)
	y.typed("PS1='$? 'inner'$ ' $TETHER bash --norc --noprofile 9>$LIFE\n")
	y.expect("inner$ ")
	s.IDs = s.Records()
	y.foreground(strconv.Itoa(y.cmd.Process.Pid))
	y.interrupts()
	y.stops()
	// Not at the prompt: readline sets the size that it has just read.
	y.typed("sh -c 'echo wa''iting; read x; stty size'\n")
	y.expect("waiting")
	y.resize(33, 77)
	y.typed("\n")
	y.expect("33 77")
	y.settle("inner$ ")
	y.typed("$FIXTURE node $DIR - 0 plain daemon setsid,closefds,clearenv,chdir &\n")
	y.expect(`"method":"ready"`)
	y.typed("exit 5\n")
	y.code("5")
	s.Gone()
	s.EndedWhole("server-exited")
}

// foreground expects that the shell has the terminal, in the session of its leader.
func (y *tty) foreground(leader string) {
	y.t.Helper()
	y.typed("read -r a b c d group session tty front rest </proc/$$/stat\n")
	y.typed("echo $((group == front)) $((session == " + leader + "))=\n")
	y.expect("1 1=")
}

// interrupts types Ctrl-C at the prompt, where it ends nothing, and at a command, which it ends.
func (y *tty) interrupts() {
	y.t.Helper()
	for range 3 {
		y.typed(ctrlC)
	}
	y.settle("inner$ ")
	y.typed("sh -c 'echo st''arted; exec sleep 100'\n")
	y.expect("started")
	y.typed(ctrlC)
	y.expect("130 inner$ ")
	y.settle("inner$ ")
}

// stops a command of the shell by Ctrl-Z.
func (y *tty) stops() {
	y.t.Helper()
	y.typed("sh -c 'echo st''arted; exec sleep 100'\n")
	y.expect("started")
	y.typed(ctrlZ)
	y.expect("Stopped")
	y.settle("inner$ ")
	y.typed("kill -KILL %1; wait; echo ki''lled\n")
	y.expect("killed")
	y.settle("inner$ ")
}

// endedByAnother types the interrupt after the first one. On a busy machine the two may be too far apart to belong
// together. Then others are typed, in pairs that are close enough, and each pair has time to show what it does.
func (y *tty) endedByAnother() {
	y.t.Helper()
	const near, enough = 200 * time.Millisecond, 5 * time.Second
	wait := enough
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		y.typed(ctrlC)
		if ended, _ := y.look(wait, "got 15\r"); ended {
			return
		}
		if wait == enough {
			wait = near
		} else {
			wait = enough
		}
	}
	y.t.Fatalf("no interrupt ends it; the screen shows %q", y.unread)
}

// timeToSay is the grace of a server that no signal ends, but that must get to say that it had one.
const timeToSay = "--term-grace=3s"

// A server that no signal ends: the first Ctrl-C is its own business, the next one ends it.
func TestTerminalInterruptedTwice(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	y, s := newShell(t, timeToSay)
	y.typed("$TETHER $FIXTURE signals 9>$LIFE\n")
	y.ready()
	y.resize(40, 100)
	y.expect("got 28\r")
	y.typed(ctrlC)
	y.expect("got 2\r")
	waitTaken(t, s.Supervisor(), syscall.SIGINT)
	y.resize(41, 100)
	y.expect("got 28\r") // it lives
	y.endedByAnother()
	y.code("137")
	s.Gone()
	if c := s.EndedWhole("signal"); c.Signal != "SIGINT" {
		t.Errorf("signal = %q", c.Signal)
	}
}

// Ctrl-Z stops the job, and fg continues it.
func TestTerminalStopped(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	y, s := newShell(t)
	y.typed("$TETHER sed -u 's/^/sa''id: /' 9>$LIFE\n")
	y.typed("one\n")
	y.expect("said: one")
	s.IDs = s.Records()
	for range 2 {
		y.typed(ctrlZ)
		y.expect("Stopped")
		y.settle("outer$ ")
		y.typed("fg\n")
		y.typed("two\n")
		y.expect("said: two")
	}
	y.typed(ctrlD)
	y.code("0")
	s.Gone()
	s.EndedWhole("server-exited") // The key says nothing to those who do not read.
}

// hungUp is a tree in a terminal that is closed.
var hungUp = []string{"serve,ignore-eof", "daemon", "setsid,closefds,clearenv,chdir", "pgrp"}

// The terminal is closed.
func TestTerminalHangUp(t *testing.T) {
	t.Parallel()
	t.Run("leader", func(t *testing.T) {
		t.Parallel()
		s := startGateway(t).newSession()
		argv := s.Wrap(deaf(), node(s.Dir, hungUp[0], hungUp[1:]...)...)
		y := openTTY(t, []string{"XDG_RUNTIME_DIR=" + s.Runtime}, holdLifeline(t, s.Life), argv...)
		y.ready()
		s.WaitRecord()
		y.hangUp()
		s.Gone()
		// The kernel hangs up the streams and signals the leader and the foreground group, and all of it is seen in any order.
		s.EndedWhole("signal", "stdin-closed", "stdout-closed", "server-exited")
	})
	for name, stdin := range map[string]string{"job": "", "job without stdin": "</dev/null "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, s := newShell(t, "--cgroup=off")
			y.typed("$TETHER $FIXTURE node $DIR - 0 " + quoted(hungUp) + stdin + "9>$LIFE\n")
			y.ready()
			s.WaitRecord()
			y.hangUp()
			s.Gone()
			// The shell dies of it as well.
			s.EndedWhole("signal", "stdin-closed", "stdout-closed", "server-exited", "gateway-gone")
		})
	}
}

// The control.
func TestTerminalHangUpLeaksBare(t *testing.T) {
	t.Parallel()
	y, s := newShell(t)
	y.typed("$FIXTURE node $DIR - 0 " + quoted(hungUp) + " 9>$LIFE\n")
	y.ready()
	y.hangUp()
	_ = y.cmd.Wait()
	if len(s.Members()) == 0 || !stage.Held(s.Flock) {
		t.Error("nothing is left of the bare tree")
	}
	s.EndAll()
}

// A person who talks to a server shares it with nobody, and is told so.
func TestShareOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r, w, err := os.Pipe()
	ok(t, err)
	defer r.Close()
	y := openTTY(t, []string{"XDG_RUNTIME_DIR=" + dir}, w, tether, "run", "--share", "--", "/bin/echo", "up")
	y.expect("--share, --lazy, --hibernate, --on-crash, --restart-on, --stdout-guard and --keep-stderr have no effect on a terminal")
	y.expect("up")
	if err := y.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func quoted(words []string) string {
	line := ""
	for _, w := range words {
		line += "'" + w + "' "
	}
	return line
}
