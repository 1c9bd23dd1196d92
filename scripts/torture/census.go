//go:build amd64

package main

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// plan is what the cases of one mode, ending and first fault are made from.
type plan struct {
	base Case
	// share says that of so many cases one is made, chosen by its id.
	share uint32
}

// plans lists the sessions whose calls are counted first. The graceful endings get a share of the cases, because their
// sessions differ from the others' in few calls. So do second faults in modes whose recovery is that of leaf.
func plans() []plan {
	var out []plan
	for _, m := range modeNames() {
		second := uint32(3)
		if m == "leaf" || m == "noleaf" || m == "logfile" {
			second = 1
		}
		out = append(out, plan{Case{Mode: m, Ending: endGateway}, 1}, plan{Case{Mode: m, Ending: endTerm}, 4}, plan{Case{Mode: m, Ending: endEOF}, 4})
		roles := []string{roleSupervisor, roleAnchor}
		if modes()[m].sleeps || modes()[m].shares {
			roles = append(roles, roleWaiter, roleFront)
		}
		if modes()[m].shares {
			roles = append(roles, roleHost)
		}
		for _, at := range []string{atReady, atEnding} {
			for _, role := range roles {
				out = append(out, plan{Case{Mode: m, Ending: endGateway, First: &Moment{role, at}}, second})
			}
		}
	}
	return out
}

// modeNames are the modes under test, in the order of the table.
func modeNames() []string {
	return []string{"leaf", "noleaf", "deaf", "hibernate", "share", "engine", "logfile"}
}

// cases makes the cases of a plan from the calls that were counted.
func (p plan) cases(counts map[string]map[string]int) []Case {
	var out []Case
	for _, role := range slices.Sorted(maps.Keys(counts)) {
		if f := p.base.First; f != nil && (role == f.Role || role == withRuntime(f.Role)) {
			continue
		}
		for _, call := range slices.Sorted(maps.Keys(counts[role])) {
			for _, n := range occurrences(call, counts[role][call]) {
				out = append(out, p.at(role, call, n)...)
			}
		}
	}
	return slices.DeleteFunc(out, func(c Case) bool { return hash(c.String())%p.share != 0 })
}

// A scan of the process table makes a long row of calls with one name. Of such a row the first are all hit, and of the
// others as many at equal distances.
const rowStart = 16

// occurrences lists which of the calls are hit.
func occurrences(call string, count int) []int {
	if sparse(call) && count > 8 {
		return []int{1, 2, count / 4, count / 2, 3 * count / 4, count - 1, count}
	}
	var out []int
	for n := 1; n <= count; n++ {
		if n <= rowStart || n*rowStart/count != (n-1)*rowStart/count {
			out = append(out, n)
		}
	}
	return out
}

// pairsOfMode is how many cases of a mode kill one process at any of its calls and then fail a call of the other.
const pairsOfMode = 400

// pairs makes cases of two faults. The first strikes at some call of a role, as single counted them. The second is one
// of another plan, in which the same role is killed when the session is up. The cases are the same in each campaign.
func pairs(second []Case, single map[string]map[string]int) []Case {
	if len(second) == 0 {
		return nil
	}
	role := second[0].First.Role
	var moments []Moment
	for _, role := range []string{role, withRuntime(role)} {
		for _, call := range slices.Sorted(maps.Keys(single[role])) {
			for _, n := range occurrences(call, single[role][call]) {
				moments = append(moments, Moment{role, fmt.Sprintf("%s.%d", call, n)})
			}
		}
	}
	if len(moments) == 0 {
		return nil
	}
	r := rand.New(rand.NewPCG(uint64(hash(second[0].Mode+role)), 0))
	out := make([]Case, pairsOfMode/2)
	for i := range out {
		out[i] = second[r.IntN(len(second))]
		out[i].First = &moments[r.IntN(len(moments))]
	}
	return out
}

// at lists the faults at one call.
func (p plan) at(role, call string, n int) []Case {
	var faults []Shot
	for _, errno := range plausible(call) {
		// Without memory the Go runtime ends the process, so both would be gone.
		if p.base.First != nil && call == "mmap" {
			break
		}
		faults = append(faults, Shot{role, call, n, errno, false})
		// What is exhausted or forbidden stays so more often than not.
		if n == 1 && lasting(errno) && call != "kill" {
			faults = append(faults, Shot{role, call, n, errno, true})
		}
	}
	// No session can withstand the death of both processes.
	if p.base.First == nil {
		faults = append(faults, Shot{role, call, n, faultDelay, false}, Shot{role, call, n, faultKillBefore, false}, Shot{role, call, n, faultKillAfter, false})
		// Another process continues a stopped one wherever it stands, so a tenth of these cases has to do.
		if id := p.base.with(Shot{role, call, n, faultStop, false}); p.stoppable(role) && hash(id.String())%10 == 0 {
			faults = append(faults, *id.Shot)
		}
	}
	var out []Case
	for _, f := range faults {
		out = append(out, p.base.with(f))
	}
	return out
}

// stoppable reports whether a session must end although a role is stopped. A stopped anchor or waiter does not see the SIGTERM that
// asks for the end.
func (p plan) stoppable(role string) bool {
	if modes()[p.base.Mode].shares {
		return false // A stopped host is continued by its sessions only.
	}
	return role != roleAnchor && role != roleWaiter || p.base.Ending != endTerm
}

func (c Case) with(s Shot) Case {
	c.Shot = &s
	return c
}

func lasting(errno string) bool {
	return slices.Contains([]string{"EMFILE", "ENFILE", "ENOMEM", "ENOSYS", "EPERM", "EACCES", "ENOSPC", "EROFS"}, errno)
}

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.TrimSuffix(s, "+")))
	return h.Sum32()
}
