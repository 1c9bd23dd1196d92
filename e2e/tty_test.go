package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// tty is a terminal with somebody at the keyboard: the test. What is started in it leads a terminal session of its own.
type tty struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	unread string
	asked  int
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

// openTTY starts the command in a new terminal.
func openTTY(t *testing.T, env []string, lifeline *os.File, argv ...string) *tty {
	t.Helper()
	master, slave := openPair(t)
	keepOutput(t, slave)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if lifeline != nil {
		cmd.ExtraFiles = make([]*os.File, lifelineFD-2)
		cmd.ExtraFiles[lifelineFD-3] = lifeline
		defer lifeline.Close()
	}
	ok(t, cmd.Start())
	_ = slave.Close()
	y := &tty{t: t, master: master, cmd: cmd}
	t.Cleanup(func() {
		y.hangUp()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return y
}

func openPair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	testkit.Lacks(t, testkit.Tools, err != nil, "pseudo terminals")
	ok(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	ok(t, err)
	name := fmt.Sprintf("/dev/pts/%d", n)
	other, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	ok(t, err)
	return os.NewFile(uintptr(fd), "ptmx"), os.NewFile(uintptr(other), name)
}

// keepOutput has an interrupt throw nothing away. Otherwise the kernel empties the queues of the terminal after it has
// sent the signal (n_tty.c, isig). On a busy machine that may still hit what a program writes upon a later event.
func keepOutput(t *testing.T, slave *os.File) {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	ok(t, err)
	mode.Lflag |= unix.NOFLSH
	ok(t, unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, mode))
}

// newShell is a terminal with an interactive shell, whose prompt is "$? outer$ ". In its environment TETHER is the
// command line of the wrapper, and FIXTURE the fixture. LIFE is the session's lifeline, which the command is to open at
// fd 9, and DIR is the session's directory.
func newShell(t *testing.T, flags ...string) (*tty, *session) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	testkit.Lacks(t, testkit.Tools, err != nil, "bash")
	s := startGateway(t).newSession()
	y := openTTY(t, []string{
		"TERM=dumb", "PS1=$? outer$ ", "HISTFILE=", "HOME=" + s.Dir, "XDG_RUNTIME_DIR=" + s.Runtime,
		"TETHER=" + strings.Join(s.Wrap(quick(flags...)), " "), "FIXTURE=" + fixture, "LIFE=" + s.Life.Path, "DIR=" + s.Dir,
	}, nil, bash, "--norc", "--noprofile")
	y.expect("outer$ ")
	return y, s
}

// typed goes in as from the keyboard. The terminal echoes it: what is expected from a command must not be in its text.
func (y *tty) typed(text string) {
	y.t.Helper()
	if _, err := y.master.WriteString(text); err != nil {
		y.t.Fatal(err)
	}
}

// expect reads until one of the texts is on the screen.
func (y *tty) expect(texts ...string) {
	y.t.Helper()
	if found, err := y.look(testkit.Patience, texts...); !found {
		y.t.Fatalf("instead of %q the screen shows %q (%v)", texts, y.unread, err)
	}
}

// look is expect with another limit, and without consequences.
func (y *tty) look(limit time.Duration, texts ...string) (found bool, err error) {
	_ = y.master.SetReadDeadline(time.Now().Add(limit))
	chunk := make([]byte, 4096)
	for err == nil {
		for _, text := range texts {
			if _, after, found := strings.Cut(y.unread, text); found {
				y.unread = after
				return true, nil
			}
		}
		var n int
		n, err = y.master.Read(chunk)
		y.unread += string(chunk[:n])
	}
	return false, err
}

// settle waits until the shell at the prompt answers. Around an interrupt, keys may get lost between the terminal and
// the shell's line editor: then they are typed again.
func (y *tty) settle(prompt string) {
	y.t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		y.asked++
		y.typed(fmt.Sprintf("\necho set''tled-%d.\n", y.asked))
		answer := fmt.Sprintf("settled-%d.", y.asked)
		if found, _ := y.look(time.Second, answer); found {
			y.expect(prompt)
			return
		}
	}
	y.t.Fatalf("the shell does not answer; the screen shows %q", y.unread)
}

// code expects the prompt of the outer shell, which begins with the exit code of what ran in it.
func (y *tty) code(want string) {
	y.t.Helper()
	y.expect("\n" + want + " outer$ ")
}

func (y *tty) resize(rows, columns uint16) {
	y.t.Helper()
	raw, err := y.master.SyscallConn()
	ok(y.t, err)
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
	if err != nil || set != nil {
		y.t.Fatal(err, set)
	}
}

// hangUp closes the terminal.
func (y *tty) hangUp() { _ = y.master.Close() }

// ready waits for the line of a fixture that is up.
func (y *tty) ready() {
	y.t.Helper()
	y.expect(`"method":"ready"`)
	y.expect("\n")
}

// waitTaken waits until the process has no signal pending.
func waitTaken(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); {
		status, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
		if err != nil {
			return
		}
		var pending uint64
		_, after, _ := strings.Cut(string(status), "\nShdPnd:\t")
		if _, err := fmt.Sscanf(after, "%x", &pending); err != nil {
			t.Fatal(err)
		}
		if pending&(1<<(sig-1)) == 0 {
			return
		}
	}
	t.Fatalf("process %d does not take signal %v", pid, sig)
}
