package delegate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Users that hang leave every other one its share of the time, and users that are quick leave theirs to those that follow.
func TestEachSharesTheTime(t *testing.T) {
	const waves, total = 3, 42 * time.Second
	for name, c := range map[string]struct {
		hangs func(i int) bool
		last  time.Duration
	}{
		"all hang":             {func(int) bool { return true }, total / waves},
		"none hangs":           {func(int) bool { return false }, total},
		"the first one hangs":  {func(i int) bool { return i == 0 }, total},
		"the first wave hangs": {func(i int) bool { return i < atOnce }, total - total/waves},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				users := make([]User, (waves-1)*atOnce+1)
				for i := range users {
					users[i].UID = i
				}
				had, began := make([]time.Duration, len(users)), time.Now()
				each(users, total, func(ctx context.Context, u User) {
					end, _ := ctx.Deadline()
					if had[u.UID] = time.Until(end); c.hangs(u.UID) {
						<-ctx.Done()
					}
				})
				for i, d := range had {
					if d < total/waves {
						t.Errorf("user %d had %v", i, d)
					}
				}
				if last := had[len(had)-1]; last != c.last || time.Since(began) > total {
					t.Errorf("the last user had %v, want %v; it took %v in all", last, c.last, time.Since(began))
				}
			})
		})
	}
}
