package proc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// A signal to a pid that changed hands must reach no process. In a pid namespace of its own the test can choose the
// next pid through ns_last_pid. So it causes the reuse instead of waiting for it.
func TestSignalSparesReusedPID(t *testing.T) {
	testkit.Need(t, testkit.Namespaces)
	cmd := testkit.Command(t, "reuse")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// reuseRounds is how often the pid is reused for each way of signalling.
const reuseRounds = 3

var _ = testkit.Role("reuse", reuse)

// reuse is the test itself, as init of the namespace.
func reuse() {
	if err := ownProc(); err != nil {
		testkit.Fail(err.Error())
	}
	var r Reader
	for range reuseRounds {
		for what, signal := range map[string]func(ID) error{
			"pidfd":    func(id ID) error { return r.Signal(id, syscall.SIGKILL) },
			"no pidfd": func(id ID) error { return r.signalByPID(id, []syscall.Signal{syscall.SIGKILL}) },
		} {
			if err := reuseOnce(&r, signal); err != nil {
				testkit.Fail(what + ": " + err.Error())
			}
		}
	}
}

func ownProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	return nil
}

func reuseOnce(r *Reader, signal func(ID) error) error {
	victim, err := newSpare(r)
	if err != nil {
		return err
	}
	if err := victim.kill(); err != nil {
		return err
	}
	innocent, err := take(r, victim.ID)
	if err != nil {
		return err
	}
	if err := signal(victim.ID); !errors.Is(err, ErrGone) {
		return fmt.Errorf("signal %v while %v lives: %w, want ErrGone", victim.ID, innocent.ID, err)
	}
	if err := innocent.answers(); err != nil {
		return fmt.Errorf("innocent %v after a signal to %v: %w", innocent.ID, victim.ID, err)
	}
	// The negative control: the bare number does reach it.
	if err := unix.Kill(victim.PID, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(innocent.PID, &ws, 0, nil); err != nil || ws.Signal() != unix.SIGKILL {
		return fmt.Errorf("the control was not killed: %#x, %w", ws, err)
	}
	innocent.close()
	return nil
}

// take starts processes until one has the pid, and another start time: two within a clock tick cannot be told apart.
func take(r *Reader, id ID) (*spare, error) {
	for {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(id.PID-1)), 0); err != nil {
			return nil, err
		}
		s, err := newSpare(r)
		if err != nil || s.PID == id.PID && s.Start != id.Start {
			return s, err
		}
		if err := s.kill(); err != nil {
			return nil, err
		}
	}
}

// spare is a process that answers.
type spare struct {
	ID
	in, out *os.File
	lines   *bufio.Reader
}

func newSpare(r *Reader) (*spare, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p, err := os.StartProcess(SelfExe, []string{"spare", "role", "echo"}, &os.ProcAttr{
		Files: []*os.File{inR, os.Stdout, os.Stderr, outW},
	})
	inR.Close()
	outW.Close()
	if err != nil {
		return nil, err
	}
	s := &spare{in: inW, out: outR, lines: bufio.NewReader(outR)}
	if _, err := s.lines.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("wait for %d to come up: %w", p.Pid, err)
	}
	st, err := r.Stat(p.Pid)
	s.ID = st.ID
	return s, err
}

func (s *spare) answers() error {
	if _, err := s.in.WriteString("still\n"); err != nil {
		return err
	}
	if line, err := s.lines.ReadString('\n'); err != nil || line != "still\n" {
		return fmt.Errorf("answered %q: %w", line, err)
	}
	return nil
}

func (s *spare) kill() error {
	s.close()
	if err := unix.Kill(s.PID, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill %v: %w", s.ID, err)
	}
	_, err := unix.Wait4(s.PID, nil, 0, nil)
	return err
}

func (s *spare) close() {
	s.in.Close()
	s.out.Close()
}
