package main

import (
	"fmt"
	"time"
)

const bulkBlock = 64 << 10

// measureBulk times a large stream to the server, and one from it.
func measureBulk(b *bench) (table, error) {
	t := table{
		Section: "bulk",
		Title:   fmt.Sprintf("Bulk: %d MiB one way over a pipe, in MB/s, all on one core", b.bulkMiB),
		Columns: pairColumns(),
	}
	return t, onOneCore(func() error { return b.bulkRows(&t, 0, moves, "", b.againAndPeers()...) })
}

// bulkRows times a kind of messages each way.
func (b *bench) bulkRows(t *table, kind int, r receiver, how string, subjects ...subject) error {
	for _, way := range []string{"to", "from"} {
		rate := func(s subject) (float64, error) { return b.bulkRate(s, kind, r, way == "to") }
		kase := way + " the server, " + payloads()[kind].name + how
		if err := t.compare(kase, max(b.rounds/20, 1), rate, subjects...); err != nil {
			return err
		}
	}
	return nil
}

// bulkRate is in MB/s. Processor time counts the start as well, so the time for one message is taken off.
func (b *bench) bulkRate(s subject, kind int, r receiver, in bool) (float64, error) {
	messages := b.bulkMiB
	if r == parses {
		messages = b.bulkMiB / 8
	}
	var few time.Duration
	var err error
	if b.byProcessor {
		if few, err = b.move(s, kind, r, in, 1); err != nil {
			return 0, err
		}
	}
	many, err := b.move(s, kind, r, in, 1+messages)
	return float64(messages<<20) / 1e6 / (many - few).Seconds(), err
}

// rate is that of all that is to be moved.
func (b *bench) rate(took time.Duration) float64 {
	return float64(b.bulkMiB<<20) / 1e6 / took.Seconds()
}
