package main

import (
	"math"
	"slices"
	"time"
)

// pairColumns are those of the rows that compare adds.
func pairColumns() []string { return []string{"pairs", "without", "with", "ratio", "added"} }

// pairs runs f with base and with s in turn, n times, after one pair that does not count.
func pairs(n int, f func(subject) (float64, error), base, s subject) (without, with []float64, err error) {
	for i := range n + 1 {
		a, err := f(base)
		if err != nil {
			return nil, nil, err
		}
		b, err := f(s)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 {
			without, with = append(without, a), append(with, b)
		}
	}
	return without, with, nil
}

// compare adds a row for each subject, against bare: both figures, and the medians of the pairs' quotients and differences.
func (t *table) compare(kase string, n int, f func(subject) (float64, error), subjects ...subject) error {
	for _, s := range subjects {
		if s.missing {
			t.missing(s.name, kase)
			continue
		}
		if err := t.against(bare(), s, kase, n, f); err != nil {
			return err
		}
	}
	return nil
}

// against is compare for one subject, and another base.
func (t *table) against(base, s subject, kase string, n int, f func(subject) (float64, error)) error {
	without, with, err := pairs(n, f, base, s)
	if err != nil {
		return err
	}
	var ratios, differences []float64
	for i := range with {
		ratios, differences = append(ratios, with[i]/without[i]), append(differences, with[i]-without[i])
	}
	t.add(s.name, kase, float64(n), median(without), median(with), median(ratios), median(differences))
	return nil
}

// againAnd puts bare itself before the subjects. Its row is compared with bare too, and tells how far a figure may be
// off for no reason at all.
func againAnd(subjects ...subject) []subject {
	return slices.Insert(slices.Clone(subjects), 0, subject{name: "bare again"})
}

// againAndPeers adds the kernel's own price of a terminal session, where util-linux is installed. The scheduler weighs
// terminal sessions against each other (autogroup), so a switch between two costs a little more than one within.
func (b *bench) againAndPeers() []subject {
	return append(againAnd(b.subjects...), peer(subject{name: "setsid only", wrap: []string{"setsid", "-w"}}))
}

const (
	tripsToWarm   = 300
	tripsPerRound = 3000
)

// trips is the median time that do takes, in µs, once it has been done some times.
func trips(do func(i int) error) (float64, error) {
	var all []float64
	for i := range tripsToWarm + tripsPerRound {
		from := time.Now()
		if err := do(i); err != nil {
			return 0, err
		}
		if i >= tripsToWarm {
			all = append(all, float64(time.Since(from))/float64(time.Microsecond))
		}
	}
	return median(all), nil
}

// median of a set; NaN of none. It does not change the order of its argument.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(xs))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
