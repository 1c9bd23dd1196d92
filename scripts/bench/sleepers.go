package main

import (
	"fmt"
	"time"
)

// sleeper is a server that says it is there and then does nothing.
func sleeper() []string { return []string{"/bin/sh", "-c", "echo ready; exec sleep 1000000"} }

// startSleepers starts n sessions of a sleeper, and waits for each.
func (b *bench) startSleepers(s subject, n int) ([]*live, error) {
	var all []*live
	for range n {
		l, err := b.start(s.command(sleeper()...), pipes)
		if err == nil {
			all = append(all, l)
			_, err = l.firstByte()
		}
		if err != nil {
			endAll(all)
			return nil, err
		}
	}
	time.Sleep(3 * time.Second) // start-up work and its garbage are not what a session holds or does
	return all, nil
}

// endAll lets all go before it waits for any, so that their teardowns overlap.
func endAll(all []*live) {
	for _, l := range all {
		l.letGo()
		l.terminate()
	}
	for _, l := range all {
		_ = l.wait()
	}
}

// measureMemory adds up what the wrapper's processes hold while many sessions run at once. Pages of the binary are
// shared between them, and PSS counts each sharer's part.
func measureMemory(b *bench) (table, error) {
	t := table{
		Section: "memory",
		Title:   fmt.Sprintf("Memory: the wrapper's own processes, %d sessions at once", b.sessions),
		Columns: []string{"sessions", "PSS median MB", "PSS mean MB", "private median MB", "threads median", "threads max"},
	}
	for _, s := range b.subjects {
		if s.missing {
			t.missing(s.name, "whole session")
			continue
		}
		if err := b.weigh(&t, s); err != nil {
			return t, err
		}
	}
	return t, nil
}

func (b *bench) weigh(t *table, s subject) error {
	all, err := b.startSleepers(s, b.sessions)
	if err != nil {
		return err
	}
	defer endAll(all)
	var pss, private, threads []float64
	for _, l := range all {
		pids, err := b.wrappers(l)
		if err != nil {
			return err
		}
		m, err := memoryOf(pids...)
		if err != nil {
			return err
		}
		pss, private, threads = append(pss, m.pss), append(private, m.private), append(threads, m.threads)
	}
	t.add(s.name, "whole session", float64(len(all)), median(pss), mean(pss), median(private), median(threads), quantile(threads, 1))
	return nil
}

const idleSessions = 10

// measureIdle counts how often our processes wake while nothing happens.
func measureIdle(b *bench) (table, error) {
	t := table{
		Section: "idle",
		Title:   fmt.Sprintf("Idle: the wrapper's own processes over %s of silence, per session", b.idle),
		Columns: []string{"sessions", "context switches median", "context switches max"},
	}
	all, err := b.startSleepers(b.subjects[0], idleSessions)
	if err != nil {
		return t, err
	}
	defer endAll(all)
	before, err := b.switches(all)
	if err != nil {
		return t, err
	}
	time.Sleep(b.idle)
	after, err := b.switches(all)
	if err != nil {
		return t, err
	}
	woken := differences(after, before)
	t.add(b.subjects[0].name, "", idleSessions, median(woken), quantile(woken, 1))
	return t, nil
}

// switches has one entry a session.
func (b *bench) switches(all []*live) (each []float64, err error) {
	for _, l := range all {
		pids, err := b.wrappers(l)
		if err != nil {
			return nil, err
		}
		n, err := switchesOf(pids...)
		if err != nil {
			return nil, err
		}
		each = append(each, n)
	}
	return each, nil
}
