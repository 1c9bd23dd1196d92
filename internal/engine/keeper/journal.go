package keeper

import (
	"context"
	"errors"
	"fmt"
	"math"

	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
)

// recallOnce reads the journal of a killed supervisor, unless an earlier call has succeeded. The error
// says that there may be more objects than we know of. A damaged journal is no error, because reading it again does not
// help.
func (k *Keeper) recallOnce() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.unread {
		return nil
	}
	err := k.recall()
	k.claim.Complete = err == nil
	if err != nil && !errors.Is(err, session.ErrTorn) {
		return fmt.Errorf("read what the session has made: %w", err)
	}
	k.unread = false
	return nil
}

// recall reads what was noted before.
func (k *Keeper) recall() error {
	notes, err := k.dir.Notes(k.claim.Session)
	for _, n := range notes {
		k.ledger.Add(n)
	}
	return err
}

// note writes down what the session does to the engine. Without a journal it is still known here.
func (k *Keeper) note(n engine.Note) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ledger.Add(n)
	if k.journal == nil {
		return
	}
	if k.ledger.Empty() && k.claim.Complete && k.journal.Reset() == nil {
		return
	}
	if err := k.journal.Note(n); err != nil && !k.unrecorded {
		k.unrecorded = true
		k.o.Log.Warn().Err(err).Msg("containers are not recorded: if mcp-tether is killed they stay")
	}
	if k.noted++; k.noted >= k.forgetAt {
		k.noted, k.forgetAt = 0, math.MaxInt
		go k.forget()
	}
}

// forgetEvery is the number of notes after which containers that are gone are taken out of the ledger.
const forgetEvery = 256

// forget takes those containers out of ledger and journal that the engine has removed by itself (--rm), or others have.
func (k *Keeper) forget() {
	k.mu.Lock()
	known := k.ledger.Objects()
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), k.o.Limit)
	defer cancel()
	have, err := engine.Client{Dial: k.Dial}.Containers(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetAt = forgetEvery
	if err != nil || k.journal == nil || !k.claim.Complete {
		return // at another time, or never
	}
	there := map[string]bool{}
	for _, x := range have {
		there[x.ID] = true
	}
	for _, o := range known {
		if o.Kind == engine.Container && !there[o.ID] {
			k.ledger.Add(engine.Note{Op: engine.OpRemoved, Kind: o.Kind, ID: o.ID})
			k.proxy.Forget(o.Kind, o.ID)
		}
	}
	notes := k.ledger.Notes()
	if err := k.journal.Replace(notes); err != nil {
		k.o.Log.Debug().Err(err).Msg("the journal of containers could not be shortened")
	}
	k.forgetAt += len(notes)
}

// closeJournal closes the journal, and empties it if nothing is left. Later notes are not written down.
func (k *Keeper) closeJournal(empty bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.journal == nil {
		return
	}
	if empty {
		if err := k.journal.Reset(); err != nil {
			k.o.Log.Debug().Err(err).Msg("the journal of containers could not be emptied")
		}
	}
	k.journal.Close()
	k.journal = nil
}
