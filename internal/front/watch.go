package front

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/relay"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// watch is what a front waits for beside the relay: signals, the ends of the client's streams, and those of the owners.
type watch struct {
	arriving *proc.Signals // nil before open
	// page has the signals that stay blocked; nil without a waiter.
	page   *waiting.Page
	caught []syscall.Signal
	// gone says of standard input and output that their end was seen.
	gone   [2]bool
	owners []proc.Owner
}

// Where the descriptors are in what is polled.
const (
	onSignals = iota
	onQueued
	onStdin
	onStdout
	onParent
	onGateway
	onChanges
	onHostWord
	onRelayed
	polledFDs = onRelayed + len(relay.Polled{})
)

type polled [polledFDs]unix.PollFd

// waitFor waits for input on a descriptor; -1 is none.
func waitFor(fd int) unix.PollFd { return unix.PollFd{Fd: int32(fd), Events: unix.POLLIN} }

// open begins to watch, unless the owners are watched already. It must come before the start of a backend.
func (w *watch) open(r *proc.Reader, page *waiting.Page) (err error) {
	if w.owners == nil {
		w.owners, err = r.WatchOwners()
	}
	if errors.Is(err, proc.ErrGone) {
		return fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", w.owners[0].PID)
	}
	leave := proc.SignalSet(0)
	if page.Pid.Anchor > 0 { // To catch one takes a change of threads, so those that only pass stay blocked.
		w.page, leave = page, ^proc.SessionSignals
	}
	w.arriving, err = proc.Listen(leave)
	return err
}

// resume watches the owners that the record names, by what the waiter has of them.
func (w *watch) resume(page *waiting.Page, r session.Record) {
	w.owners = []proc.Owner{{ID: r.Parent, FD: page.FD.Parent, Child: page.Pid.Anchor}}
	if w.owners[0].PID = page.Pid.Parent; r.Gateway != r.Parent {
		w.owners = append(w.owners, proc.Owner{ID: r.Gateway, FD: page.FD.Gateway, Comm: r.GatewayComm})
	}
}

func (w *watch) fillRecord(r *session.Record) {
	if len(w.owners) > 0 {
		gateway := w.owners[len(w.owners)-1]
		r.Parent, r.Gateway, r.GatewayComm = w.owners[0].ID, gateway.ID, gateway.Comm
	}
}

// gatewayFD is a pidfd of the gateway behind a launcher; -1 where there is none.
func (w *watch) gatewayFD() int {
	if len(w.owners) < 2 {
		return -1
	}
	return w.owners[1].FD
}

// poll fills in what is waited for. The end of standard input may be hidden behind bytes that nobody reads.
func (w *watch) poll(all *polled) {
	for i := range all[:onRelayed] {
		all[i].Fd = -1
	}
	all[onSignals] = waitFor(w.arriving.FD())
	if w.page != nil {
		all[onQueued] = waitFor(w.page.FD.Signals)
	}
	if !w.gone[0] {
		all[onStdin] = unix.PollFd{Fd: 0, Events: unix.POLLRDHUP}
	}
	if !w.gone[1] {
		all[onStdout] = unix.PollFd{Fd: 1}
	}
	for i, o := range w.owners {
		all[onParent+i] = waitFor(o.FD)
	}
}

func (w *watch) signals() []syscall.Signal {
	w.caught = w.arriving.Take(w.caught[:0])
	if w.page != nil {
		w.caught = w.page.Queued(w.caught)
	}
	return w.caught
}

// closed reports, once, that a stream of the client has reached its end. A stream that was closed when we were started
// tells nothing.
func (w *watch) closed(stream int, p unix.PollFd) bool {
	if p.Revents == 0 {
		return false
	}
	w.gone[stream] = true
	return p.Revents&unix.POLLNVAL == 0
}

// hungUp reports, once, that the client has closed its end. poll(2) looks at one descriptor after the other, so a backend that
// has seen the end may have ended before the front acts on it.
func (w *watch) hungUp() bool {
	fds := []unix.PollFd{{Fd: 0, Events: unix.POLLRDHUP}}
	return w.arriving != nil && !w.gone[0] && proc.Poll(fds, 0) > 0 && w.closed(0, fds[0])
}

func (w *watch) mustAsk() bool {
	for _, o := range w.owners {
		if o.FD < 0 && o.PID > 0 {
			return true
		}
	}
	return false
}

// lost reports, once, whether an owner has ended.
func (w *watch) lost(r *proc.Reader) bool {
	for _, o := range w.owners {
		if r.Ended(o) {
			for _, o := range w.owners {
				if o.FD >= 0 {
					_ = unix.Close(o.FD)
				}
			}
			w.owners = nil
			return true
		}
	}
	return false
}
