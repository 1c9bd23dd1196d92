package main

import (
	"fmt"
	"slices"
)

// with is the tethered subject with more flags.
func (b *bench) with(flags ...string) subject {
	s := b.subjects[0]
	s.name = "with " + flags[0]
	s.wrap = slices.Insert(slices.Clone(s.wrap), len(s.wrap)-1, flags...)
	return s
}

// measureRelay compares streams that are inherited with streams that go through us. The server never sleeps.
func measureRelay(b *bench) (table, error) {
	t := table{
		Section: "relay",
		Title: fmt.Sprintf("Relay of --hibernate: round trips of one line, in µs, on one core; "+
			"bulk of %d MiB in lines of 1 MiB, an eighth of it where lines are parsed, in MB/s, "+
			"on one core by the processor time of all processes", b.bulkMiB),
		Columns: pairColumns(),
	}
	relay := b.with("--hibernate=1h")
	err := onOneCore(func() error { return b.roundtripRows(&t, againAnd(relay)...) })
	if err == nil {
		err = b.relayBulk(&t, relay, moves, ", two cores or more")
	}
	if err != nil {
		return t, err
	}
	b.byProcessor = true
	defer func() { b.byProcessor = false }()
	return t, onOneCore(func() error {
		if err := b.relayBulk(&t, relay, moves, ", one core"); err != nil {
			return err
		}
		return b.relayBulk(&t, relay, parses, ", one core, parsed")
	})
}

// relayBulk times the relay each way with each kind of messages. The source has them in memory, so it is faster than the
// relay.
func (b *bench) relayBulk(t *table, relay subject, r receiver, how string) error {
	subjects := againAnd(relay)
	for kind := range payloads() {
		if err := b.bulkRows(t, kind, r, how, subjects...); err != nil {
			return err
		}
		subjects = []subject{relay} // Once is enough to tell how far a figure may be off.
	}
	return nil
}
