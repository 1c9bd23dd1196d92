package teardown

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mcp-tether/internal/evidence"
	"mcp-tether/internal/proc"
)

// People says what is kept because it belongs to people: a browser that was opened for one, and what somebody else uses. That is a
// member that listens, and to which a living process of this user is connected that has no part in the session.
type People struct {
	// KeepNothing ends everything, whatever asks to be kept.
	KeepNothing bool
	// Groups are the process groups of the server, as far as they are known. What is in them is the server itself, whoever may be
	// connected.
	Groups [2]int
	// Above are the processes above the session, such as the gateway. They use its server, and nothing else is theirs.
	Above []int

	// reasons say why processes are kept, as far as they were seen to be, and whys those of the last look, by pid.
	reasons map[proc.ID]string
	whys    map[int]string
	// used are the members in use, by whom, as of the last question. asked are those that were there then, and it took so long.
	used    map[proc.ID]string
	asked   map[proc.ID]bool
	askedAt time.Time
	took    time.Duration
	settled bool
}

// Settle ends the questions who uses what: what is in use now stays kept.
func (m *Membership) Settle() { m.settled = true }

// Args is the command line of a process, nil if it cannot be read.
func (m *Membership) Args(p proc.Stat) []string {
	args, err := m.reader.Args(p)
	if err != nil {
		return nil
	}
	return args
}

// Reason says why a process is kept, "" for one that is not.
func (m *Membership) Reason(p proc.Stat) string { return m.reasons[p.ID] }

// Used reports whether the last look has found a member that is kept because it is in use.
func (m *Membership) Used() bool { return len(m.used) > 0 }

// purpose says what is to be done with a process of the session, and why it is kept. Its parent was judged before.
func (m *Membership) purpose(p proc.Stat, was, above role) (is role, why string) {
	switch {
	case m.KeepNothing:
		return member, ""
	case was == spared || above == spared: // also if it rewrites its environment later
		return spared, m.above(p)
	case m.holdsOlder(p, m.Began): // It is not the session's.
		return spared, olderReason
	case m.matches(p, m.Keep):
		return spared, "--keep"
	case m.hasEnv(p, KeepMark) && m.isOwn(p):
		return spared, KeepMark
	case was == driven || above == driven: // Its first process has decided.
		return driven, ""
	}
	switch m.browser(p) {
	case Personal:
		return spared, BrowserReason
	case Driven:
		return driven, ""
	}
	return member, ""
}

// above is the reason of a process that is kept with the one that has started it, or for one of its own.
func (m *Membership) above(p proc.Stat) string {
	if why := m.reasons[p.ID]; why != "" {
		return why
	}
	return m.whys[p.PPID]
}

// remember notes what a process is to the session, for when its parent is gone, and why it is kept.
func (m *Membership) remember(p proc.Stat, is role, why string) {
	if m.known == nil {
		m.known, m.reasons = map[proc.ID]role{}, map[proc.ID]string{}
	}
	m.roles[p.PID], m.known[p.ID] = is, is
	if why != "" {
		m.reasons[p.ID], m.whys[p.PID], m.sparing = why, why, true
	}
}

// Nobody asks more often than this who uses what, nor for more than an eighth of the time.
const askPause = 100 * time.Millisecond

// spareUsed moves what is in use from the members to end to the kept, with all below it. What was seen below it stays kept as long
// as something is in use.
func (m *Membership) spareUsed(found, end, kept []proc.Stat) (ending, keeping []proc.Stat) {
	m.askWho(found, end)
	if len(m.used) == 0 {
		return end, kept
	}
	t, roots := proc.NewTable(found), []int{}
	for _, p := range end {
		if m.used[p.ID] != "" || m.known[p.ID] == used {
			roots = append(roots, p.PID)
		}
	}
	below := map[int]bool{}
	for _, p := range t.Below(roots, nil) {
		below[p.PID] = true
	}
	for _, p := range end {
		if !below[p.PID] {
			ending = append(ending, p)
			continue
		}
		why := m.used[p.ID]
		if why == "" {
			why = m.above(p)
		}
		m.remember(p, used, why)
		keeping = append(keeping, p)
	}
	return ending, append(kept, keeping...)
}

// askWho finds out which members are in use. Only those are asked about that have left the server's process group.
func (m *Membership) askWho(found, end []proc.Stat) {
	if m.KeepNothing || m.settled {
		return
	}
	var listeners []proc.Stat
	news := false
	for _, p := range end {
		if !slices.Contains(m.Groups[:], p.PGRP) {
			listeners = append(listeners, p)
			news = news || !m.asked[p.ID]
		}
	}
	if len(listeners) == 0 {
		m.used = nil
		return
	}
	if since := time.Since(m.askedAt); since < m.took || !news && since < max(askPause, 8*m.took) {
		return
	}
	m.ask(found, listeners)
}

// ask asks who uses these members.
func (m *Membership) ask(found, listeners []proc.Stat) {
	began := time.Now()
	m.asked, m.used = map[proc.ID]bool{}, map[proc.ID]string{}
	inside := append([]int{m.Root, os.Getpid()}, m.Above...)
	for _, p := range found {
		m.asked[p.ID] = true
		inside = append(inside, p.PID)
	}
	pids := make([]int, len(listeners))
	for i, p := range listeners {
		pids[i] = p.PID
	}
	var sockets evidence.Sockets
	users, err := sockets.Users(pids, inside)
	m.note(err)
	for _, p := range listeners {
		if by := users[p.PID]; by > 0 {
			user, _ := m.reader.Stat(by) // It may have ended since.
			m.used[p.ID] = InUse(by, user.Comm)
		}
	}
	m.askedAt = time.Now()
	m.took = m.askedAt.Sub(began)
}

// IsPeoples reports whether that is why a process is kept which belongs to people.
func IsPeoples(why string) bool { return why == BrowserReason || strings.HasPrefix(why, "in use by ") }

// InUse is why a process is kept that another one uses.
func InUse(by int, name string) string {
	return strings.TrimSpace(fmt.Sprintf("in use by %d %s", by, name))
}

// Tops are those of the kept processes that were not started by another one of them.
func Tops(kept []proc.Stat) []proc.Stat {
	t := proc.NewTable(kept)
	return slices.DeleteFunc(slices.Clone(kept), func(p proc.Stat) bool { _, below := t.Parent(p); return below })
}
