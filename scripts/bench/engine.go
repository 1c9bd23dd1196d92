package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// engineArg makes this program play an engine that does nothing: what is measured is the way to it.
const engineArg = "__engine"

// measureEngine compares a client's way to its engine through a session's proxy with the direct one. It also compares
// the start of a session that has an engine in sight with that of a session that looks for none.
func measureEngine(b *bench) (table, error) {
	t := table{
		Section: "engine",
		Title:   "Container engine: directly and through the session's proxy; start-up with --containers=off and with the default",
		Columns: []string{"pairs", "without", "with", "added", "ratio"},
	}
	e, err := b.startIdleEngine()
	if err != nil {
		return t, err
	}
	defer e.end()
	ways := b.engineWays(e)
	err = onOneCore(func() error { return b.engineRows(&t, ways, "one core") })
	if err == nil {
		err = b.engineRows(&t, ways, "all cores")
	}
	if err == nil {
		err = b.engineReal(&t)
	}
	if err == nil {
		err = b.engineStarts(&t, e.host)
	}
	return t, err
}

// engineWay is one thing that a client does with an engine.
type engineWay struct {
	name   string
	rounds int
	do     func(subject) (float64, error)
}

func (b *bench) engineWays(e *idleEngine) []engineWay {
	way := func(do func(c int) (float64, error)) func(subject) (float64, error) { return b.wayTo(e.host, do) }
	return []engineWay{
		{"request µs", max(b.rounds/5, 1), way(requestTrips)},
		{"stream µs", max(b.rounds/5, 1), way(streamTrips)},
		{"stream to the engine MB/s", max(b.rounds/20, 1), way(b.streamIn)},
		{"stream from the engine MB/s", max(b.rounds/20, 1), way(b.streamOut)},
		{"body to the engine MB/s", max(b.rounds/20, 1), way(b.bodyIn(plainBody))},
		{"body from the engine MB/s", max(b.rounds/20, 1), way(b.bodyOut(plainBody))},
		{"chunks to the engine MB/s", max(b.rounds/20, 1), way(b.bodyIn(chunkedBody))},
		{"chunks from the engine MB/s", max(b.rounds/20, 1), way(b.bodyOut(chunkedBody))},
	}
}

// wayTo measures with an engine.
func (b *bench) wayTo(host string, do func(c int) (float64, error)) func(subject) (float64, error) {
	return func(s subject) (float64, error) { return b.throughProxy(s, host, do) }
}

// engineRows adds four rows for each way. They are for the direct way against itself, for a relay that only splices,
// for the proxy, and for the proxy against that relay.
func (b *bench) engineRows(t *table, ways []engineWay, where string) error {
	relay, err := spliceSubject()
	if err != nil {
		return err
	}
	ours := b.subjects[0]
	for _, w := range ways {
		for _, r := range []struct {
			name    string
			base, s subject
		}{
			{"bare again", bare(), bare()}, {relay.name, bare(), relay}, {ours.name, bare(), ours}, {ours.name + " against " + relay.name, relay, ours},
		} {
			without, with, err := pairsWith(r.base, w.rounds, 1, w.do, r.s)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", r.name, w.name, err)
			}
			t.add(r.name, w.name+", "+where, float64(w.rounds), median(without), median(with), median(differences(with, without)), median(ratios(with, without)))
		}
	}
	return nil
}

// engineStarts adds rows for the start of sessions that look for an engine.
func (b *bench) engineStarts(t *table, host string) error {
	for _, c := range []struct{ name, set string }{
		{"off again", "MCP_TETHER_CONTAINERS=off"}, {"none in sight", "DOCKER_HOST="}, {"one in sight", "DOCKER_HOST=" + host},
	} {
		_, err := os.Stat("/var/run/docker.sock")
		if c.name == "none in sight" && err == nil {
			t.missing("mcp-tether", "start-up ms, "+c.name+" (there is one)")
			continue
		}
		once := func(s subject) (float64, error) {
			set := "MCP_TETHER_CONTAINERS=off"
			if s.wrap != nil {
				set = c.set
			}
			// Both have the same number of variables, and start in the same way.
			return b.startOnce(subject{wrap: append([]string{"/usr/bin/env", set}, b.subjects[0].wrap...)})
		}
		without, with, err := pairs(b.rounds, 5, once, b.subjects[0])
		if err != nil {
			return fmt.Errorf("start with %s: %w", c.name, err)
		}
		t.add("mcp-tether", "start-up ms, "+c.name, float64(b.rounds), median(without), median(with), median(differences(with, without)), median(ratios(with, without)))
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
	var line []byte
	for one := make([]byte, 1); !bytes.HasSuffix(line, []byte("\n")); line = append(line, one...) {
		if err := readFull(s.out, one); err != nil {
			return 0, err
		}
	}
	path := strings.TrimPrefix(strings.TrimSpace(string(line)), "unix://")
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	defer closeAll(c)
	if err := unix.Connect(c, &unix.SockaddrUnix{Name: path}); err != nil {
		return 0, fmt.Errorf("connect to %s: %w", path, err)
	}
	return measure(c)
}

const (
	engineAnswer = "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nOK"
	engineTurn   = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)

// requestTrips is the median of GET /_ping on one connection, in µs.
func requestTrips(c int) (float64, error) {
	return medianTrip(c, "GET /_ping HTTP/1.1\r\nHost: docker\r\nUser-Agent: Docker-Client/20.10.24 (linux)\r\n\r\n", len(engineAnswer))
}

// streamTrips is the median of a line each way on a hijacked connection, in µs.
func streamTrips(c int) (float64, error) {
	if err := turnEngine(c, "echo"); err != nil {
		return 0, err
	}
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}` + "\n"
	return medianTrip(c, line, len(line))
}

func medianTrip(c int, text string, answer int) (float64, error) {
	s := &live{in: c, out: c}
	var trips []float64
	for i := range pingsToWarm + pingsPerRound {
		from := time.Now()
		err := writeAll(s.in, []byte(text))
		if err == nil {
			err = readFull(s.out, make([]byte, answer))
		}
		if err != nil {
			return 0, err
		}
		if i >= pingsToWarm {
			trips = append(trips, float64(time.Since(from))/float64(time.Microsecond))
		}
	}
	return median(trips), nil
}

func turnEngine(c int, what string) error {
	err := writeAll(c, []byte("POST /v1.41/containers/"+what+"/attach?stream=1 HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n\r\n"))
	if err != nil {
		return err
	}
	return readFull(c, make([]byte, len(engineTurn)))
}

// streamIn is the rate of a stream to the engine, which says when it has read all.
func (b *bench) streamIn(c int) (float64, error) {
	if err := turnEngine(c, "sink"); err != nil {
		return 0, err
	}
	block := make([]byte, bulkBlock)
	from := time.Now()
	for left := b.bulkMiB << 20; left > 0; left -= bulkBlock {
		if err := writeAll(c, block[:min(left, bulkBlock)]); err != nil {
			return 0, err
		}
	}
	if err := unix.Shutdown(c, unix.SHUT_WR); err != nil {
		return 0, fmt.Errorf("close the client's half: %w", err)
	}
	err := readFull(c, make([]byte, 1))
	return b.rate(time.Since(from)), err
}

// streamOut is the rate of a stream from the engine, which ends it.
func (b *bench) streamOut(c int) (float64, error) {
	if err := turnEngine(c, strconv.Itoa(b.bulkMiB<<20)); err != nil {
		return 0, err
	}
	took, err := (&live{out: c}).drain(b.bulkMiB << 20)
	return b.rate(took), err
}

// engineBody is a way to send many bytes in a body. field is the header field that announces a number of blocks. block
// is one block as it goes over the wire, and end comes after the last.
type engineBody struct {
	name, block, end string
	field            func(blocks int) string
}

const (
	plainBody   = "plain"
	chunkedBody = "chunked"
	// engineChunk is what the engines and their clients write at once, in bytes.
	engineChunk = 32 << 10
)

func engineBodyOf(name string) engineBody {
	if name == chunkedBody {
		return engineBody{
			name: name, block: fmt.Sprintf("%x\r\n%s\r\n", engineChunk, strings.Repeat("x", engineChunk)), end: "0\r\n\r\n",
			field: func(int) string { return "Transfer-Encoding: chunked" },
		}
	}
	return engineBody{
		name: plainBody, block: strings.Repeat("x", bulkBlock),
		field: func(blocks int) string { return "Content-Length: " + strconv.Itoa(blocks*bulkBlock) },
	}
}

// blocks is how many blocks carry so many MiB.
func (y engineBody) blocks(mib int) int {
	if y.name == chunkedBody {
		return mib << 20 / engineChunk
	}
	return mib << 20 / bulkBlock
}

// size is how many bytes so many blocks are on the wire.
func (y engineBody) size(blocks int) int { return blocks*len(y.block) + len(y.end) }

// write writes the body.
func (y engineBody) write(blocks int, write func([]byte) error) error {
	block := []byte(y.block)
	for range blocks {
		if err := write(block); err != nil {
			return err
		}
	}
	return write([]byte(y.end))
}

// bodyIn is the rate of a request's body.
func (b *bench) bodyIn(kind string) func(c int) (float64, error) {
	y := engineBodyOf(kind)
	blocks := y.blocks(b.bulkMiB)
	head := fmt.Sprintf("POST /images/load?size=%d HTTP/1.1\r\nHost: docker\r\n%s\r\n\r\n", y.size(blocks), y.field(blocks))
	return func(c int) (float64, error) {
		if err := writeAll(c, []byte(head)); err != nil {
			return 0, err
		}
		from := time.Now()
		if err := y.write(blocks, func(p []byte) error { return writeAll(c, p) }); err != nil {
			return 0, err
		}
		err := readFull(c, make([]byte, len(engineAnswer)))
		return b.rate(time.Since(from)), err
	}
}

// bodyOut is the rate of a response's body.
func (b *bench) bodyOut(kind string) func(c int) (float64, error) {
	y := engineBodyOf(kind)
	blocks := y.blocks(b.bulkMiB)
	head := fmt.Sprintf("GET /images/get?blocks=%d&kind=%s HTTP/1.1\r\nHost: docker\r\n\r\n", blocks, y.name)
	return func(c int) (float64, error) {
		if err := writeAll(c, []byte(head)); err != nil {
			return 0, err
		}
		took, err := (&live{out: c}).drain(len(bodyHead(y, blocks)) + y.size(blocks))
		return b.rate(took), err
	}
}

func bodyHead(y engineBody, blocks int) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\n" + y.field(blocks) + "\r\n\r\n"
}

// idleEngine is this program in the engine's part.
type idleEngine struct {
	*live
	host string
}

func (b *bench) startIdleEngine() (*idleEngine, error) {
	path := filepath.Join(b.dir, "engine.sock")
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	l, err := b.start([]string{self, engineArg, path}, pipes)
	if err != nil {
		return nil, err
	}
	if _, err := l.firstByte(); err != nil {
		_ = l.end()
		return nil, err
	}
	return &idleEngine{l, "unix://" + path}, nil
}

func (e *idleEngine) end() { _ = e.live.end() }

// playEngine listens at path until its stdin ends.
func playEngine(path string) int {
	l, err := net.Listen("unix", path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: engine:", err)
		return 1
	}
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go serveIdly(c)
	}
}

// serveIdly answers requests without a body, until one of them turns the connection into a stream.
func serveIdly(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, bulkBlock)
	for {
		line, err := idleRequest(in)
		if err != nil {
			return
		}
		_, what, streams := strings.Cut(line, "/containers/")
		if !streams {
			if serveBody(c, in, line) != nil {
				return
			}
			continue
		}
		what, _, _ = strings.Cut(what, "/")
		if _, err := io.WriteString(c, engineTurn); err == nil {
			streamIdly(c, in, what)
		}
		return
	}
}

// serveBody answers any other request: it reads a body first, or sends one.
func serveBody(c net.Conn, in *bufio.Reader, line string) error {
	var (
		size, blocks int
		kind         string
	)
	if _, err := fmt.Sscanf(line, "GET /images/get?blocks=%d&kind=%s", &blocks, &kind); err == nil {
		y := engineBodyOf(kind)
		if _, err := io.WriteString(c, bodyHead(y, blocks)); err != nil {
			return fmt.Errorf("write a head: %w", err)
		}
		return y.write(blocks, func(p []byte) error { return second(c.Write(p)) })
	}
	if _, err := fmt.Sscanf(line, "POST /images/load?size=%d", &size); err == nil {
		if _, err := in.Discard(size); err != nil {
			return fmt.Errorf("read a body: %w", err)
		}
	}
	return second(io.WriteString(c, engineAnswer))
}

func second(_ int, err error) error { return err }

// idleRequest reads a head and returns its first line.
func idleRequest(in *bufio.Reader) (string, error) {
	first, err := in.ReadString('\n')
	for line := first; err == nil && line != "\r\n"; {
		line, err = in.ReadString('\n')
	}
	if err != nil {
		return "", errors.Join(io.ErrUnexpectedEOF, err)
	}
	return first, nil
}

func streamIdly(c net.Conn, in *bufio.Reader, what string) {
	block := make([]byte, bulkBlock)
	switch what {
	case "echo":
		_, _ = io.Copy(c, struct{ io.Reader }{in})
	case "sink":
		_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{in}, block)
		_, _ = io.WriteString(c, ".")
	default:
		left, _ := strconv.Atoi(what)
		for ; left > 0; left -= len(block) {
			if _, err := c.Write(block[:min(left, len(block))]); err != nil {
				return
			}
		}
	}
}
