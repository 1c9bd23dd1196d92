package reap

import (
	"context"
	"errors"
	"sync"

	"mcp-tether/internal/describe"
	"mcp-tether/internal/engine"
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
	var results []engine.Result
	// What the claim has not met is gone, if the claim was seen through.
	missed := engine.Result{Err: errNotTried}
	switch {
	case e.claim != nil && (len(e.targets) > 0 || !e.claim.Ledger.Empty()):
		var err error
		if results, err = e.claim.End(ctx, e.engine.Client, grace.Term); err != nil {
			f.unseen = err.Error()
		}
		missed.Done = err == nil && ctx.Err() == nil
	case len(e.targets) > 0:
		results = engine.EndTargets(ctx, e.engine.Client, e.targets, grace.Term)
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
			c := found(e.engine, &r.Info, r.Why)
			f.outcome(&c, r)
			f.Containers = append(f.Containers, c)
		}
	}
}

// outcome notes what became of one container.
func (f *Finding) outcome(c *describe.Container, r *engine.Result) {
	switch {
	case !r.Done && r.Err != nil:
		c.Result = resultSurvived
		f.Survivors = append(f.Survivors, c.Title()+": "+r.Err.Error())
	case !r.Done:
		c.Result = resultSurvived
		f.Survivors = append(f.Survivors, c.Title())
	default:
		c.Result = "removed"
	}
}
