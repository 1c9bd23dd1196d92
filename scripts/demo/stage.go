package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// A member is one of the processes that must not outlive the gateway.
type member struct {
	name  string
	pid   int
	await func() error
	dead  bool
	// How long after the gateway's end it died.
	after time.Duration
}

// A stage is one telling of the story.
type stage struct {
	dir     string
	gateway *exec.Cmd
	members []member
	// Closed at the end of the log, which comes when all processes that had stderr are dead. Only then is log safe to
	// read.
	quiet chan struct{}
	log   strings.Builder
}

type death struct {
	index int
	at    time.Time
	err   error
}

// perform tells the story once: it starts all, kills the gateway, watches which processes die while patience lasts, and
// ends the rest.
func perform(ctx context.Context, patience time.Duration, wrapper ...string) (*stage, error) {
	dir, err := os.MkdirTemp("", "mcp-tether-demo-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the locks: %w", err)
	}
	defer os.RemoveAll(dir)
	s := &stage{dir: dir, quiet: make(chan struct{})}
	err = s.open(wrapper)
	if err == nil {
		err = s.watch(ctx, patience)
	}
	if err = errors.Join(err, s.clear()); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, s.log.String())
	}
	return s, nil
}

// open returns once the gateway has had an answer from its server, and the death of each member can be noticed.
func (s *stage) open(wrapper []string) error {
	answered, err := s.startGateway(wrapper)
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(answered).ReadString('\n')
	if err != nil || line != answer {
		return fmt.Errorf("the server did not answer, but: %q", line)
	}
	for _, role := range roles {
		pid, err := holder(role, s.dir)
		if err != nil {
			return err
		}
		s.members = append(s.members, member{name: role, pid: pid, await: func() error { return awaitDeath(role, s.dir) }})
	}
	if len(wrapper) > 0 {
		s.members = append(s.members, member{name: "mcp-tether", await: s.silence})
	}
	return nil
}

func (s *stage) startGateway(wrapper []string) (io.Reader, error) {
	argv, err := self("gateway", s.dir)
	if err != nil {
		return nil, err
	}
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer stderrWriter.Close()
	go s.listen(stderr)
	gateway := exec.Command(argv[0], append(argv[1:], wrapper...)...)
	gateway.Stderr = stderrWriter
	// Never written to, but the gateway leaves when the demo does.
	if _, err := gateway.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make the gateway's stdin: %w", err)
	}
	stdout, err := gateway.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make the gateway's stdout: %w", err)
	}
	if err := gateway.Start(); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	s.gateway = gateway
	return stdout, nil
}

// watch kills the gateway and notes who follows it.
func (s *stage) watch(ctx context.Context, patience time.Duration) error {
	deaths := make(chan death, len(s.members))
	for i, m := range s.members {
		go func() {
			err := m.await()
			deaths <- death{i, time.Now(), err}
		}()
	}
	killed := time.Now()
	if err := s.gateway.Process.Kill(); err != nil {
		return fmt.Errorf("kill the gateway: %w", err)
	}
	enough := time.After(patience)
	for range s.members {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-enough:
			return nil
		case d := <-deaths:
			if d.err != nil {
				return fmt.Errorf("watch %s: %w", s.members[d.index].name, d.err)
			}
			s.members[d.index].dead = true
			s.members[d.index].after = d.at.Sub(killed)
		}
	}
	return nil
}

// clear ends the processes that are left, by pid, and returns once they are dead.
func (s *stage) clear() error {
	var errs []error
	if s.gateway == nil {
		return nil
	}
	// The gateway is mostly dead already, and then these two errors say nothing.
	_ = s.gateway.Process.Kill()
	_ = s.gateway.Wait()
	for _, role := range roles {
		errs = append(errs, end(role, s.dir))
	}
	select {
	case <-s.quiet:
	case <-time.After(tetheredPatience):
		errs = append(errs, errors.New("somebody still holds stderr"))
	}
	return errors.Join(errs...)
}

// listen reads until all who could write are dead.
func (s *stage) listen(stderr io.ReadCloser) {
	defer close(s.quiet)
	defer stderr.Close()
	_, _ = io.Copy(&s.log, stderr)
}

func (s *stage) silence() error {
	<-s.quiet
	return nil
}

func (s *stage) left() []member {
	var left []member
	for _, m := range s.members {
		if !m.dead {
			left = append(left, m)
		}
	}
	return left
}

func (s *stage) lastDeath() time.Duration {
	var last time.Duration
	for _, m := range s.members {
		last = max(last, m.after)
	}
	return last
}
