package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"mcp-tether/e2e/stage"
)

// answerArg has this program play an MCP server that answers every request with an empty result.
const answerArg = "answer"

func answer() int {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		_, after, isRequest := bytes.Cut(lines.Bytes(), []byte(`"id":`))
		if !isRequest {
			continue
		}
		id, _, _ := bytes.Cut(after, []byte(","))
		_, err := fmt.Fprintf(os.Stdout, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n", id)
		if err != nil {
			return 1
		}
	}
	return 0
}

// The handshake.
const (
	hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"bench","version":"0"}}}` + "\n"
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
)

// sharing is the subject that attaches to a shared server.
func (b *bench) sharing() subject { return b.with("--share", "--share-linger=0s") }

// greet starts a session and completes the handshake.
func (b *bench) greet(argv []string, l link) (*live, error) {
	s, err := start(argv, l)
	if err != nil {
		return nil, err
	}
	if _, err = s.in.WriteString(hello); err == nil {
		_, err = s.readLine(`"result":`)
	}
	if err == nil {
		_, err = s.in.WriteString(initialized)
	}
	if err != nil {
		_ = s.end()
	}
	return s, err
}

// readLine reads up to a line that has some words in it.
func (s *live) readLine(with string) ([]byte, error) {
	if s.lines == nil {
		s.lines = bufio.NewScanner(s.out)
	}
	for s.lines.Scan() {
		if bytes.Contains(s.lines.Bytes(), []byte(with)) {
			return s.lines.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("read an answer of pid %d: it ended (%w)", s.pid, s.lines.Err())
}

// call makes a call and waits for its answer.
func (s *live) call(id int) error {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}`+"\n", id)
	if _, err := s.in.Write(line); err != nil {
		return err
	}
	got, err := s.readLine(`"result":`)
	if want := fmt.Sprintf(`"id":%d`, id); err == nil && !bytes.Contains(got, []byte(want)) {
		err = fmt.Errorf("call %d was answered with %q", id, got)
	}
	return err
}

// callAfterCall returns the median round trip of calls of one session with an MCP server, in microseconds.
func (b *bench) callAfterCall(s subject, l link) (float64, error) {
	sess, err := b.greet(s.command(b.self, answerArg), l)
	if err != nil {
		return 0, err
	}
	trip, err := trips(func(i int) error { return sess.call(i + 1) })
	return trip, errors.Join(err, sess.end())
}

// measureShare weighs sessions that are attached to a shared server.
func measureShare(b *bench) (table, error) {
	t := table{
		Title:   "Sessions attached to one server: each with its part of the host and of the server's own session",
		Columns: []string{"sessions", "PSS mean MB"},
	}
	all := make([]*live, 0, b.sessions)
	defer func() { endAll(all) }()
	for range b.sessions {
		s, err := b.greet(b.sharing().command(b.self, answerArg), pipes)
		if err != nil {
			return t, err
		}
		all = append(all, s)
	}
	time.Sleep(3 * time.Second) // what a start has left is not what a session holds
	weight, err := weighShared(all)
	t.add(b.sharing().name, "", float64(len(all)), weight)
	return t, err
}

// weighShared is the PSS for each session: of the attached sessions, of the host, and of the two processes of its
// server's session.
func weighShared(all []*live) (float64, error) {
	var pids []int
	for _, p := range stage.Living() {
		if strings.HasPrefix(p.Comm, "mcp-tether") {
			pids = append(pids, p.PID)
		}
	}
	m, err := memoryOf(pids...)
	return m / float64(len(all)), err
}
