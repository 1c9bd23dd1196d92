package reap

import (
	"context"
	"errors"
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
		if f.ending == nil {
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

// endContainers ends the containers of one finding and notes what became of each.
func (f *Finding) endContainers(ctx context.Context, grace teardown.Grace) {
	e := f.ending
	results, err := engine.Remove(ctx, e.engine.Client, e.owner, grace.Term)
	// What was not met is gone, if all was seen through.
	missed := engine.Result{}
	if err != nil && !errors.Is(err, engine.ErrUnproven) {
		f.unseen, missed.Err = err.Error(), errNotTried
	}
	outcome := make(map[string]*engine.Result, len(results))
	for i := range results {
		outcome[results[i].ID] = &results[i]
	}
	for i := range f.Containers {
		c := &f.Containers[i]
		if r := outcome[c.ID]; r != nil {
			f.outcome(c, r)
			delete(outcome, c.ID)
		} else {
			f.outcome(c, &missed)
		}
	}
	// These were being created during the scan.
	for i := range results {
		if r := &results[i]; outcome[r.ID] != nil {
			c := found(e.engine, &r.Object, r.Why)
			f.outcome(&c, r)
			f.Containers = append(f.Containers, c)
		}
	}
}

// outcome notes what became of one container.
func (f *Finding) outcome(c *display.Container, r *engine.Result) {
	if r.Err != nil {
		c.Result = resultSurvived
		f.Survivors = append(f.Survivors, c.Title()+": "+r.Err.Error())
		return
	}
	c.Result = "removed"
}

// leaveSocket removes what is left of the session's way to its engine. If processes are kept, a link to the engine takes its
// place, as at the end of a session.
func (f *Finding) leaveSocket(kept bool) error {
	if kept && f.record != nil {
		if at, err := engine.EndpointAt(f.record.Engine); err == nil && at.Socket != "" {
			return session.LeaveLink(f.socket, f.Session, at.Socket)
		}
	}
	return session.RemoveSocket(f.socket, f.Session)
}
