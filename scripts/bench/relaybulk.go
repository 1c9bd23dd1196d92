package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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

// move moves messages to a server, or from one, and counts from the server's first word.
func (b *bench) move(s subject, kind int, r receiver, in bool, messages int) (took time.Duration, err error) {
	used := processorTime()
	words := []string{string(r)}
	if !in {
		words = []string{strconv.Itoa(kind), strconv.Itoa(messages)}
	}
	sess, err := b.start(s.command(append([]string{b.self, bulkArg}, words...)...), pipes)
	if err != nil {
		return 0, err
	}
	err = readFull(sess.out, make([]byte, len(here)))
	from := time.Now()
	switch {
	case err != nil:
	case in:
		err = sess.pourAll(payloads()[kind].message(), messages)
	default:
		err = r.take(sess.out)
	}
	took = time.Since(from)
	err = errors.Join(err, sess.end())
	if b.byProcessor {
		took = processorTime() - used
	}
	return took, err
}

// pourAll waits until the server has read all.
func (s *live) pourAll(line []byte, times int) error {
	if err := pour(s.in, line, times); err != nil {
		return err
	}
	closeAll(s.in)
	s.in = -1
	return readFull(s.out, make([]byte, len(here)))
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

// here is what the server says at its start, and when it has read all.
const here = ".\n"

// playBulk is a server. With the name of a receiver it reads to the end and says so. With the number of a payload and a
// count it writes the payload that many times. It says first that it is there.
func playBulk(args []string) int {
	err := writeAll(1, []byte(here))
	if err == nil {
		err = serveBulk(args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func serveBulk(args []string) error {
	if len(args) == 1 {
		if err := receiver(args[0]).take(0); err != nil {
			return err
		}
		return writeAll(1, []byte(here))
	}
	kind, kindErr := strconv.Atoi(args[0])
	times, timesErr := strconv.Atoi(args[1])
	if err := errors.Join(kindErr, timesErr); err != nil {
		return err
	}
	return pour(1, payloads()[kind].message(), times)
}
