package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// sharing is a server that sessions share, with the places that a session has for itself. The test is the gateway.
type sharing struct {
	*session
	flags   []string
	command []string
	env     []string
	program string   // a copy of mcp-tether, "" for the usual one
	outer   []string // what the sessions are started by
}

// share prepares a shared fixture server. Its directory is in the command line of every process of it.
func share(t *testing.T, flags ...string) *sharing {
	t.Helper()
	none := &stage.Gateway{T: t, Programs: programs(), Dir: t.TempDir()} // to make a session below it needs none that runs
	s := &sharing{session: (&gateway{Gateway: none, t: t}).newSession()}
	s.flags = append([]string{"--share", "--log-level=info", "--log-format=json", "--log-file=" + s.Log, "--share-linger=1h"}, polite(flags...)...)
	// A host does not pass on the descriptors of its first client.
	s.command = []string{"sh", "-c", `exec 9>` + s.Life.Path + `; exec "$@"`, "sh", fixture, "mcp", s.Dir, "-", "0", "serve"}
	t.Cleanup(s.clear)
	return s
}

// clear ends what is left: by SIGKILL after a test that has failed.
func (s *sharing) clear() {
	if s.t.Failed() {
		s.EndAll()
		return
	}
	s.endHosts()
	s.awaitNone()
}

// awaitNone waits until no process is left with all of the words in its command line.
func (s *sharing) awaitNone(words ...string) {
	s.t.Helper()
	for all := s.with(words...); len(all) > 0; all = s.with(words...) {
		if left := stage.Outlasting(testkit.Patience, all...); len(left) > 0 {
			s.t.Fatalf("there: %v", left)
		}
	}
}

// with are the living processes of the server that say all of the words: attached, host, anchor, supervisor, server.
func (s *sharing) with(words ...string) []proc { return stage.Saying(append(words, s.Dir)...) }

// one is the one process of a kind.
func (s *sharing) one(words ...string) int {
	s.t.Helper()
	all := s.with(words...)
	if len(all) != 1 {
		s.t.Fatalf("%d processes with %q: %v", len(all), words, all)
	}
	return all[0].PID
}

func (s *sharing) host() int       { s.t.Helper(); return s.one("\x00__host\x00") }
func (s *sharing) supervisor() int { s.t.Helper(); return firstChild(s.t, s.anchor()) }
func (s *sharing) anchor() int {
	s.t.Helper()
	host := s.host()
	for _, p := range s.with(tether + "\x00__session\x00--share=false\x00") {
		if p.PPID == host {
			return p.PID
		}
	}
	s.t.Fatal("no anchor below the host")
	return 0
}

func (s *sharing) server() int { s.t.Helper(); return s.one("^" + fixture + "\x00") }

// wantGone waits until nothing of the server is left, neither process nor file nor cgroup.
func (s *sharing) wantGone() {
	s.t.Helper()
	s.awaitNone()
	s.Gone()
}

// files are those of sessions and hosts.
func (s *sharing) files() []string {
	all, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "*"))
	return slices.DeleteFunc(all, func(f string) bool { return filepath.Base(f) == "share.key" })
}

// sharer is a client with an attached session.
type sharer struct {
	s    *sharing
	cmd  *exec.Cmd
	in   *os.File
	out  *os.File
	read *bufio.Reader
	id   int
}

// attach starts a session, and does not wait.
func (s *sharing) attach() *sharer {
	s.t.Helper()
	c := &sharer{s: s}
	args := slices.Concat(s.outer, []string{cmp.Or(s.program, tether), "run"}, s.flags, []string{"--"}, s.command)
	c.cmd = exec.Command(args[0], args[1:]...)
	c.cmd.Env = append(append(os.Environ(), "XDG_RUNTIME_DIR="+s.Runtime), s.env...)
	c.cmd.Dir = s.Dir
	stderr, err := os.OpenFile(s.Stderr, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ok(s.t, err)
	defer stderr.Close()
	c.cmd.Stderr = stderr
	var theirIn, theirOut *os.File
	theirIn, c.in = testkit.Pipe(s.t)
	c.out, theirOut = testkit.Pipe(s.t)
	c.cmd.Stdin, c.cmd.Stdout = theirIn, theirOut
	ok(s.t, c.cmd.Start())
	theirIn.Close()
	theirOut.Close()
	c.read = bufio.NewReader(c.out)
	s.t.Cleanup(func() {
		c.in.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.out.Close()
	})
	return c
}

// client is a session whose client has met the server.
func (s *sharing) client() *sharer {
	s.t.Helper()
	c := s.attach()
	c.greet(version)
	return c
}

func (c *sharer) write(line string) {
	c.s.t.Helper()
	_ = c.in.SetWriteDeadline(time.Now().Add(testkit.Patience))
	if _, err := c.in.WriteString(line + "\n"); err != nil {
		c.s.t.Fatalf("write to a session: %v", err)
	}
}

// line reads one line; "" for the end.
func (c *sharer) line() string {
	c.s.t.Helper()
	_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
	line, err := c.read.ReadString('\n')
	if err != nil && os.IsTimeout(err) {
		c.s.t.Fatalf("no line from a session: %v", err)
	}
	return line
}

// answer reads up to the answer with this id.
func (c *sharer) answer(id int) reply {
	c.s.t.Helper()
	for {
		line := c.line()
		var r reply
		switch {
		case line == "":
			c.s.t.Fatalf("the session ended instead of answering %d", id)
		case strings.TrimSpace(line) == "":
		case json.Unmarshal([]byte(line), &r) != nil:
			// The first half of a line, ended for a killed host.
		case r.ID != nil && *r.ID == id && r.Method == "":
			return r
		}
	}
}

// greet is the handshake of a client that asks for a version of the protocol.
func (c *sharer) greet(version string) {
	c.s.t.Helper()
	c.write(initialize(version))
	if r := c.answer(0); r.Result == nil {
		c.s.t.Fatalf("no handshake: %+v", r.Error)
	}
	c.write(initialized)
}

// echo has the server say a text, and expects it.
func (c *sharer) echo() {
	c.s.t.Helper()
	c.id++
	text := fmt.Sprintf("%d of %d", c.id, c.cmd.Process.Pid)
	c.write(toolCall(c.id, "echo", text))
	if r := c.answer(c.id); !strings.Contains(string(r.Result), text) {
		c.s.t.Fatalf("want %q, got %s %+v", text, r.Result, r.Error)
	}
}

// try makes a call, which may be answered with an error.
func (c *sharer) try() (ok bool) {
	c.s.t.Helper()
	c.id++
	c.write(toolCall(c.id, "echo", "try"))
	return c.answer(c.id).Result != nil
}

// close ends the session by the end of its input, and expects that it succeeds.
func (c *sharer) close() {
	c.s.t.Helper()
	c.in.Close()
	c.wantExit(0)
}

// wantExit expects the end of the attached session with a code.
func (c *sharer) wantExit(code int) {
	c.s.t.Helper()
	timer := time.AfterFunc(testkit.Patience, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	_ = c.cmd.Wait()
	if c.cmd.ProcessState.ExitCode() != code {
		c.s.t.Errorf("session ended with %v, want exit %d", c.cmd.ProcessState, code)
	}
}

// received reports whether a server has received a line with a word.
func (s *sharing) received(word string) bool {
	return slices.ContainsFunc(s.got(), func(line string) bool { return strings.Contains(line, word) })
}
