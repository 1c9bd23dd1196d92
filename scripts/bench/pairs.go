package main

import "slices"

// pairs runs f bare and with s in turn, n times, after some rounds that do not count.
func pairs(n, warm int, f func(subject) (float64, error), s subject) (without, with []float64, err error) {
	return pairsWith(bare(), n, warm, f, s)
}

// pairsWith compares with another subject than bare.
func pairsWith(base subject, n, warm int, f func(subject) (float64, error), s subject) (without, with []float64, err error) {
	for i := range n + warm {
		a, err := f(base)
		if err != nil {
			return nil, nil, err
		}
		b, err := f(s)
		if err != nil {
			return nil, nil, err
		}
		if i >= warm {
			without, with = append(without, a), append(with, b)
		}
	}
	return without, with, nil
}

// compare adds a row for each subject: both figures and the median ratio of its pairs.
// Where util-linux is installed, the kernel's own price of a terminal session is shown beside. The scheduler weighs
// terminal sessions against each other (autogroup), so a switch between two costs a little more than one within.
func (b *bench) compare(t *table, kase string, n int, f func(subject) (float64, error)) error {
	own := peer(subject{name: "setsid only", wrap: []string{"setsid", "-w"}})
	for _, s := range append(b.againAnd(), own) {
		if s.missing {
			t.missing(s.name, kase)
			continue
		}
		without, with, err := pairs(n, 1, f, s)
		if err != nil {
			return err
		}
		t.add(s.name, kase, float64(n), median(without), median(with), median(ratios(with, without)))
	}
	return nil
}

// againAnd puts bare itself before the subjects. Its row is compared with bare too, and tells how far a figure may be
// off for no reason at all.
func (b *bench) againAnd() []subject {
	return slices.Insert(slices.Clone(b.subjects), 0, subject{name: "bare again"})
}
