package main

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

const (
	pingsPerRound = 3000
	pingsToWarm   = 300
)

// measureRoundtrip sends one JSON-RPC line and waits for it to come back, one after the other. Each round starts new
// processes.
func measureRoundtrip(b *bench) (table, error) {
	t := table{
		Section: "roundtrip",
		Title:   "Round trip: one JSON-RPC line to the server and back, p50, all on one core",
		Columns: []string{"pairs", "bare µs", "wrapped µs", "ratio"},
	}
	err := onOneCore(func() error {
		for _, l := range []link{pipes, socketpairs} {
			ping := func(s subject) (float64, error) { return b.pingPong(s, l) }
			if err := b.compare(&t, string(l), max(b.rounds/5, 1), ping); err != nil {
				return err
			}
		}
		return nil
	})
	return t, err
}

// pingPong returns the median round trip of one session, in microseconds.
func (b *bench) pingPong(s subject, l link) (float64, error) {
	sess, err := b.start(s.command("cat"), l)
	if err != nil {
		return 0, err
	}
	trips, err := sess.pings(pingsToWarm, pingsPerRound)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	return median(trips), err
}

func (s *live) pings(warm, n int) ([]float64, error) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"}}}` + "\n")
	buf := make([]byte, len(line))
	trips := make([]float64, 0, n)
	for i := range warm + n {
		from := time.Now()
		if err := writeAll(s.in, line); err != nil {
			return nil, err
		}
		if err := readFull(s.out, buf); err != nil {
			return nil, err
		}
		took := time.Since(from)
		if !bytes.Equal(line, buf) {
			return nil, fmt.Errorf("sent %q, got %q", line, buf)
		}
		if i >= warm {
			trips = append(trips, float64(took)/float64(time.Microsecond))
		}
	}
	return trips, nil
}

func readFull(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := readSome(fd, buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("read from the server: %w", io.ErrUnexpectedEOF)
		}
		buf = buf[n:]
	}
	return nil
}
