package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of what is done for others.
const (
	// maxUsers bounds how many users are looked after: a user may have many thousand subordinate ids (subuid(5)).
	maxUsers = 256
	// atOnce is how many children run at a time.
	atOnce = 16
	// MaxAnswer bounds the answer of a child, in bytes. maxObjects bounds the objects in it, and maxCommas all other values:
	// a short text may decode to much memory. In a list of objects each null, and each number, takes as much as an object.
	MaxAnswer  = 1 << 20
	maxObjects = 16 << 10
	maxCommas  = 64 << 10
)

// Why an answer is not taken, or no child was asked.
var (
	errObjects = errors.New("its answer has more parts than can be taken")
	ErrSilent  = errors.New("it did not answer")
	ErrTooMany = errors.New("not looked after: too many users")
)

// Users looks up the users with these numbers, each once and without root. It gives as many as are looked after, those
// in the machine's list of users first. The others are in left.
func Users(uids []int) (all, left []User) {
	uids = slices.Clone(uids)
	slices.Sort(uids)
	var strangers []User
	for _, uid := range slices.Compact(uids) {
		switch u := lookup(uid); {
		case uid <= 0:
		case u.Known:
			all = append(all, u)
		default:
			strangers = append(strangers, u)
		}
	}
	all = append(all, strangers...)
	n := min(len(all), maxUsers)
	if n > 0 {
		had := tasks()
		for i := range all[:n] {
			all[i].Tasks = had[all[i].UID]
		}
	}
	return all[:n:n], all[n:]
}

// Each calls do for every user, several at a time, and returns after total at the latest. Each user has a slice of the time
// that is left: one that hangs leaves time for those that wait, and those that are quick leave them theirs.
func Each(users []User, total time.Duration, do func(ctx context.Context, i int, u User)) {
	end := time.Now().Add(total)
	turns := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, u := range users {
		turns <- struct{}{}
		waves := (len(users) - i + atOnce - 1) / atOnce
		slice := time.Until(end) / time.Duration(waves)
		wait.Go(func() {
			defer func() { <-turns }()
			mine, done := context.WithTimeout(context.Background(), slice)
			defer done()
			do(mine, i, u)
		})
	}
	wait.Wait()
}

// Decode reads the answer of a child, which is the word of its user.
func Decode(b []byte, v any) error {
	switch {
	case bytes.Count(b, []byte("{")) > maxObjects, bytes.Count(b, []byte(",")) > maxCommas:
		return errObjects
	case len(bytes.TrimSpace(b)) == 0:
		return ErrSilent
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	return nil
}
