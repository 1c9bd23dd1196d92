package supervise

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// A session tells of each process that it has killed, kept or left, with its command. Who misses one finds out there who has ended it.

// maxFates bounds how many processes of each kind are named.
const maxFates = 20

// maxKept bounds how many kept ones are named in the record. Some of them nothing else will find, so it is as many as fit.
const maxKept = 40

// look looks for the members. Of those that are about to be killed it reads the command lines, as far as they are to be named.
func (t *tree) look() (end, kept []proc.Stat, err error) {
	end, kept, err = t.members.Members()
	if t.machine.State != teardown.Killing {
		return end, kept, err
	}
	for _, p := range end {
		if len(t.doomed) == maxFates {
			break
		}
		if t.doom(p.PID) == nil {
			t.doomed = append(t.doomed, session.FateOf(p, t.members.Args(p), session.Killed))
		}
	}
	return end, kept, err
}

// doom is what was noted of a process that was about to be killed; nil if nothing was.
func (t *tree) doom(pid int) *session.Fate {
	if i := slices.IndexFunc(t.doomed, func(f session.Fate) bool { return f.PID == pid }); i >= 0 {
		return &t.doomed[i]
	}
	return nil
}

// fates are those of the processes that were killed, kept and left. Of the kept ones those are named that no other one has started.
func (t *tree) fates(r *remains) (all []session.Fate) {
	for _, f := range t.doomed {
		if t.tally.signalled[f.PID] { // What has survived is not in there any more.
			all = append(all, f)
		}
	}
	all = append(all, r.belongings[:min(len(r.belongings), maxFates)]...)
	for _, v := range r.survivors[:min(len(r.survivors), maxFates)] {
		f := session.FateOf(proc.Stat{ID: proc.ID{PID: v.PID}, Comm: v.Comm}, nil, "")
		if known := t.doom(v.PID); known != nil {
			f = *known
		}
		f.What = session.Left + v.Why
		all = append(all, f)
	}
	return all
}

// belongings are the kept processes that no other kept one has started. Those come first that belong to people, and were not kept
// because the server or the user has said so: people says that there are such.
func (t *tree) belongings(kept []proc.Stat) (all []session.Fate, people bool) {
	isPeoples := func(p proc.Stat) int {
		if teardown.IsPeoples(t.members.Reason(p)) {
			return 0
		}
		return 1
	}
	tops := teardown.Tops(kept)
	slices.SortStableFunc(tops, func(a, b proc.Stat) int { return isPeoples(a) - isPeoples(b) })
	for _, p := range tops[:min(len(tops), maxKept)] {
		all = append(all, session.FateOf(p, t.members.Args(p), session.Kept+t.members.Reason(p)))
	}
	return all, len(tops) > 0 && isPeoples(tops[0]) == 0
}

// wordsOfKept say in a few words what was kept; "" for nothing.
func wordsOfKept(kept []session.Fate) string {
	if len(kept) == 0 {
		return ""
	}
	f := &kept[0]
	words := fmt.Sprintf("kept %d %s (%s)", f.PID, display.Text(f.Command), display.Text(strings.TrimPrefix(f.What, session.Kept)))
	if more := len(kept) - 1; more > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}

// tally is what a teardown has signalled, by pid: true stands for SIGKILL.
type tally struct {
	signalled map[int]bool
	// names are the command names of the first ones beside the server.
	names []string
}

// Bounds of a tally. A tree that forks while it is ended has no end.
const (
	maxTally = 10_000
	maxNames = 5
)

// add notes which processes were signalled.
func (t *tally) add(sent []teardown.Sent, server int) {
	if t.signalled == nil {
		t.signalled = map[int]bool{}
	}
	for _, x := range sent {
		killed, known := t.signalled[x.To.PID]
		if x.Err != nil || !known && len(t.signalled) == maxTally {
			continue
		}
		t.signalled[x.To.PID] = killed || x.Sig == unix.SIGKILL
		if name := display.Text(x.To.Comm); !known && x.To.PID != server && len(t.names) < maxNames && !slices.Contains(t.names, name) {
			t.names = append(t.names, name)
		}
	}
}

// count counts the processes that were ended, and those of them that took SIGKILL. What has survived was not ended.
func (t *tally) count(survivors []teardown.Survivor) (ended, killed int) {
	for _, s := range survivors {
		delete(t.signalled, s.PID)
	}
	for _, k := range t.signalled {
		if ended++; k {
			killed++
		}
	}
	return ended, killed
}

// words say in one line what was ended beside the server, and kept; "" if that is nothing.
func (t *tally) words(ended, killed, server int, kept string) string {
	if wasKilled, signalled := t.signalled[server]; signalled {
		if ended--; wasKilled {
			killed--
		}
	}
	switch {
	case ended == 0 && kept == "":
		return ""
	case ended == 0:
		return "mcp-tether: " + kept + "\n"
	case kept != "":
		kept = "; " + kept
	}
	processes, how := "processes", ""
	if ended == 1 {
		processes = "process"
	}
	if killed > 0 {
		how = fmt.Sprintf(", %d by SIGKILL", killed)
	}
	return fmt.Sprintf("mcp-tether: ended %d %s beside the server%s: %s%s\n", ended, processes, how, strings.Join(t.names, ", "), kept)
}
