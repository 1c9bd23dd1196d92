package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// others reads the living sessions of all other users, for root. Root reads no other user's files. A child that is that
// user reads them, and its answer is that user's word. others calls note for what could not be read.
func others(note func(string)) (all []Session) {
	type answer struct {
		all    []Session
		unread []string
	}
	users := slices.DeleteFunc(session.Users(), func(uid int) bool { return uid == 0 })
	answers := argv.Each(users, proc.ChildrenTime, proc.ChildrenTime, func(ctx context.Context, uid int) (a answer) {
		var err error
		if a.all, a.unread, err = listAs(ctx, uid); err != nil {
			a.unread = []string{err.Error()}
		}
		return a
	})
	if left := len(users) - len(answers); left > 0 {
		note(fmt.Sprintf("%d users: %v", left, argv.ErrNoTurn))
	}
	for _, uid := range users {
		a := answers[uid]
		for _, w := range a.unread[:min(len(a.unread), proc.MaxNamed)] {
			note("user " + display.User(uid) + ": " + w)
		}
		all = append(all, a.all...)
	}
	return all
}

// listAs reads the living sessions of another user, and what that user could not read.
func listAs(ctx context.Context, uid int) (all []Session, unread []string, err error) {
	out, _, err := argv.RunAs(ctx, uid, []string{"ps", "--json", "--tree"})
	if err != nil {
		return nil, nil, err
	}
	var answer struct {
		Sessions   []Session `json:"sessions"`
		Incomplete []string  `json:"incomplete"`
	}
	if err := argv.Decode(out, &answer); err != nil {
		return nil, nil, err
	}
	for i := range answer.Sessions {
		answer.Sessions[i].UID = uid
	}
	// An id becomes a word of a command line.
	all = slices.DeleteFunc(answer.Sessions, func(l Session) bool { return !session.ValidID(l.ID) })
	return all, answer.Incomplete, nil
}

// StopAs is stop, for sessions of several users: each is asked by a child that is its user. So a record that names
// another user's process for a supervisor has no more power than the user that wrote it.
func StopAs(sessions []Session, uid int, timeout time.Duration) []Stopped {
	byUser := map[int][]Session{}
	for _, l := range sessions {
		byUser[l.UID] = append(byUser[l.UID], l)
	}
	done, own := make(chan []Stopped, 1), byUser[uid]
	go func() { done <- stop(own, timeout) }()
	delete(byUser, uid)
	users := slices.Sorted(maps.Keys(byUser))
	// A child ends a little later than it waits.
	total := timeout + proc.ChildrenTime
	others := argv.Each(users, total, total, func(ctx context.Context, u int) []Stopped {
		return stopAs(ctx, u, byUser[u], timeout)
	})
	out := <-done
	for _, u := range users {
		stopped, asked := others[u]
		if !asked {
			stopped = notStopped(byUser[u], argv.ErrNoTurn)
		}
		out = append(out, stopped...)
	}
	return out
}

// stopAs stops sessions of another user. What that user says of other sessions is ignored.
func stopAs(ctx context.Context, uid int, sessions []Session, timeout time.Duration) []Stopped {
	if end, ok := ctx.Deadline(); ok { // It must still answer.
		timeout = min(timeout, max(time.Until(end)-proc.ChildrenTime/10, 0))
	}
	words := []string{"stop", "--json", "--timeout=" + timeout.String()}
	for _, l := range sessions {
		words = append(words, l.ID)
	}
	out, code, err := argv.RunAs(ctx, uid, words)
	var answer struct {
		Stopped []Stopped `json:"stopped"`
	}
	if err == nil {
		err = argv.Decode(out, &answer)
	}
	if err != nil {
		return notStopped(sessions, fmt.Errorf("ask as user %s (exit code %d): %w", display.User(uid), code, err))
	}
	all := notStopped(sessions, errSilent)
	for i := range all {
		if n := slices.IndexFunc(answer.Stopped, func(s Stopped) bool { return s.ID == all[i].ID }); n >= 0 {
			all[i] = answer.Stopped[n]
		}
	}
	return all
}

// errSilent says that a child has said nothing of a session.
var errSilent = errors.New("it did not answer")

// notStopped says of all sessions why they could not be asked.
func notStopped(sessions []Session, err error) []Stopped {
	var out []Stopped
	for _, l := range sessions {
		out = append(out, Stopped{ID: l.ID, Name: l.Name, Error: err.Error()})
	}
	return out
}
