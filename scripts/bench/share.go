package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// answerArg has this program play an MCP server that answers every request with an empty result.
const answerArg = "answer"

func answer([]string) int {
	for lines := bufio.NewScanner(descriptor(0)); lines.Scan(); {
		_, after, isRequest := bytes.Cut(lines.Bytes(), []byte(`"id":`))
		if !isRequest {
			continue
		}
		id, _, _ := bytes.Cut(after, []byte(","))
		if writeAll(1, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n", id)) != nil {
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

// greet starts a session and completes the handshake. It returns how long that took, in ms.
func (b *bench) greet(argv []string, l link) (*live, float64, error) {
	s, err := b.start(argv, l)
	if err != nil {
		return nil, 0, err
	}
	if err = writeAll(s.in, []byte(hello)); err == nil {
		_, err = s.readLine(`"result":`)
	}
	took := ms(time.Since(s.spawned))
	if err == nil {
		err = writeAll(s.in, []byte(initialized))
	}
	if err != nil {
		_ = s.end()
	}
	return s, took, err
}

// readLine reads up to a line that has some words in it.
func (s *live) readLine(with string) ([]byte, error) {
	if s.lines == nil {
		s.lines = bufio.NewScanner(descriptor(s.out))
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
	if err := writeAll(s.in, line); err != nil {
		return err
	}
	got, err := s.readLine(`"result":`)
	if want := fmt.Sprintf(`"id":%d`, id); err == nil && !bytes.Contains(got, []byte(want)) {
		err = fmt.Errorf("call %d was answered with %q", id, got)
	}
	return err
}

// measureShare compares sessions of a shared server with a server of their own.
func measureShare(b *bench) (table, error) {
	t := table{
		Section: "share",
		Title:   fmt.Sprintf("One server for many sessions: %d sessions attached", b.sessions),
		Columns: pairColumns(),
	}
	for _, step := range []func(*table) error{b.shareAttach, b.shareTrips, b.shareCrowd} {
		if err := step(&t); err != nil {
			return t, err
		}
	}
	return t, nil
}

// everything is the command line of a real server; nil where it is not installed.
func everything() []string {
	script, err := filepath.Abs("e2e/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	if _, missing := os.Stat(script); err != nil || missing != nil {
		return nil
	}
	return []string{"node", script, "stdio"}
}

// shareAttach times a session that attaches, against the start of a real server.
func (b *bench) shareAttach(t *table) error {
	const kase = "spawn to completed handshake, ms; bare: node server-everything"
	server := everything()
	if server == nil {
		t.missing(b.sharing().name, kase)
		return nil
	}
	first, _, err := b.greet(b.sharing().command(server...), pipes)
	if err != nil {
		return err
	}
	defer func() { _ = first.end() }()
	return t.compare(kase, max(b.rounds/20, 3), func(s subject) (float64, error) {
		l, took, err := b.greet(s.command(server...), pipes)
		if err != nil {
			return 0, err
		}
		return took, l.end()
	}, b.sharing())
}

// shareTrips times calls one after the other, on one core.
func (b *bench) shareTrips(t *table) error {
	return onOneCore(func() error {
		for _, l := range []link{pipes, socketpairs} {
			err := t.compare("round trip, "+string(l)+", µs", max(b.rounds/20, 3), func(s subject) (float64, error) {
				sess, _, err := b.greet(s.command(b.self, answerArg), l)
				if err != nil {
					return 0, err
				}
				trip, err := trips(func(i int) error { return sess.call(i + 1) })
				return trip, errors.Join(err, sess.end())
			}, b.sharing())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// shareCrowd has many sessions call at once, and weighs them.
func (b *bench) shareCrowd(t *table) error {
	server := everything()
	if server == nil {
		t.missing(b.sharing().name, "calls a second, and PSS")
		return nil
	}
	one, _, err := b.greet(server, pipes)
	if err != nil {
		return err
	}
	alone, err := rateOf([]*live{one})
	_ = one.end()
	if err != nil {
		return err
	}
	all := make([]*live, b.sessions)
	for i := range all {
		if all[i], _, err = b.greet(b.sharing().command(server...), pipes); err != nil {
			return err
		}
	}
	defer endAll(all)
	crowd, err := rateOf(all)
	if err != nil {
		return err
	}
	t.add(b.sharing().name, fmt.Sprintf("calls a second; bare: one client, shared: %d at once", b.sessions), 1, alone, crowd, crowd/alone, crowd-alone)
	time.Sleep(3 * time.Second) // what the calls have left is not what a session holds
	weight, err := b.weighShared(all)
	if err != nil {
		return err
	}
	t.add(b.sharing().name, "PSS of a session, its part of the host with it, MB", float64(len(all)), 0, weight, 0, weight)
	return nil
}

// rateOf is how many calls a second the sessions make, each one after the other.
func rateOf(all []*live) (float64, error) {
	const howLong = 2 * time.Second
	var (
		wg    sync.WaitGroup
		calls = make([]int, len(all))
		errs  = make([]error, len(all))
		until = time.Now().Add(howLong)
	)
	for i, l := range all {
		wg.Go(func() {
			for n := 1; errs[i] == nil && time.Now().Before(until); n++ {
				errs[i] = l.call(n)
				calls[i] = n
			}
		})
	}
	wg.Wait()
	total := 0
	for i, n := range calls {
		if errs[i] != nil {
			return 0, errs[i]
		}
		total += n
	}
	return float64(total) / howLong.Seconds(), nil
}

// weighShared is the PSS for each session: of the attached processes, of the host, and of the two processes of its
// server's session.
func (b *bench) weighShared(all []*live) (float64, error) {
	own, err := b.below(os.Getpid())
	var pids []int
	for _, p := range own {
		if strings.HasPrefix(p.Comm, "mcp-tether") {
			pids = append(pids, p.PID)
		}
	}
	m, weighErr := memoryOf(pids...)
	return m.pss / float64(len(all)), errors.Join(err, weighErr)
}
