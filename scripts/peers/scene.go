package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// playArg makes a process of this program play one story.
const playArg = "--play"

// What the gateway says. The server does not answer the call before it is told to end.
const (
	pingID = 1
	callID = 7
	call   = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hold"}}`
)

func ping(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id) }

// scene is where one story is played. The process is a child subreaper: all that is left becomes its child.
type scene struct {
	gateway *stage.Gateway
	wrapper int    // the gateway's child: the wrapper, or bare the server
	label   string // of the container, if there is one
}

// play plays one story and prints what it shows: "-", or what is left. The arguments are the fixture, the story's name, the
// container's image, and the wrapper. It clears up even if it is told to end.
func play(args []string) error {
	at := slices.IndexFunc(allCases(), func(c story) bool { return c.name == args[1] })
	if at < 0 {
		return fmt.Errorf("no case %q", args[1])
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	s := &scene{}
	if allCases()[at].contained {
		s.label = fmt.Sprintf("peers=%d", os.Getpid())
		defer func() { _ = stage.RemoveBoxes(s.label) }()
	}
	defer clearUp()
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	played := make(chan error, 1)
	go func() {
		played <- stage.Play(func(t *stage.Alone) {
			s.gateway = stage.Start(t, stage.Programs{Fixture: args[0]}, stage.World{})
			fmt.Println(s.show(allCases()[at], args[2], args[3:]))
		})
	}()
	select {
	case <-told:
		return errors.New("interrupted")
	case err := <-played:
		return err
	}
}

func (s *scene) show(c story, image string, wrapper []string) string {
	argv := []string{s.gateway.Programs.Fixture, "mcp", s.gateway.Dir, "-", "0", c.server}
	if c.helper != "" {
		argv = append(argv, c.helper)
	}
	if c.contained {
		argv = []string{"docker", "run", "--rm", "-i", "--net=none", "--label", s.label, image, "/server", "boxed", "mcp"}
		argv = append(argv, strings.Split(c.server, ",")...)
	}
	if c.launched {
		argv = append([]string{"sh", "-c", `"$@"; :`, "launcher"}, argv...)
	}
	s.open(append(wrapper, argv...), c.oneShot)
	lost := c.act(s)
	limit := patience
	if c.unhurried {
		limit *= 2
	}
	left := s.left(limit)
	if lost != nil {
		left = append([]string{"answer lost"}, left...)
	}
	if len(left) == 0 {
		return "-"
	}
	return strings.Join(left, ", ")
}

// open starts the server, and returns once it has answered, or for a one-shot has been sent all.
func (s *scene) open(server []string, oneShot bool) {
	path, err := exec.LookPath(server[0])
	s.must(err)
	server[0] = path
	req := []string{"spawn", "", "stderr=" + filepath.Join(s.gateway.Dir, "stderr"), "--"}
	_, err = fmt.Sscan(s.gateway.Call(append(req, server...)...), &s.wrapper)
	s.must(err)
	if oneShot {
		s.say(call)
		s.closeInput()
		return
	}
	s.say(ping(pingID))
	s.must(s.await(pingID, startup))
}

func (s *scene) must(err error) {
	if err != nil {
		said, _ := os.ReadFile(filepath.Join(s.gateway.Dir, "stderr"))
		s.gateway.T.Fatalf("%v\n%s", err, said)
	}
}

func (s *scene) say(lines ...string) { s.gateway.Call("write", "", strings.Join(lines, "\n")+"\n") }
func (s *scene) closeInput()         { s.gateway.Call("close", "", "stdin") }

// await passes over all but the answer with that id, in whatever spelling: some wrappers write it anew.
func (s *scene) await(id int, limit time.Duration) error {
	for end := time.Now().Add(limit); ; {
		s.gateway.Send("read", "")
		more, line, err := s.gateway.ReceiveWithin(time.Until(end))
		if err != nil || !more {
			return fmt.Errorf("no answer to %d: %s %w", id, line, err)
		}
		var got struct {
			ID     int
			Result json.RawMessage
		}
		if json.Unmarshal([]byte(line), &got) == nil && got.ID == id && got.Result != nil {
			return nil
		}
	}
}

func (s *scene) send(pid int, sig syscall.Signal) { s.must(syscall.Kill(pid, sig)) }

// left names what is still there after limit. Two empty looks in a row count: a process may be born during one.
func (s *scene) left(limit time.Duration) []string {
	empty := 0
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		names := s.census()
		if len(names) > 0 {
			empty = 0
		} else if empty++; empty == 2 {
			return nil
		}
		if time.Now().After(end) {
			return names
		}
	}
}

// census names each living process but the gateway by its program, which for the fixture says what it is.
func (s *scene) census() (names []string) {
	for _, p := range stage.Below(os.Getpid()) {
		if p.PID != s.gateway.PID && !slices.Contains(names, p.Comm) {
			names = append(names, p.Comm)
		}
	}
	if len(names) == 0 && s.label != "" && len(stage.Boxes(s.label)) > 0 {
		names = []string{"container"}
	}
	slices.Sort(names)
	return names
}

// clearUp ends all that is left. Only children are killed: they are waited for here and nowhere else, so a pid is no other
// process's. What they leave is a child next.
func clearUp() {
	for {
		for _, p := range stage.Below(os.Getpid()) {
			if p.PPID == os.Getpid() {
				_ = syscall.Kill(p.PID, syscall.SIGKILL)
			}
		}
		if pid, err := syscall.Wait4(-1, nil, 0, nil); pid <= 0 && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
