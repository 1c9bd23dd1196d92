package keeper

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/engine"
)

// Removal is the result of removing a session's containers.
type Removal struct {
	// Done says that it was tried.
	Done bool
	// Count is how many were ended.
	Count int
	// Err says what may be left.
	Err   error
	ended []engine.Result
	asked bool // what may be left has had its grace period
}

// An engine that is busy and answers gets up to maxRounds rounds. One that does not answer within AnswerTime is not waited
// for any longer.
const (
	maxRounds  = 6
	AnswerTime = time.Second
)

// LongestRemoval is the longest time that the removal of a session's containers may take. limit is how long an engine may
// take in one round, beside the grace period of the containers.
func LongestRemoval(grace, limit time.Duration) time.Duration {
	return limit/2 + maxRounds*(grace+limit+AnswerTime)
}

// Shut begins to remove what the session made, while its processes end. No client can connect any more: what it made would
// not be looked for.
func (k *Keeper) Shut() {
	if k.listener >= 0 {
		_ = unix.Close(k.listener)
		k.listener = -1
	}
	if k.outcome != nil {
		return
	}
	k.outcome = make(chan Removal, 1)
	if k.idle() {
		k.outcome <- Removal{}
		return
	}
	go func() { k.outcome <- k.remove() }()
}

// idle reports whether there is nothing to remove.
func (k *Keeper) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.served && k.ledger.Empty() && k.claim.Complete
}

// errUnanswered says that what the engine is still working on may become a container.
var errUnanswered = errors.New("the engine has not answered a create")

// remove ends what the session made, in rounds. Each has the grace period and the limit: a container that ignores its stop
// signal uses the former up, and is killed after that. Later rounds have no grace period if all have had it: a container
// that cannot be removed would use it up each time. Before the first round the outcomes of all creates are waited for, and
// after that while there is time in a round. One that the engine never answers must not keep the others alive.
func (k *Keeper) remove() (r Removal) {
	settled := k.proxy == nil
	if !settled {
		ctx, cancel := context.WithTimeout(context.Background(), k.o.Limit/2)
		settled = k.proxy.Shut(ctx)
		cancel()
	}
	grace := k.o.Grace
	for range maxRounds {
		ctx, cancel := context.WithTimeout(context.Background(), grace+k.o.Limit)
		done := r.Count
		for i := range r.ended {
			if r.ended[i].Done {
				done++
			}
		}
		r = k.removeOnce(ctx, grace)
		r.Count = done
		switch {
		case !settled:
			// What has come of it since is for the next round.
			settled = k.proxy.Shut(ctx)
			if r.Err == nil {
				r.Err = errUnanswered
			}
		case r.asked:
			grace = 0
		}
		cancel()
		if r.Err == nil || !k.answers() {
			break
		}
	}
	return r
}

// answers reports whether the engine is there, and not stuck.
func (k *Keeper) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), AnswerTime)
	defer cancel()
	_, err := engine.Client{Dial: k.Dial}.Containers(ctx)
	return err == nil
}

// removeOnce ends what is known to have been made.
func (k *Keeper) removeOnce(ctx context.Context, grace time.Duration) Removal {
	unread := k.recallOnce()
	k.mu.Lock()
	claim := k.claim
	claim.Ledger = k.ledger.Clone()
	k.mu.Unlock()
	if claim.Complete && claim.Ledger.Empty() {
		return Removal{}
	}
	ended, err := claim.End(ctx, engine.Client{Dial: k.Dial}, grace)
	// The labels may not have told of everything.
	return Removal{ended: ended, Err: errors.Join(err, unread), asked: claim.HadGrace(ended)}
}

// Close waits for the removal, which is bounded, logs what it has ended, and releases all that the keeper holds.
func (k *Keeper) Close() Removal {
	k.Shut()
	r := <-k.outcome
	r.Done = true
	r.Count += len(r.ended)
	if k.proxy != nil {
		k.proxy.Close()
	}
	k.mu.Lock()
	k.tellSuppressed()
	k.mu.Unlock()
	k.endHelpers()
	if err := k.dir.RemoveSocket(k.socket, k.claim.Session); err != nil {
		r.Err = errors.Join(r.Err, err)
	}
	k.closeJournal(r.Err == nil)
	for _, x := range r.ended {
		k.o.Log.Debug().Str("kind", string(x.Kind)).Str("id", x.ID).Str("container", x.Name).Str("why", x.Why).Bool("done", x.Done).
			AnErr("error", x.Err).Msg("container ended")
	}
	return r
}
