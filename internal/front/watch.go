package front

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/waiting"
)

// watch is what a front waits for beside the relay: signals, the ends of the client's streams, and those of the owners.
type watch struct {
	arriving *proc.Signals // nil before open
	caught   []syscall.Signal
	// gone says of standard input and output that their end was seen.
	gone   [2]bool
	owners []proc.Owner
}

// Where the descriptors are in what is polled.
const (
	watchSignals = iota
	watchStdin
	watchStdout
	watchOwners
)

// open begins to watch, unless the owners are watched already. It must come before the start of a backend.
func (w *watch) open(r *proc.Reader) (err error) {
	if w.owners == nil {
		w.owners, err = r.WatchOwners()
	}
	if errors.Is(err, proc.ErrGone) {
		return fmt.Errorf("gateway (pid %d) ended while its session started: nothing was started", w.owners[0].PID)
	}
	w.arriving, err = proc.Listen(0)
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

// polled is what poll(2) waits for. The end of standard input may be hidden behind bytes that nobody reads.
func (w *watch) polled() []unix.PollFd {
	fds := make([]unix.PollFd, watchOwners, watchOwners+len(w.owners)+2)
	fds[watchSignals] = unix.PollFd{Fd: int32(w.arriving.FD()), Events: unix.POLLIN}
	for fd, at := range []int{watchStdin, watchStdout} {
		fds[at] = unix.PollFd{Fd: int32(fd)}
		if w.gone[fd] {
			fds[at].Fd = -1
		}
	}
	fds[watchStdin].Events = unix.POLLRDHUP
	for _, o := range w.owners {
		fds = append(fds, unix.PollFd{Fd: int32(o.FD), Events: unix.POLLIN})
	}
	return fds
}

func (w *watch) signals() []syscall.Signal {
	w.caught = w.arriving.Take(w.caught[:0])
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
