package e2e

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// small starts mcp-tether on a terminal of 80 columns and 24 lines.
func small(t *testing.T, env []string, args ...string) *tty {
	t.Helper()
	r, w, err := os.Pipe()
	ok(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return openTTY(t, env, w, append([]string{"/bin/sh", "-c", `stty rows 24 cols 80; echo rea''dy; read go; exec "$0" "$@"`, tether}, args...)...)
}

const (
	otherScreen = "\x1b[?1049h"
	firstScreen = "\x1b[?1049l"
)

// mode is how the terminal reads keys.
func (y *tty) mode() unix.Termios {
	y.t.Helper()
	raw, err := y.master.SyscallConn()
	ok(y.t, err)
	var mode *unix.Termios
	ok(y.t, raw.Control(func(fd uintptr) { mode, err = unix.IoctlGetTermios(int(fd), unix.TCGETS) }))
	ok(y.t, err)
	return *mode
}

// ps --watch shows each gateway with its sessions; a key stops the chosen one after a question. What a name would do to a terminal
// it does not do.
func TestPsWatch(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	g := startGateway(t)
	a, b := g.named("first\x1b[2J\x1b]0;x\a", "serve"), g.named("second", "serve")
	y := small(t, nil, "ps", "--watch")
	y.expect("ready")
	y.typed("\n")
	for _, text := range []string{otherScreen, "SESSION", "\x1b[1m  " + strconv.Itoa(g.PID) + " fixture", "\x1b[7m> root  " + a.ID()[:8] + "  first?[2J?]0;x?  running", "\x1b[32m  root  " + b.ID()[:8]} {
		y.expect(text)
	}
	y.typed("\x1b[B")
	y.expect("\x1b[7m> root  " + b.ID()[:8])
	y.typed("k")
	y.expect("\x1b[7m> root  " + a.ID()[:8])
	y.typed("\x1bOBs")
	y.expect("Stop " + b.ID() + " second? y/n")
	y.typed("n")
	y.expect("s: stop")
	y.resize(6, 80)
	y.expect("more lines")
	if !a.whole(4) || !b.whole(4) {
		t.Error("one was stopped after a no")
	}
	y.typed("xy")
	y.expect("ended " + b.ID() + " second")
	b.WaitDead()
	y.expect("> root  " + a.ID()[:8])
	if !a.whole(4) {
		t.Error("the other one was stopped")
	}
	y.typed("q")
	y.expect(firstScreen)
	ok(t, y.cmd.Wait())
	endNicely(g, a)
}

// Whatever ends it, or stops it for a while, the terminal is as it was.
func TestPsWatchRestoresTheTerminal(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for name, end := range map[string]func(*tty){
		"q":      func(y *tty) { y.typed("q") },
		"Ctrl-C": func(y *tty) { y.typed(ctrlC) },
		"TERM":   func(y *tty) { _ = y.cmd.Process.Signal(syscall.SIGTERM) },
		"HUP":    func(y *tty) { _ = y.cmd.Process.Signal(syscall.SIGHUP) },
		"QUIT":   func(y *tty) { y.typed("\x1c") },
		"stopped, nobody continues": func(y *tty) { // The kernel stops nobody without a shell that would continue it.
			y.typed(ctrlZ)
			y.expect(firstScreen)
			y.expect(otherScreen)
			y.typed("q")
		},
	} {
		y := small(t, []string{"NO_COLOR=1"}, "ps", "--watch")
		y.expect("ready")
		before := y.mode()
		y.typed("\n")
		y.expect("no living sessions")
		if during := y.mode(); during.Lflag&(unix.ICANON|unix.ECHO) != 0 || strings.Contains(y.unread, "\x1b[3") {
			t.Errorf("%s: mode %x; colour without leave: %q", name, during.Lflag, y.unread)
		}
		end(y)
		y.expect(firstScreen)
		if err := y.cmd.Wait(); err != nil || y.mode() != before {
			t.Errorf("%s: %v; mode %+v, before %+v", name, err, y.mode(), before)
		}
	}
}

// Ctrl-Z gives the shell its terminal, and fg shows the list again.
func TestPsWatchStopped(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	y, _ := newShell(t)
	y.typed("TERM=xterm " + tether + " ps --watch\n")
	for range 2 {
		y.expect(otherScreen)
		y.expect("q: quit")
		y.typed(ctrlZ)
		y.expect(firstScreen)
		y.expect("Stopped")
		y.typed("stty -a | grep -o ' icanon.*' | tr -d ' '\n")
		y.expect("icanon")
		y.settle("outer$ ")
		y.typed("fg\n")
	}
	y.expect(otherScreen)
	y.typed("q")
	y.expect(firstScreen)
	y.expect("0 outer$ ")
}
