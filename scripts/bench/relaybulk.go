package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// bulkArg makes this program play a server that moves many messages.
const bulkArg = "__bulk"

// receiver is what is done with the messages at their end.
type receiver string

const (
	moves  receiver = "moves"  // it reads the bytes, and nothing else
	parses receiver = "parses" // it looks whether each line is JSON, which is less than any real peer does
)

// payload is a kind of messages: much of the same between a head and a tail.
type payload struct{ name, head, some, tail string }

// payloads are a picture, source code with an escape every 20 bytes, a list of objects and an embedding.
func payloads() []payload {
	const content, end = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`, `"}]}}`
	const data = `{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"data":[`
	return []payload{
		{"base64", content, "QUJDRUZHSElKS0xNTk9QUVJTVFVWV1hZWmFiY2RlZmdoaWprbG1ub3A=", end},
		{"text", content, `\tif err := server.Feed(chunk, emit); err != nil {\n`, end},
		{"quoted text", content, `\tfmt.Println(\"%d bytes of %d\", chunk, all, \"read\")\n`, end},
		{"objects", data, `{"uri":"file:///src/main.go","name":"main.go","size":1234,"kind":"file","tags":["a","b"],"hidden":false},`, `{}]}}}`},
		{"numbers", data, "0.8412345,-12.5,", "0]}}}"},
	}
}

// message is one of 1 MiB, with its newline.
func (p payload) message() []byte {
	size := 1<<20 - len(p.head) - len(p.tail) - 1
	return []byte(p.head + strings.Repeat(p.some, size/len(p.some)) + p.tail + strings.Repeat(" ", size%len(p.some)) + "\n")
}

// relayBulk times the relay each way with each kind of messages. The source has them in memory, so it is faster than the
// relay.
func (b *bench) relayBulk(t *table, r receiver, how string) error {
	n := max(b.rounds/20, 1)
	subjects := []subject{{name: "bare again"}, b.hibernating("--hibernate=1h")}
	for i, p := range payloads() {
		in := func(s subject, messages int) (time.Duration, error) { return b.linesIn(s, p, r, messages) }
		out := func(s subject, messages int) (time.Duration, error) { return b.linesOut(s, i, r, messages) }
		if err := b.rows(t, "to the server, "+p.name+how, n, b.bulkRate(in, r), subjects...); err != nil {
			return err
		}
		if err := b.rows(t, "from the server, "+p.name+how, n, b.bulkRate(out, r), subjects...); err != nil {
			return err
		}
		subjects = subjects[len(subjects)-1:] // Once is enough to tell how far a figure may be off.
	}
	return nil
}

// bulkRate gives MB/s from took, which is the time for a number of messages. Processor time counts the start as well,
// so the time for one message is taken off.
func (b *bench) bulkRate(took func(s subject, messages int) (time.Duration, error), r receiver) func(subject) (float64, error) {
	messages := b.bulkMiB
	if r == parses {
		messages = b.bulkMiB / 8
	}
	return func(s subject) (float64, error) {
		var few time.Duration
		var err error
		if b.byProcessor {
			if few, err = took(s, 1); err != nil {
				return 0, err
			}
		}
		many, err := took(s, 1+messages)
		return float64(messages<<20) / 1e6 / (many - few).Seconds(), err
	}
}

// linesIn moves messages to a server.
func (b *bench) linesIn(s subject, p payload, r receiver, messages int) (time.Duration, error) {
	used := processorTime()
	sess, err := b.startBulk(s, string(r))
	if err != nil {
		return 0, err
	}
	took, err := sess.pourLines(p.message(), messages)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	if b.byProcessor {
		took = processorTime() - used
	}
	return took, err
}

func (s *live) pourLines(line []byte, times int) (time.Duration, error) {
	answer := make([]byte, 2)
	if err := readFull(s.out, answer); err != nil {
		return 0, err
	}
	from := time.Now()
	if err := pour(s.in, line, times); err != nil {
		return 0, err
	}
	closeAll(s.in)
	s.in = -1
	err := readFull(s.out, answer)
	return time.Since(from), err
}

func pour(fd int, line []byte, times int) error {
	for range times {
		for block := range slices.Chunk(line, bulkBlock) {
			if err := writeAll(fd, block); err != nil {
				return err
			}
		}
	}
	return nil
}

// linesOut moves messages from a server, and counts from its first bytes.
func (b *bench) linesOut(s subject, kind int, r receiver, messages int) (time.Duration, error) {
	used := processorTime()
	sess, err := b.startBulk(s, strconv.Itoa(kind), strconv.Itoa(messages))
	if err != nil {
		return 0, err
	}
	answer := make([]byte, 2)
	err = readFull(sess.out, answer)
	from := time.Now()
	if err == nil {
		err = r.take(sess.out)
	}
	took := time.Since(from)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	if b.byProcessor {
		took = processorTime() - used
	}
	return took, err
}

// processorTime is the processor time of this process and of those below it that have ended, their start included.
func processorTime() (all time.Duration) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			all += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return all
}

func (b *bench) startBulk(s subject, words ...string) (*live, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return b.start(s.command(append([]string{self, bulkArg}, words...)...), pipes)
}

// take reads to the end.
func (r receiver) take(fd int) error {
	if r == parses {
		return parseAll(fd)
	}
	block := make([]byte, bulkBlock)
	for {
		n, err := readSome(fd, block)
		if err != nil || n == 0 {
			return err
		}
	}
}

// errInvalid is a line that is no JSON.
var errInvalid = errors.New("a line is no JSON")

func parseAll(fd int) error {
	lines := bufio.NewScanner(descriptor(fd))
	lines.Buffer(make([]byte, bulkBlock), 2<<20)
	for lines.Scan() {
		if !json.Valid(lines.Bytes()) {
			return errInvalid
		}
	}
	return lines.Err()
}

// descriptor reads without the runtime's poller.
type descriptor int

func (d descriptor) Read(b []byte) (int, error) {
	n, err := readSome(int(d), b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// playBulk is a server. With the name of a receiver it reads to the end and says so. With the number of a payload and a
// count it writes the payload that many times. It says first that it is there.
func playBulk(args []string) int {
	err := writeAll(1, []byte(".\n"))
	switch {
	case err != nil:
	case len(args) == 2:
		kind, kindErr := strconv.Atoi(args[0])
		times, timesErr := strconv.Atoi(args[1])
		if err = errors.Join(kindErr, timesErr); err == nil {
			err = pour(1, payloads()[kind].message(), times)
		}
	default:
		if err = receiver(args[0]).take(0); err == nil {
			err = writeAll(1, []byte(".\n"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
