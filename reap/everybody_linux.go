package reap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"mcp-tether/delegate"
	"mcp-tether/session"
)

// Root looks after everybody, and trusts nobody. So it makes the pass once more for each user who has something here, in a
// child that is that user: what the user has forged, hung or filled harms the user's own pass. The child ends processes
// with the user's rights, and reads what the user may read. Root takes its report for the user's word (foreign.go).

// Bounds of the passes for others.
const (
	// maxUsers bounds how many users are looked after. Those whom the host's list of users has come first: a user may have
	// many thousand subordinate ids (subuid(5)).
	maxUsers = 256
	// maxPasses is how many run at a time.
	maxPasses = 16
	// othersShare is the part of the time limit that all of them have together, in percent. The rest is root's own.
	othersShare = 70
)

// errLeftOut says that a user was not looked after.
var errLeftOut = errors.New("too many users")

// everybody adds what the other users' passes find, end or cannot do. It returns within their share of the time limit.
func (r *Report) everybody(h *host, o *Options) {
	all := users(h)
	for _, u := range all[min(len(all), maxUsers):] {
		r.incomplete(u, errLeftOut)
	}
	all = all[:min(len(all), maxUsers)]
	words := slices.Clone(o.Everybody)
	for _, id := range spare(h.Sessions) {
		words = append(words, "--"+SpareFlag+"="+id)
	}
	total := o.Timeout * othersShare / 100
	ctx, cancel := context.WithTimeout(context.Background(), total)
	defer cancel()
	// A user who hangs must leave time for those who wait for their turn.
	waves := (len(all) + maxPasses - 1) / maxPasses
	slice := total / time.Duration(max(waves, 1))
	answers := make([]answer, len(all))
	turns := make(chan struct{}, maxPasses)
	var wait sync.WaitGroup
	for i, u := range all {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			mine, done := context.WithTimeout(ctx, slice)
			defer done()
			answers[i] = ask(mine, u, words)
		})
	}
	wait.Wait()
	for i, u := range all {
		r.take(u, answers[i])
	}
}

// answer is what the pass of another user gave.
type answer struct {
	report Report
	err    error
}

// ask makes the pass of one user.
func ask(ctx context.Context, u delegate.User, words []string) answer {
	out, code, err := delegate.Run(ctx, u, words, maxReport)
	if err != nil {
		return answer{err: err}
	}
	report, err := parseReport(out)
	if err == nil && code > 1 && len(report.Incomplete) == 0 {
		err = fmt.Errorf("its pass failed (exit code %d)", code)
	}
	return answer{report, err}
}

// incomplete notes that a user's pass did not do all.
func (r *Report) incomplete(u delegate.User, err error) {
	r.Incomplete = append(r.Incomplete, fmt.Sprintf("user %s: %v", u.Name, err))
}

// users lists the other users who have something here: processes, cgroups of ours, a directory of records. Those whom the
// host knows come first.
func users(h *host) []delegate.User {
	uids := append(session.Users(), h.Others...)
	for i := range h.Procs {
		if p := &h.Procs[i]; !p.Dead() {
			uids = append(uids, p.UID)
		}
	}
	slices.Sort(uids)
	var out []delegate.User
	for _, uid := range slices.Compact(uids) {
		if uid != h.UID && uid > 0 {
			out = append(out, delegate.Lookup(uid))
		}
	}
	slices.SortStableFunc(out, func(a, b delegate.User) int {
		return strings.Compare(order(a), order(b))
	})
	return out
}

// order puts the users whom the host knows first.
func order(u delegate.User) string {
	if u.Known {
		return "1"
	}
	return "2"
}
