package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// answerArg has this program play an MCP server that answers every request with an empty result.
const answerArg = "answer"

func answer() int {
	var buf []byte
	for {
		buf = slices.Grow(buf, 64<<10)
		n, err := unix.Read(0, buf[len(buf):cap(buf)])
		if n <= 0 || err != nil {
			return 0
		}
		buf = buf[:len(buf)+n]
		var out []byte
		for {
			line, rest, whole := bytes.Cut(buf, []byte("\n"))
			if !whole {
				break
			}
			if _, after, isRequest := bytes.Cut(line, []byte(`"id":`)); isRequest {
				id, _, _ := bytes.Cut(after, []byte(","))
				out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), id...), `,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}`+"\n"...)
			}
			buf = rest
		}
		if writeAll(1, out) != nil {
			return 1
		}
	}
}

// sharing is the subject that attaches to a shared server.
func (b *bench) sharing() subject {
	s := b.subjects[0]
	s.name = "with --share"
	s.wrap = slices.Insert(slices.Clone(s.wrap), len(s.wrap)-1, "--share", "--share-linger=0s")
	return s
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
	`"clientInfo":{"name":"bench","version":"0"}}}` + "\n"

// greet starts a session and completes the handshake. It returns how long that took, in ms.
func (b *bench) greet(argv []string, l link) (*live, float64, error) {
	s, err := b.start(argv, l)
	if err != nil {
		return nil, 0, err
	}
	if err = writeAll(s.in, []byte(hello)); err == nil {
		_, err = s.readLine()
	}
	took := ms(time.Since(s.spawned))
	if err == nil {
		err = writeAll(s.in, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"))
	}
	if err != nil {
		_ = s.end()
	}
	return s, took, err
}

// readLine reads up to the one answer; notifications before it do not count.
func (s *live) readLine() ([]byte, error) {
	buf := make([]byte, 64<<10)
	n := 0
	for {
		m, err := readSome(s.out, buf[n:])
		if err != nil {
			return nil, err
		}
		if m == 0 {
			return nil, fmt.Errorf("read an answer of pid %d: it ended", s.pid)
		}
		n += m
		for line := range bytes.Lines(buf[:n]) {
			if bytes.HasSuffix(line, []byte("\n")) && bytes.Contains(line, []byte(`"result":`)) {
				return line, nil
			}
		}
	}
}

// call makes a call and waits for its answer.
func (s *live) call(id int) error {
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}`+"\n", id)
	if err := writeAll(s.in, line); err != nil {
		return err
	}
	got, err := s.readLine()
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
		Columns: []string{"pairs", "bare", "shared", "ratio", "difference"},
	}
	for _, step := range []func(*table) error{b.shareAttach, b.shareTrips, b.shareCrowd} {
		if err := step(&t); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (t *table) against(name, kase string, without, with []float64) {
	t.add(name, kase, float64(len(with)), median(without), median(with), median(with)/median(without), median(with)-median(without))
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
	var without, with []float64
	for i := range max(b.rounds/20, 3) {
		for _, s := range []subject{bare(), b.sharing()} {
			l, took, err := b.greet(s.command(server...), pipes)
			if err != nil {
				return err
			}
			if err := l.end(); err != nil {
				return err
			}
			switch {
			case i == 0:
			case s.name == "bare":
				without = append(without, took)
			default:
				with = append(with, took)
			}
		}
	}
	t.against(b.sharing().name, kase, without, with)
	return nil
}

// shareTrips times calls one after the other, on one core.
func (b *bench) shareTrips(t *table) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return onOneCore(func() error {
		for _, l := range []link{pipes, socketpairs} {
			trip := func(s subject) (float64, error) {
				sess, _, err := b.greet(s.command(self, answerArg), l)
				if err != nil {
					return 0, err
				}
				var trips []float64
				for i := range pingsToWarm + pingsPerRound {
					from := time.Now()
					if err := sess.call(i + 1); err != nil {
						return 0, err
					}
					if i >= pingsToWarm {
						trips = append(trips, float64(time.Since(from))/float64(time.Microsecond))
					}
				}
				return median(trips), sess.end()
			}
			without, with, err := pairs(max(b.rounds/20, 3), 1, trip, b.sharing())
			if err != nil {
				return err
			}
			t.against(b.sharing().name, "round trip, "+string(l)+", µs", without, with)
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
	t.against(b.sharing().name, fmt.Sprintf("calls a second; bare: one client, shared: %d at once", b.sessions), []float64{alone}, []float64{crowd})
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
	own, err := below(os.Getpid())
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, p := range own {
		if !strings.HasPrefix(p.comm, "mcp-tether") {
			continue
		}
		m, err := p.memory()
		if err != nil {
			return 0, err
		}
		sum += m.pss * 1024 / 1e6
	}
	return sum / float64(len(all)), nil
}
