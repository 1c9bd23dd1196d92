package delegate

import (
	"context"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"
)

// shortestTurn is what a batch of users has at least, so that a child of each gets to answer.
const shortestTurn = 10 * time.Second

// Answer is what the child of a user has brought.
type Answer[T any] struct {
	By   User
	Said T
}

// InTurn calls ask for the users with these numbers, each once and without root, several at a time, and returns after total at
// the latest: the answers by number, and how many users had no turn. The first group comes first, and in a group those that the
// machine's list of users has. A user may have made up many thousand others (subuid(5)). So time is the limit, and where a part
// begins changes: left, who had no turn, are others the next time.
func InTurn[T any](total time.Duration, ask func(ctx context.Context, u User) T, groups ...[]int) (all []Answer[T], left int) {
	var lock sync.Mutex
	left = eachInTurn(total, func(ctx context.Context, u User) {
		a := Answer[T]{u, ask(ctx, u)}
		lock.Lock()
		defer lock.Unlock()
		all = append(all, a)
	}, groups)
	sort.Slice(all, func(i, j int) bool { return all[i].By.UID < all[j].By.UID }) // slices.SortFunc would take 15 kB for each type.
	return all, left
}

// eachInTurn is InTurn without the answers.
func eachInTurn(total time.Duration, do func(ctx context.Context, u User), groups [][]int) (left int) {
	end := time.Now().Add(total)
	uids := inOrder(groups)
	for len(uids) > 0 && time.Now().Before(end) {
		batches := (len(uids) + maxUsers - 1) / maxUsers
		n := min(len(uids), maxUsers)
		turn := max(time.Until(end)/time.Duration(batches), shortestTurn)
		each(lookUp(uids[:n]), min(turn, time.Until(end)), do)
		uids = uids[n:]
	}
	return len(uids)
}

// inOrder puts the users of all groups in the order of their turns.
func inOrder(groups [][]int) (out []int) {
	seen := map[int]bool{}
	for _, group := range groups {
		var known, strangers []int
		for _, uid := range group {
			switch {
			case uid <= 0 || seen[uid]:
			case lookup(uid).Known:
				known = append(known, uid)
			default:
				strangers = append(strangers, uid)
			}
			seen[uid] = true
		}
		out = append(append(out, rotated(known)...), rotated(strangers)...)
	}
	return out
}

// rotated begins a list anywhere.
func rotated(all []int) []int {
	if len(all) == 0 {
		return nil
	}
	n := rand.IntN(len(all))
	return slices.Concat(all[n:], all[:n])
}
