package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measureEngine compares a client's way to its engine through a session's proxy with the direct one. It also compares
// the start of a session that has an engine in sight with that of a session that looks for none.
func measureEngine(b *bench) (table, error) {
	t := table{
		Section: "engine",
		Title:   "Container engine: directly and through the session's proxy; start-up with --containers=off and with the default",
		Columns: pairColumns(),
	}
	host, end, err := b.startIdleEngine()
	if err != nil {
		return t, err
	}
	defer end()
	err = onOneCore(func() error { return b.engineRows(&t, host, "one core") })
	if err == nil {
		err = b.engineRows(&t, host, "all cores")
	}
	if err == nil {
		err = b.engineReal(&t)
	}
	if err == nil {
		err = b.engineStarts(&t, host)
	}
	return t, err
}

// engineRows adds four rows for each thing that a client does. They are for the direct way against itself, for a relay
// that only splices, for the proxy, and for the proxy against that relay.
func (b *bench) engineRows(t *table, host, where string) error {
	relay, ours := b.spliceSubject(), b.subjects[0]
	versus := ours
	versus.name += " against " + relay.name
	row := func(kase string, n int, measure func(c int) (float64, error)) error {
		kase += ", " + where
		f := func(s subject) (float64, error) { return b.throughProxy(s, host, measure) }
		if err := t.compare(kase, n, f, againAnd(relay, ours)...); err != nil {
			return fmt.Errorf("%s: %w", kase, err)
		}
		return t.against(relay, versus, kase, n, f)
	}
	if err := row("request µs", max(b.rounds/5, 1), requestTrips); err != nil {
		return err
	}
	if err := row("stream µs", max(b.rounds/5, 1), streamTrips); err != nil {
		return err
	}
	for _, w := range engineBulks(b.bulkMiB) {
		if err := row(w.name+" MB/s", max(b.rounds/20, 1), func(c int) (float64, error) { return b.engineBulk(c, w) }); err != nil {
			return err
		}
	}
	return nil
}

// engineReal adds rows for dockerd itself, where one can be started: a file to a container, and back.
func (b *bench) engineReal(t *table) error {
	e, err := b.startEngine()
	if err != nil {
		t.missing("mcp-tether", "dockerd (as root, with docker.io)")
		return nil // the row says so
	}
	defer e.stop()
	id, err := e.docker("docker create " + boxImage)
	if err != nil {
		return err
	}
	defer e.removeAll("id=" + id)
	big := filepath.Join(b.dir, "big")
	err = os.WriteFile(big, nil, 0o600)
	if err == nil {
		err = os.Truncate(big, int64(b.bulkMiB)<<20)
	}
	if err != nil {
		return fmt.Errorf("make a large file: %w", err)
	}
	for _, way := range []struct{ name, script string }{
		{"to", "docker cp --quiet " + big + " " + id + ":/"}, {"from", "docker cp " + id + ":/big - >/dev/null"},
	} {
		f := func(s subject) (float64, error) {
			words := append(e.env(), s.command("/bin/sh", "-c", way.script)...)
			cmd := exec.Command(words[0], words[1:]...)
			cmd.Env, cmd.Stderr = b.env, os.Stderr
			from := time.Now()
			err := cmd.Run()
			return b.rate(time.Since(from)), err
		}
		kase := fmt.Sprintf("dockerd, file %s a container MB/s", way.name)
		if err := t.compare(kase, max(b.rounds/20, 1), f, againAnd(b.subjects[0])...); err != nil {
			return fmt.Errorf("%s: %w", kase, err)
		}
	}
	return nil
}

// engineStarts adds rows for the start of sessions that look for an engine.
func (b *bench) engineStarts(t *table, host string) error {
	ours := b.subjects[0]
	// All have the same number of variables, and start in the same way.
	with := func(name, set string) subject {
		return subject{name: name, wrap: append([]string{"/usr/bin/env", set}, ours.wrap...)}
	}
	off := with("", "MCP_TETHER_CONTAINERS=off")
	for _, c := range []struct{ name, set string }{
		{"off again", "MCP_TETHER_CONTAINERS=off"}, {"none in sight", "DOCKER_HOST="}, {"one in sight", "DOCKER_HOST=" + host},
	} {
		_, err := os.Stat("/var/run/docker.sock")
		if c.name == "none in sight" && err == nil {
			t.missing(ours.name, "start-up ms, "+c.name+" (there is one)")
			continue
		}
		if err := t.against(off, with(ours.name, c.set), "start-up ms, "+c.name, b.rounds, b.startOnce); err != nil {
			return fmt.Errorf("start with %s: %w", c.name, err)
		}
	}
	return nil
}

// throughProxy starts a session, and measures on a connection to the engine that its server is told of.
func (b *bench) throughProxy(s subject, host string, measure func(c int) (float64, error)) (float64, error) {
	server := s.command("/bin/sh", "-c", "echo $DOCKER_HOST; exec cat")
	l, err := b.start(append([]string{"/usr/bin/env", "DOCKER_HOST=" + host}, server...), pipes)
	if err != nil {
		return 0, err
	}
	got, err := l.figureOn(measure)
	if endErr := l.end(); err == nil {
		err = endErr
	}
	return got, err
}

func (s *live) figureOn(measure func(c int) (float64, error)) (float64, error) {
	line, err := s.readLine("unix://")
	if err != nil {
		return 0, err
	}
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	defer closeAll(c)
	path := strings.TrimPrefix(string(line), "unix://")
	if err := unix.Connect(c, &unix.SockaddrUnix{Name: path}); err != nil {
		return 0, fmt.Errorf("connect to %s: %w", path, err)
	}
	return measure(c)
}

const (
	engineAnswer = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nOK"
	engineTurn   = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
	attach       = "POST /v1.41/containers/c/attach?stream=1 HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n"
	// engineChunk is what the engines and their clients write at once, in bytes.
	engineChunk = 32 << 10
)

// requestTrips is the median of GET /_ping on one connection, in µs.
func requestTrips(c int) (float64, error) {
	const ping = "GET /_ping HTTP/1.1\r\nHost: docker\r\nUser-Agent: Docker-Client/20.10.24 (linux)\r\n\r\n"
	return trips(func(int) error { return echo(c, c, ping, engineAnswer) })
}

// streamTrips is the median of a line each way on a hijacked connection, in µs.
func streamTrips(c int) (float64, error) {
	if err := echo(c, c, attach+"X-Bench: echo\r\n\r\n", engineTurn); err != nil {
		return 0, err
	}
	return trips(func(int) error { return echo(c, c, toolCall, toolCall) })
}

// engineBulk is a way to move many bytes between a client and its engine. After two heads, one side sends a block again
// and again, and something last. To that the engine has an answer.
type engineBulk struct {
	name, request, answer string
	block, last           string
	blocks                int
	out                   bool // from the engine
}

// engineBulks are a stream, and bodies of both kinds. The request names its place in this list, for the other side.
func engineBulks(mib int) (all []engineBulk) {
	const ok = "HTTP/1.1 200 OK\r\n"
	plain := engineBulk{block: strings.Repeat("x", bulkBlock), blocks: mib << 20 / bulkBlock}
	chunked := engineBulk{block: fmt.Sprintf("%x\r\n%s\r\n", engineChunk, plain.block[:engineChunk]), blocks: mib << 20 / engineChunk, last: "0\r\n\r\n"}
	add := func(w engineBulk, name, request, answer string) {
		w.name, w.answer, w.out = name, answer, strings.Contains(name, "from")
		w.request = fmt.Sprintf("%sX-Bench: %d\r\n\r\n", request, len(all))
		all = append(all, w)
	}
	add(plain, "stream to the engine", attach, engineTurn)
	add(plain, "stream from the engine", attach, engineTurn)
	for _, body := range []struct {
		name, field string
		engineBulk
	}{{"body", fmt.Sprintf("Content-Length: %d\r\n", mib<<20), plain}, {"chunks", "Transfer-Encoding: chunked\r\n", chunked}} {
		add(body.engineBulk, body.name+" to the engine", "POST /images/load HTTP/1.1\r\nHost: docker\r\n"+body.field, "")
		add(body.engineBulk, body.name+" from the engine", "GET /images/get HTTP/1.1\r\nHost: docker\r\n", ok+body.field+"\r\n")
	}
	return all
}

// size is how many bytes follow the heads.
func (w engineBulk) size() int { return w.blocks*len(w.block) + len(w.last) }

// send sends them.
func (w engineBulk) send(to io.Writer) error {
	block := []byte(w.block)
	for range w.blocks {
		if _, err := to.Write(block); err != nil {
			return err
		}
	}
	_, err := io.WriteString(to, w.last)
	return err
}

// engineBulk is the rate of one of them. The engine says when it has read all.
func (b *bench) engineBulk(c int, w engineBulk) (float64, error) {
	if err := echo(c, c, w.request, w.answer); err != nil {
		return 0, err
	}
	from, size := time.Now(), int64(w.size())
	if !w.out {
		if err := w.send(descriptor(c)); err != nil {
			return 0, err
		}
		size = int64(len(engineAnswer))
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(descriptor(c), size), make([]byte, bulkBlock))
	return b.rate(time.Since(from)), err
}
