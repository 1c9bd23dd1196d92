package main

import (
	"fmt"
	"slices"
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
			"bulk of %d MiB in lines of 1 MiB, an eighth of it where lines are parsed, in MB/s, "+
			"on one core by the processor time of all processes", b.bulkMiB),
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
	if err := b.relayBulk(&t, moves, ", two cores or more"); err != nil {
		return t, err
	}
	b.byProcessor = true
	defer func() { b.byProcessor = false }()
	return t, onOneCore(func() error {
		if err := b.relayBulk(&t, moves, ", one core"); err != nil {
			return err
		}
		return b.relayBulk(&t, parses, ", one core, parsed")
	})
}

func (b *bench) relayRow(t *table, kase string, n int, f func(subject) (float64, error)) error {
	return b.rows(t, kase, n, f, subject{name: "bare again"}, b.hibernating("--hibernate=1h"))
}

func (b *bench) rows(t *table, kase string, n int, f func(subject) (float64, error), subjects ...subject) error {
	for _, s := range subjects {
		without, with, err := pairs(n, 1, f, s)
		if err != nil {
			return err
		}
		t.add(s.name, kase, float64(n), median(without), median(with), median(ratios(with, without)),
			median(differences(with, without)))
	}
	return nil
}
