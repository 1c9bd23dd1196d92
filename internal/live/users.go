package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mcp-tether/internal/delegate"
	"mcp-tether/internal/session"
)

// othersDeadline is how long root waits for the answers of children that read other users' sessions.
const othersDeadline = 5 * time.Second

// Others reads the living sessions of all other users, for root. Root reads no other user's files. A child that is that
// user reads them, and its answer is that user's word. Others calls note for what could not be read.
func Others(note func(string)) (all []Session) {
	type answer struct {
		all    []Session
		unread []string
	}
	answers, left := delegate.InTurn(othersDeadline, func(ctx context.Context, u delegate.User) (a answer) {
		var err error
		if a.all, a.unread, err = listAs(ctx, u); err != nil {
			a.unread = []string{err.Error()}
		}
		return a
	}, session.Users())
	if left > 0 {
		note(fmt.Sprintf("%d users: %v", left, delegate.ErrTooMany))
	}
	for _, a := range answers {
		for _, w := range a.Said.unread[:min(len(a.Said.unread), maxUnread)] {
			note("user " + a.By.Name + ": " + w)
		}
		all = append(all, a.Said.all...)
	}
	return all
}

// maxUnread bounds how many of the sessions that another user cannot read are named.
const maxUnread = 20

// listAs reads the living sessions of another user, and what that user could not read.
func listAs(ctx context.Context, u delegate.User) (all []Session, unread []string, err error) {
	out, _, err := delegate.Run(ctx, u, []string{"ps", "--json", "--tree"}, delegate.MaxAnswer)
	if err != nil {
		return nil, nil, err
	}
	var answer struct {
		Sessions   []Session `json:"sessions"`
		Incomplete []string  `json:"incomplete"`
	}
	if err := delegate.Decode(out, &answer); err != nil {
		return nil, nil, err
	}
	for i := range answer.Sessions {
		answer.Sessions[i].UID = u.UID
	}
	// An id becomes a word of a command line.
	all = slices.DeleteFunc(answer.Sessions, func(l Session) bool { return !session.ValidID(l.ID) })
	return all, answer.Incomplete, nil
}

// StopAs is stop, for sessions of several users: each is asked by a child that is its user. So a record that names
// another user's process for a supervisor has no more power than the user that wrote it.
func StopAs(sessions []Session, uid int, timeout time.Duration) []Stopped {
	var (
		own    []Session
		users  []int
		byUser = map[int][]Session{}
	)
	for _, l := range sessions {
		if l.UID == uid {
			own = append(own, l)
			continue
		}
		users, byUser[l.UID] = append(users, l.UID), append(byUser[l.UID], l)
	}
	done := make(chan []Stopped, 1)
	go func() { done <- stop(own, timeout) }()
	// A child ends a little later than it waits.
	others, _ := delegate.InTurn(timeout+othersDeadline, func(ctx context.Context, u delegate.User) []Stopped {
		return stopAs(ctx, u, byUser[u.UID], timeout)
	}, users)
	out := <-done
	for _, a := range others {
		out = append(out, a.Said...)
		delete(byUser, a.By.UID)
	}
	for _, u := range users {
		out = append(out, notStopped(byUser[u], delegate.ErrTooMany)...)
		delete(byUser, u)
	}
	return out
}

// stopAs stops sessions of another user. What that user says of other sessions is ignored.
func stopAs(ctx context.Context, u delegate.User, sessions []Session, timeout time.Duration) []Stopped {
	if end, ok := ctx.Deadline(); ok { // It must still answer.
		timeout = min(timeout, max(time.Until(end)-othersDeadline/10, 0))
	}
	words := []string{"stop", "--json", "--timeout=" + timeout.String()}
	for _, l := range sessions {
		words = append(words, l.ID)
	}
	out, code, err := delegate.Run(ctx, u, words, delegate.MaxAnswer)
	var answer struct {
		Stopped []Stopped `json:"stopped"`
	}
	if err == nil {
		err = delegate.Decode(out, &answer)
	}
	if err != nil {
		return notStopped(sessions, fmt.Errorf("ask as user %s (exit code %d): %w", u.Name, code, err))
	}
	var all []Stopped
	for _, l := range sessions {
		i := slices.IndexFunc(answer.Stopped, func(s Stopped) bool { return s.ID == l.ID })
		if i < 0 {
			all = append(all, notStopped([]Session{l}, delegate.ErrSilent)...)
			continue
		}
		all = append(all, answer.Stopped[i])
	}
	return all
}

// notStopped says of all sessions why they could not be asked.
func notStopped(sessions []Session, err error) []Stopped {
	var out []Stopped
	for _, l := range sessions {
		out = append(out, Stopped{ID: l.ID, Name: l.Name, Error: err.Error()})
	}
	return out
}
