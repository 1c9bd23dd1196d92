package delegate

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcp-tether/internal/testkit"
)

// manyStrangers are more users than one batch takes.
func manyStrangers() []int {
	var uids []int
	for n := range 3 * maxUsers {
		uids = append(uids, 1_000_000+n)
	}
	return uids
}

// Users that are quick are all served, however many there are. Those of the first group come first.
func TestEverybodyHasATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		many := manyStrangers()
		var (
			lock   sync.Mutex
			served []int
		)
		ask := func(_ context.Context, u User) int {
			lock.Lock()
			defer lock.Unlock()
			served = append(served, u.UID)
			return -u.UID
		}
		first := 2_000_000
		all, left := InTurn(time.Minute, ask, []int{first, 0, first}, append(many, first))
		if left > 0 {
			t.Errorf("%d had no turn", left)
		}
		byNumber := func(a, b Answer[int]) int { return a.By.UID - b.By.UID }
		mixed := func(a Answer[int]) bool { return a.Said != -a.By.UID }
		if len(all) != len(served) || !slices.IsSortedFunc(all, byNumber) || slices.ContainsFunc(all, mixed) {
			t.Errorf("%d answers of %d", len(all), len(served))
		}
		if len(served) != len(many)+1 {
			t.Errorf("%d served", len(served))
		}
		if at := slices.Index(served, first); at < 0 || at > maxUsers {
			t.Errorf("the first group came as number %d", at)
		}
	})
}

// In a group, those come first that the machine's list of users has. A small image of a container has no such list.
func TestTheKnownComeFirst(t *testing.T) {
	const nobody = 65534
	testkit.Lacks(t, testkit.Tools, !(lookup(nobody).Known), "user 65534 in /etc/passwd")
	if order := inOrder([][]int{append(manyStrangers(), nobody)}); order[0] != nobody {
		t.Errorf("the known one is number %d", slices.Index(order, nobody))
	}
}

// Users that hang take no more than the time, and it is not always the same ones that have no turn.
func TestTurnsRotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total, passes = 15 * time.Second, 100
		many, served := manyStrangers(), map[int]bool{}
		both := func() bool { return served[many[0]] && served[many[len(many)-1]] }
		for n := 0; n < passes && !both(); n++ { // one in three users has a turn at least
			var lock sync.Mutex
			began := time.Now()
			_, left := InTurn(total, func(ctx context.Context, u User) error {
				lock.Lock()
				served[u.UID] = true
				lock.Unlock()
				<-ctx.Done()
				return ctx.Err()
			}, many)
			if time.Since(began) > total || left == 0 {
				t.Fatalf("%d had no turn, after %v", left, time.Since(began))
			}
		}
		if !both() {
			t.Errorf("of %d users %d had a turn in %d passes", len(many), len(served), passes)
		}
	})
}
