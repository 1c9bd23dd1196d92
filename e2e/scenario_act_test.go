package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// What happens to it.

func (s *scenario) signal(ts *testscript.TestScript, args []string) {
	sig := unix.SignalNum("SIG" + args[1])
	if sig == 0 {
		ts.Fatalf("no such signal: %s", args[1])
	}
	switch args[0] {
	case "gateway":
		if sig == syscall.SIGKILL {
			s.Gateway.Kill()
		} else {
			s.Gateway.Signal(sig)
		}
	case "group":
		s.Gateway.SignalGroup(sig)
	case "wrapper":
		s.Signal(sig)
	case "wrapper-group":
		s.Gateway.Call("killpg", s.Name, strconv.Itoa(int(sig)))
	case "pair":
		// As the kernel does when memory is short: neither sees the other's end.
		_ = syscall.Kill(s.PID, syscall.SIGSTOP)
		stage.Until(s.t, "a stopped wrapper", func() bool { return slices.Contains([]string{"T", "Z", "X", ""}, stage.Describe(s.PID).State) })
		for _, whom := range []string{"supervisor", "wrapper"} {
			pid := s.pid(ts, whom)
			_ = syscall.Kill(pid, sig) // in the control they are one
			stage.AwaitExit(s.t, pid)
		}
		stage.AwaitExit(s.t, s.Server) // by its death signal: while it ends nobody can read what it is
	default:
		ts.Check(syscall.Kill(s.pid(ts, args[0]), sig))
	}
}

// trace stops a process by ptrace until the play is over.
func (s *scenario) trace(ts *testscript.TestScript, args []string) {
	cmd := exec.Command(fixture, "trace", strconv.Itoa(s.pid(ts, args[0])))
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s.t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		ts.Fatalf("the tracer says %q, %v", line, err)
	}
}

// pid is a process by its part in the play. In the control the server stands for the wrapper's own.
func (s *scenario) pid(ts *testscript.TestScript, whom string) int {
	switch whom {
	case "wrapper":
		return s.PID
	case "server":
		return s.Server
	case "front":
		if s.setup.Bare {
			return s.Server
		}
		return childrenOf(s.PID)[0]
	case "supervisor":
		if s.setup.Bare {
			return s.Server
		}
		if s.supervisor == 0 { // its record goes when it ends
			s.supervisor = s.Supervisor()
		}
		return s.supervisor
	}
	ts.Fatalf("nobody here is called %s", whom)
	return 0
}

func (s *scenario) exit(*testscript.TestScript, []string)         { s.Gateway.Exit() }
func (s *scenario) close(_ *testscript.TestScript, args []string) { s.Close(args[0]) }
func (s *scenario) shutdown(*testscript.TestScript, []string)     { s.Shutdown() }
func (s *scenario) write(_ *testscript.TestScript, args []string) {
	s.Write(strings.Join(args, " ") + "\n")
}

func (s *scenario) ask(ts *testscript.TestScript, args []string) {
	var asked, answered struct{ ID json.RawMessage }
	line := strings.Join(args, " ")
	ts.Check(json.Unmarshal([]byte(line), &asked))
	answer := s.Ask(line)
	if err := json.Unmarshal([]byte(answer), &answered); err != nil || string(answered.ID) != string(asked.ID) {
		ts.Fatalf("answer %q (%v)", answer, err)
	}
}

// until has words of its own for a state: stuck=N is a server that sleeps in a write to a stream that nobody reads.
func (s *scenario) until(ts *testscript.TestScript, args []string) {
	what := strings.Join(args, " ")
	if fd, found := strings.CutPrefix(what, "server stuck="); found {
		stage.Until(s.t, what, func() bool { return stuckIn(s.Server, fd) })
		return
	}
	pid := s.pid(ts, args[0])
	in := args[1] != "not"
	states := strings.Join(args[1:], "")
	stage.Until(s.t, what, func() bool {
		state := stage.Describe(pid).State
		if in {
			return strings.Contains(states, state) && state != ""
		}
		return !strings.Contains(strings.TrimPrefix(states, "not"), state)
	})
}

// connect has a process outside, of the gateway's user or another one, connect to what listens in the tree, until disconnect or the end of the play.
func (s *scenario) connect(ts *testscript.TestScript, args []string) {
	cmd, uid := exec.Command(fixture, "use", args[0], s.Dir), s.world.UID
	if len(args) > 1 {
		uid, _ = strconv.Atoi(args[1])
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if os.Getuid() != 0 || uid == 0 { // All that a plain user runs is that user's.
		cmd.SysProcAttr = nil
	}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	s.user = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.t.Cleanup(s.user)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		ts.Fatalf("the user says %q, %v", line, err)
	}
	ts.Setenv("USER_PID", strconv.Itoa(cmd.Process.Pid))
}

func (s *scenario) disconnect(*testscript.TestScript, []string) { s.user() }
