package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// stage is where one story is played.
type stage struct {
	gateway  int
	wrapper  int // the gateway's child: the wrapper, or bare the server
	requests io.WriteCloser
	lines    chan string
	procs    proc.Reader
	self     string
	box      container
}

// playStage plays one story and prints what it shows: "-", or what is left. The arguments are the story's name, the
// container's image, and the wrapper.
func playStage(args []string) error {
	at := slices.IndexFunc(allCases(), func(c story) bool { return c.name == args[0] })
	if at < 0 {
		return fmt.Errorf("no case %q", args[0])
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	c := allCases()[at]
	s := &stage{lines: make(chan string, 64), self: exe}
	if c.contained {
		s.box = container{image: args[1], label: fmt.Sprintf("peers=%d", os.Getpid())}
		defer s.box.remove()
	}
	defer s.clear()
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	played := make(chan error, 1)
	go func() {
		found, err := s.play(c, args[2:])
		if err == nil {
			fmt.Println(found)
		}
		played <- err
	}()
	select {
	case <-told:
		return errors.New("interrupted")
	case err := <-played:
		return err
	}
}

func (s *stage) play(c story, wrapper []string) (string, error) {
	argv, err := self("server", c.cast)
	if err != nil {
		return "", err
	}
	if c.contained {
		argv = s.box.command(argv)
	}
	if c.launched {
		argv = append([]string{"sh", "-c", `"$@"; :`, "launcher"}, argv...)
	}
	if err := s.open(append(wrapper, argv...), c.oneShot); err != nil {
		return "", err
	}
	lost := c.act(s)
	if lost != nil && !errors.Is(lost, errNoAnswer) {
		return "", lost
	}
	left, err := s.left()
	if err != nil {
		return "", err
	}
	if lost != nil {
		left = append([]string{"answer lost"}, left...)
	}
	if len(left) == 0 {
		return "-", nil
	}
	return strings.Join(left, ", "), nil
}

// open starts the gateway, and returns once the server has answered, or for a one-shot has been sent all.
func (s *stage) open(server []string, oneShot bool) error {
	argv, err := self("gateway", server...)
	if err != nil {
		return err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if s.requests, err = cmd.StdinPipe(); err != nil {
		return fmt.Errorf("make the gateway's stdin: %w", err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("make the gateway's stdout: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the gateway: %w", err)
	}
	s.gateway = cmd.Process.Pid
	go func() {
		defer close(s.lines)
		for in := bufio.NewScanner(answers); in.Scan(); {
			s.lines <- in.Text()
		}
	}()
	if _, err := fmt.Sscanf(<-s.lines, "started %d", &s.wrapper); err != nil {
		return fmt.Errorf("the gateway started nothing: %w", err)
	}
	first := ping(pingID)
	if oneShot {
		first = call
	}
	if _, err := io.WriteString(s.requests, first+"\n"); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	if oneShot {
		return s.requests.Close()
	}
	return s.awaitAnswer(pingID, startup)
}

var errNoAnswer = errors.New("no answer")

// awaitAnswer passes over all but the answer with that id, in whatever spelling: some wrappers write it anew.
func (s *stage) awaitAnswer(id int, patience time.Duration) error {
	enough := time.After(patience)
	for {
		select {
		case line, open := <-s.lines:
			var got struct {
				ID     int             `json:"id"`
				Result json.RawMessage `json:"result"`
			}
			if json.Unmarshal([]byte(line), &got) == nil && got.ID == id && got.Result != nil {
				return nil
			}
			if !open {
				return fmt.Errorf("%w to %d: the stream ended", errNoAnswer, id)
			}
		case <-enough:
			return fmt.Errorf("%w to %d within %v", errNoAnswer, id, patience)
		}
	}
}

func (s *stage) awaitCall() error { return s.awaitAnswer(callID, patience) }

// awaitState returns once a process is in that state of proc_pid_stat(5).
func (s *stage) awaitState(pid int, state byte) error {
	for end := time.Now().Add(startup); time.Now().Before(end); time.Sleep(tick) {
		if stat, err := s.procs.Stat(pid); err != nil || stat.State == state {
			return err
		}
	}
	return fmt.Errorf("process %d does not get into state %c", pid, state)
}

// launcher is the shell that started the server; bare it is the gateway's child.
func (s *stage) launcher() (int, error) {
	table, err := s.procs.Descendants(s.gateway)
	if err != nil {
		return 0, fmt.Errorf("look for the launcher: %w", err)
	}
	for _, p := range table {
		if args, err := s.procs.Args(p); err == nil && len(args) > 1 && filepath.Base(args[0]) == "sh" && args[1] == "-c" {
			return p.PID, nil
		}
	}
	return 0, errors.New("the launcher is not there")
}

const tick = 50 * time.Millisecond

// left names what is still there when patience is over. Two empty looks in a row count: a process may be born during one.
func (s *stage) left() ([]string, error) {
	empty := 0
	for end := time.Now().Add(patience); ; time.Sleep(tick) {
		names, err := s.census()
		if err != nil {
			return nil, err
		}
		if len(names) == 0 && s.box.there() {
			names = []string{"container"}
		}
		if len(names) > 0 {
			empty = 0
		} else if empty++; empty == 2 {
			return nil, nil
		}
		if time.Now().After(end) {
			return names, nil
		}
	}
}

// census names each living process of the stage but the gateway by its role, or else by its program.
func (s *stage) census() (names []string, err error) {
	table, err := s.procs.Descendants(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("look who is left: %w", err)
	}
	for _, p := range table {
		if p.PID == s.gateway || p.Dead() {
			continue
		}
		name := p.Comm
		if args, err := s.procs.Args(p); err == nil && len(args) > 2 && args[0] == s.self && args[1] == playArg {
			name = args[2]
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// clear ends all that is left. Only children are killed: they are waited for here and nowhere else, so a pid is no other
// process's. What they leave is a child next.
func (s *stage) clear() {
	for {
		table, err := s.procs.Descendants(os.Getpid())
		for _, p := range table {
			if p.PPID == os.Getpid() {
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		pid, waited := syscall.Wait4(-1, nil, 0, nil)
		if err != nil || pid <= 0 && !errors.Is(waited, syscall.EINTR) {
			return
		}
	}
}
