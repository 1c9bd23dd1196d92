//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long a client waits for anything: longer than the client of the SDK does.
const patience = 90 * time.Second

// errHangs says that a client was given no answer at all.
var errHangs = errors.New("there was no answer")

// client is a gateway: node with the official SDK and one stdio server (e2e/npm/patient.mjs).
type client struct {
	cmd    *exec.Cmd
	orders io.WriteCloser
	said   chan reply
	stderr *strings.Builder
	ended  chan struct{}
}

// reply is a line of that program.
type reply struct {
	Event, Text string
	Error       bool
	Complaints  []string
}

// startClient starts a gateway whose server is that command, with more in both environments. It leads a session, as from a terminal
// of its own.
func startClient(command []string, env ...string) (*client, error) {
	own := map[string]string{}
	for _, v := range append(os.Environ(), env...) {
		name, value, _ := strings.Cut(v, "=")
		own[name] = value
	}
	what, err := json.Marshal(map[string]any{"command": command[0], "args": command[1:], "env": own})
	if err != nil {
		return nil, fmt.Errorf("write the command: %w", err)
	}
	c := &client{cmd: exec.Command("node", "e2e/npm/patient.mjs", string(what)), said: make(chan reply, 16), stderr: &strings.Builder{}, ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	c.cmd.Stderr = c.stderr
	// A helper of the server may hold standard error open.
	c.cmd.WaitDelay = time.Second
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	out, w := io.Pipe()
	c.cmd.Stdout = w
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a client: %w", err)
	}
	go func() {
		_ = c.cmd.Wait()
		close(c.ended)
		_ = w.Close()
	}()
	go func() {
		defer close(c.said)
		lines := json.NewDecoder(out)
		for {
			var r reply
			if lines.Decode(&r) != nil {
				return
			}
			c.said <- r
		}
	}()
	return c, nil
}

// await waits for the client's next line.
func (c *client) await() (string, error) {
	select {
	case r, more := <-c.said:
		if !more {
			<-c.ended
			return "", fmt.Errorf("the client has ended: %s", lastLine(c.stderr.String()))
		}
		if r.Error {
			return r.Text, errors.New(strings.Join(r.Complaints, "; "))
		}
		return r.Text, nil
	case <-time.After(patience):
		return "", errHangs
	}
}

// send gives the client an order, whose line await has.
func (c *client) send(order any) {
	line, _ := json.Marshal(order)
	_, _ = c.orders.Write(append(line, '\n'))
}

// kill ends the client as the out-of-memory killer would.
func (c *client) kill() { _ = c.cmd.Process.Kill() }

// over waits for the end of the client.
func (c *client) over() error {
	_ = c.orders.Close()
	select {
	case <-c.ended:
		return nil
	case <-time.After(patience):
		c.kill()
		<-c.ended
		return errHangs
	}
}

// crash is what becomes of a gateway whose whole process group is killed, as by a terminal that is closed.
func (c *client) crash() { _ = unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL) }

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
