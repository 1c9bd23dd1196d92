package main

import (
	"fmt"
	"strconv"
	"time"
)

const bulkBlock = 64 << 10

// measureBulk times a large stream to the server, and one from it.
func measureBulk(b *bench) (table, error) {
	t := table{
		Section: "bulk",
		Title:   fmt.Sprintf("Bulk: %d MiB one way over a pipe, all on one core", b.bulkMiB),
		Columns: []string{"pairs", "bare MB/s", "wrapped MB/s", "ratio"},
	}
	n := max(b.rounds/20, 1)
	err := onOneCore(func() error {
		if err := b.compare(&t, "to the server", n, b.bulkIn); err != nil {
			return err
		}
		return b.compare(&t, "from the server", n, b.bulkOut)
	})
	return t, err
}

// bulkIn returns MB/s into a server that says "." when it is there and again when it has read all.
func (b *bench) bulkIn(s subject) (float64, error) {
	sess, err := b.start(s.command("/bin/sh", "-c", "echo .; cat >/dev/null; echo ."), pipes)
	if err != nil {
		return 0, err
	}
	took, err := sess.pour(b.bulkMiB << 20)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	return b.rate(took), err
}

func (s *live) pour(size int) (time.Duration, error) {
	answer := make([]byte, 2)
	if err := readFull(s.out, answer); err != nil {
		return 0, err
	}
	block := make([]byte, bulkBlock)
	from := time.Now()
	for left := size; left > 0; left -= bulkBlock {
		if err := writeAll(s.in, block[:min(left, bulkBlock)]); err != nil {
			return 0, err
		}
	}
	closeAll(s.in)
	s.in = -1
	err := readFull(s.out, answer)
	return time.Since(from), err
}

// bulkOut returns MB/s out of a server, counted from its first block.
func (b *bench) bulkOut(s subject) (float64, error) {
	blocks := (b.bulkMiB << 20) / bulkBlock
	sess, err := b.start(s.command("dd", "if=/dev/zero", "bs="+strconv.Itoa(bulkBlock),
		"count="+strconv.Itoa(blocks), "status=none"), pipes)
	if err != nil {
		return 0, err
	}
	took, err := sess.drain(b.bulkMiB << 20)
	if endErr := sess.end(); err == nil {
		err = endErr
	}
	return b.rate(took), err
}

func (s *live) drain(size int) (time.Duration, error) {
	block := make([]byte, bulkBlock)
	n, err := readSome(s.out, block)
	if err != nil {
		return 0, err
	}
	from := time.Now()
	for left := size - n; left > 0; left -= n {
		n, err = readSome(s.out, block)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, fmt.Errorf("the stream ended %d bytes early", left)
		}
	}
	return time.Since(from), nil
}

func (b *bench) rate(took time.Duration) float64 {
	return float64(b.bulkMiB<<20) / 1e6 / took.Seconds()
}
