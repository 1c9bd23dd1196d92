package reap

import (
	"context"
	"errors"
	"slices"
	"sync"

	"mcp-tether/internal/display"
	"mcp-tether/internal/engine"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
)

// maxEndings bounds how many findings end their containers at once.
const maxEndings = 16

// endContainers begins to end the containers of the findings, all within one time limit. It returns a function that
// waits for the end.
func endContainers(findings []*Finding, grace teardown.Grace) (wait func()) {
	ctx, cancel := context.WithTimeout(context.Background(), grace.Term+grace.Kill)
	var all sync.WaitGroup
	turns := make(chan struct{}, maxEndings)
	for _, f := range findings {
		if f.engine == nil {
			continue
		}
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			f.endContainers(ctx, grace)
		})
	}
	return func() {
		all.Wait()
		cancel()
	}
}

// errNotTried says that nothing was tried with a container.
var errNotTried = errors.New("the time was up before its turn")

// endContainers ends the containers of one finding and notes what became of each. The engine is asked again until nothing is left.
func (f *Finding) endContainers(ctx context.Context, grace teardown.Grace) {
	results, err := engine.Remove(ctx, f.engine.Client, engine.Owner{Session: f.Session}, grace.Term)
	var missed error // What was not met is gone, if all was seen through.
	if err != nil && !errors.Is(err, engine.ErrUnproven) {
		f.unseen, missed = err.Error(), errNotTried
	}
	outcomes := map[string]error{}
	for i := range results {
		r := &results[i]
		outcomes[r.ID] = r.Err
		if !slices.ContainsFunc(f.Containers, func(c display.Container) bool { return c.ID == r.ID }) { // it was being created during the scan
			f.Containers = append(f.Containers, f.engine.shows(&r.Object, r.Why))
		}
	}
	for i := range f.Containers {
		c := &f.Containers[i]
		err, met := outcomes[c.ID]
		if !met {
			err = missed
		}
		if c.Result = resultRemoved; err != nil {
			c.Result = resultSurvived
			f.Survivors = append(f.Survivors, c.Title()+": "+err.Error())
		}
	}
}

// leaveSocket removes what is left of the session's way to its engine. If processes are kept, a link to the engine takes its
// place, as at the end of a session.
func (f *Finding) leaveSocket() error {
	if s := f.stored; len(f.group.Spared) > 0 {
		if at, err := engine.EndpointAt(s.Engine); err == nil && at.Socket != "" {
			return session.LeaveLink(s.Socket, s.ID, at.Socket)
		}
	}
	return session.RemoveSocket(f.stored.Socket, f.Session)
}
