package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds of what is done for others.
const (
	// maxUsers bounds how many users are looked up, and share the time, at once.
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

// each calls do for every user, several at a time, and returns after total at the latest. Each user has a slice of the time
// that is left: one that hangs leaves time for those that wait, and those that are quick leave them theirs.
func each(users []User, total time.Duration, do func(ctx context.Context, u User)) {
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
			do(mine, u)
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
