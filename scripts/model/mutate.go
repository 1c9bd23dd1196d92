package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A replay that took every log would prove nothing. So mistakes are made in logs that the model takes, and it must refuse each.

// mutation is a mistake in a log.
type mutation struct {
	what string
	// change makes it; nil where the log has nothing to make it in.
	change func([]event) []event
}

// mutations are the mistakes. The words are names of replay.pml.
func mutations() []mutation {
	return []mutation{
		{"the start is missing", drop("STARTED", "supervisor")},
		{"the reason of the end is missing", drop("ASKED_TO_END", "supervisor")},
		{"SIGTERM comes before its reason", swap("INPUT_CLOSED", "SIGTERMS")},
		{"SIGKILL comes before the end of the grace", swap("KILLING", "SIGKILLS")},
		{"the record goes before a signal", swap("SIGTERMS", "UNRECORDED")},
		{"the record goes before the tree is empty", swap("SIGKILLS", "UNRECORDED")},
		{"the record stays", drop("UNRECORDED", "supervisor")},
		{"the session ends before its record", swap("UNRECORDED", "OVER")},
		{"the session does not end", drop("OVER", "supervisor")},
		{"the session ends twice", twice("OVER")},
		{"the anchor signals beside its supervisor", sign("SIGTERMS", "supervisor-gone")},
		{"the anchor is gone, and nobody has killed it", sign("INPUT_CLOSED", "anchor-gone")},
		{"the input was closed, and nobody has closed it", sign("ASKED_TO_END", "stdin-closed")},
		{"the anchor recovers, and nobody has killed its supervisor", spare("RECOVERING", "supervisor")},
		{"the anchor recovers twice", twice("RECOVERING")},
		{"a server is woken that did not sleep", drop("NAPS", "front")},
		{"a server starts beside the end of the last one", overtake("STARTED", "ENDED")},
	}
}

// find gives the index of the first event of a step, from an index on; -1 without one.
func find(events []event, from int, name string) int {
	for _, s := range steps() {
		if s.name != name {
			continue
		}
		for i := from; i < len(events); i++ {
			if s.matches(events[i]) {
				return i
			}
		}
	}
	return -1
}

// drop leaves out an event. A process that was killed may have had no time to log it.
func drop(name, of string) func([]event) []event {
	return func(events []event) []event {
		i := find(events, 0, name)
		if i < 0 || told(events, of) >= 0 {
			return nil
		}
		return slices.Delete(events, i, i+1)
	}
}

func twice(name string) func([]event) []event {
	return func(events []event) []event {
		i := find(events, 0, name)
		if i < 0 {
			return nil
		}
		return slices.Insert(events, i, events[i])
	}
}

// swap lets two events of one session change places.
func swap(name, later string) func([]event) []event {
	return func(events []event) []event {
		i := find(events, 0, name)
		j := find(events, max(i, 0), later)
		if i < 0 || j < 0 || events[i].text("session") != events[j].text("session") {
			return nil
		}
		events[i], events[j] = events[j], events[i]
		return events
	}
}

// sign gives an event another cause.
func sign(name, cause string) func([]event) []event {
	return func(events []event) []event {
		i := find(events, 0, name)
		if i < 0 || events[i].text("cause") == cause || find(events, 0, "RECOVERING") >= 0 || find(events, 0, "ANCHOR_GONE") >= 0 || told(events, "anchor") >= 0 {
			return nil
		}
		events[i] = maps.Clone(events[i])
		events[i]["cause"] = cause
		return events
	}
}

// told is the index of the line that says that a process is killed; -1 without one.
func told(events []event, role string) int {
	return slices.IndexFunc(events, func(e event) bool { return e.text("test") == "kills" && e.text("role") == role })
}

// spare leaves out that a process was killed.
func spare(name, role string) func([]event) []event {
	return func(events []event) []event {
		i := told(events, role)
		if i < 0 || find(events, 0, name) < 0 {
			return nil
		}
		return slices.Delete(events, i, i+1)
	}
}

// overtake moves the second event of a step before the first of another one.
func overtake(name, first string) func([]event) []event {
	return func(events []event) []event {
		to := find(events, 0, first)
		i := find(events, max(to, 0), name)
		if to < 0 || i < 0 {
			return nil
		}
		e := events[i]
		return slices.Insert(slices.Delete(events, i, i+1), to, e)
	}
}

// tries is in how many logs each mistake is made.
const tries = 3

// control makes the mistakes in logs that the model takes.
func (p player) control(logs []log) error {
	slices.SortStableFunc(logs, func(a, b log) int { return len(a.events) - len(b.events) })
	all := mutations()
	results := make([]error, len(all))
	each(len(all), func(i int) { results[i] = p.refusesAll(all[i], logs) })
	if err := errors.Join(errors.Join(results...), p.needs(logs, "ONE_TIE"), p.needs(logs, "NO_RECOVERY")); err != nil {
		return err
	}
	fmt.Printf("%d kinds of mistakes in them are refused\n", len(all))
	return nil
}

// refusesAll makes a mistake in a few logs.
func (p player) refusesAll(m mutation, logs []log) error {
	made := 0
	var failed error
	for _, l := range logs {
		if changed := m.change(slices.Clone(l.events)); changed != nil && made < tries {
			made++
			failed = errors.Join(failed, p.refuses(m, changed))
		}
	}
	if made == 0 {
		return fmt.Errorf("no log to make this mistake in: %s", m.what)
	}
	return failed
}

// refuses checks that the model does not take a log with a mistake.
func (p player) refuses(m mutation, events []event) error {
	t, why := makeTrace(m.what, events)
	if why != "" {
		return fmt.Errorf("%s: not even read: %s", m.what, why)
	}
	n, err := p.came(t, 0)
	if err != nil {
		return err
	}
	if n == len(t.lines) {
		return fmt.Errorf("the model takes a log with a mistake: %s\n%v", m.what, events)
	}
	return nil
}

// needs checks that there is a log that the model does not take with a planted mistake: what the mistake takes away, the code does.
func (p player) needs(logs []log, name string) error {
	all, err := mistakes()
	if err != nil {
		return err
	}
	bug := all[slices.IndexFunc(all, func(m mistake) bool { return m.name == name })].bug
	for _, l := range logs {
		if n, err := p.came(l.trace, bug); err != nil || n < len(l.lines) {
			return err
		}
	}
	return fmt.Errorf("the model with the mistake %s takes all logs", name)
}
