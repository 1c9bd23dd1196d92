//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// hibernating is the tethered subject with a relay, which never finds the time to put its server to sleep.
func (b *bench) hibernating(flags ...string) subject {
	s := b.subjects[0]
	s.name = "with --hibernate"
	s.wrap = slices.Insert(slices.Clone(s.wrap), len(s.wrap)-1, flags...)
	return s
}

// measureRelay compares streams that are inherited with streams that go through us.
func measureRelay(b *bench) (table, error) {
	t := table{
		Section: "relay",
		Title: fmt.Sprintf("Relay of --hibernate: round trips of one line, in µs, on one core; "+
			"bulk of %d MiB in lines of 1 MiB, in MB/s", b.bulkMiB),
		Columns: []string{"pairs", "bare", "wrapped", "ratio", "difference"},
	}
	trips := func() error {
		for _, l := range []link{pipes, socketpairs} {
			ping := func(s subject) (float64, error) { return b.pingPong(s, l) }
			if err := b.relayRow(&t, "round trip, "+string(l), max(b.rounds/5, 1), ping); err != nil {
				return err
			}
		}
		return nil
	}
	if err := onOneCore(trips); err != nil {
		return t, err
	}
	if err := b.relayBulk(&t, ""); err != nil {
		return t, err
	}
	return t, onOneCore(func() error { return b.relayBulk(&t, ", one core") })
}

func (b *bench) relayRow(t *table, kase string, n int, f func(subject) (float64, error)) error {
	for _, s := range []subject{{name: "bare again"}, b.subjects[0], b.hibernating("--hibernate=1h")} {
		without, with, err := pairs(n, 1, f, s)
		if err != nil {
			return err
		}
		t.add(s.name, kase, float64(n), median(without), median(with), median(ratios(with, without)),
			median(differences(with, without)))
	}
	return nil
}

// relayBulk times the relay each way, with pictures in base64 and with texts, which have an escape every 40 bytes.
func (b *bench) relayBulk(t *table, how string) error {
	n := max(b.rounds/20, 1)
	for _, x := range [][2]string{
		{"base64", "QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A="},
		{"text", `\tif err := server.Feed(chunk, emit); err != nil {\n`},
	} {
		kind, line := x[0], message(x[1])
		in := func(s subject) (float64, error) { return b.linesIn(s, line) }
		if err := b.relayRow(t, "to the server, "+kind+how, n, in); err != nil {
			return err
		}
		file, err := b.fileOf(kind, line)
		if err != nil {
			return err
		}
		out := func(s subject) (float64, error) { return b.linesOut(s, file) }
		if err := b.relayRow(t, "from the server, "+kind+how, n, out); err != nil {
			return err
		}
	}
	return nil
}

// message is one of 1 MiB, with its newline.
func message(payload string) []byte {
	head, tail := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`, `"}]}}`+"\n"
	size := 1<<20 - len(head) - len(tail)
	text := strings.Repeat(payload, size/len(payload)) + strings.Repeat(" ", size%len(payload))
	return []byte(head + text + tail)
}

// fileOf is a file for a server to send again and again.
func (b *bench) fileOf(kind string, line []byte) (string, error) {
	name := filepath.Join(b.dir, kind)
	if err := os.WriteFile(name, line, 0o600); err != nil {
		return "", fmt.Errorf("write what the server is to send: %w", err)
	}
	return name, nil
}

// linesIn is bulkIn with messages.
func (b *bench) linesIn(s subject, line []byte) (float64, error) {
	sess, err := b.start(s.command("/bin/sh", "-c", "echo .; cat >/dev/null; echo ."), pipes)
	if err != nil {
		return 0, err
	}
	took, err := sess.pourLines(line, b.bulkMiB)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	return b.rate(took), err
}

func (s *live) pourLines(line []byte, times int) (time.Duration, error) {
	answer := make([]byte, 2)
	if err := readFull(s.out, answer); err != nil {
		return 0, err
	}
	from := time.Now()
	for range times {
		for block := range slices.Chunk(line, bulkBlock) {
			if err := writeAll(s.in, block); err != nil {
				return 0, err
			}
		}
	}
	closeAll(s.in)
	s.in = -1
	err := readFull(s.out, answer)
	return time.Since(from), err
}

// linesOut is bulkOut with messages.
func (b *bench) linesOut(s subject, file string) (float64, error) {
	sess, err := b.start(s.command(append([]string{"cat"}, slices.Repeat([]string{file}, b.bulkMiB)...)...), pipes)
	if err != nil {
		return 0, err
	}
	took, err := sess.drain(b.bulkMiB << 20)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	return b.rate(took), err
}
