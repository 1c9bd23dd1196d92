package delegate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// Why a child's answer is not complete.
var (
	errTooMuch = errors.New("it found more than can be taken")
	errTime    = errors.New("it did not end in time")
	errSignal  = errors.New("it ended by a signal")
)

const (
	// startTimeout is how long the start of a child may take. It is root until it runs, so no user holds it up.
	startTimeout = 10 * time.Second
	// killTimeout is how long a killed child may take to end. One that does not is left behind.
	killTimeout = time.Second
)

// Run starts this program for a user with the given words, the first of which is a command such as reap. It gives what
// the child writes to its standard output, at most limit bytes, and its exit code. When the context ends the child is
// killed, with all that it has started. A child that cannot be started, was killed or says too much is an error; an
// exit code is none.
//
// The child is executed as root, and becomes the user by itself (Become): a user can stop what is the user's, and
// nobody may wait for that. It has a session keyring, a terminal session, an environment and, where there is one to be
// had, a cgroup of its own, and no way to get privileges. It inherits /dev/null and the one pipe.
func Run(ctx context.Context, u User, words []string, limit int64) (out []byte, code int, err error) {
	// Root's descriptors may give access to files that only root may read. Closed here, their numbers might be those of the
	// pipes of other children by then.
	proc.SealInherited()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, -1, fmt.Errorf("make a pipe for user %s: %w", u.Name, err)
	}
	defer r.Close()
	home, _ := enter(u.UID)
	defer home.leave()
	c := start(ctx, u, words, w, home)
	if c.err != nil {
		return nil, -1, fmt.Errorf("start a child for user %s: %w", u.Name, c.err)
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	out, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(out)) > limit {
		err = errTooMuch
	}
	code, werr := c.await(ctx, err != nil)
	switch {
	case ctx.Err() != nil:
		err = errTime
	case err == nil:
		// After any other error the child has ended by our signal.
		err = werr
	}
	return out, code, err
}

// child is a process that becomes a user. ended is closed when it can be waited for.
type child struct {
	pid   int
	err   error
	ended chan struct{}
}

// start starts a child, and closes out.
func start(ctx context.Context, u User, words []string, out *os.File, home *room) child {
	started, ended := make(chan child, 1), make(chan struct{})
	go func() {
		// The thread ends with this goroutine, because it is never unlocked: what it has given up cannot be had back, and
		// its end is what kills the child.
		runtime.LockOSThread()
		pid, err := 0, seclude()
		if err == nil {
			pid, err = execute(ctx, u, words, int(out.Fd()), home)
		}
		out.Close()
		started <- child{pid, err, ended}
		if err == nil {
			proc.AwaitExit(pid)
		}
		close(ended)
	}()
	return <-started
}

// seclude gives up for the calling thread, and what it starts from then on, the session keyring and the way to new
// privileges. A thread of the child that exists before main has them as well.
func seclude() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	// An empty one without a name. Where there are no keyrings, or a filter refuses them, the child finds none either.
	_, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno != 0 && errno != unix.ENOSYS && errno != unix.EPERM {
		return fmt.Errorf("leave root's keyring: %w", errno)
	}
	return nil
}

// execute starts the child in its room, and without one if it cannot be moved there.
func execute(ctx context.Context, u User, words []string, out int, home *room) (pid int, err error) {
	null, err := proc.OpenNull()
	if err != nil {
		return 0, err
	}
	defer unix.Close(null)
	limit := startTimeout
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(end), time.Millisecond))
	}
	c := proc.Child{
		Path: proc.SelfExe, Argv: argv.DelegatedArgs(os.Args[0], argv.Delegated{UID: u.UID, GID: u.GID, Tasks: u.Tasks, Groups: u.Groups}, words),
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name,
		},
		Stdin: null, Stdout: out, Stderr: null, NewSession: true, DiesWithThread: true, Limit: limit,
		CgroupFD: -1, CgroupProcs: home.moveTo(),
	}
	pid, err = proc.Start(c)
	if errors.Is(err, proc.ErrNotMoved) {
		c.CgroupProcs = -1
		pid, err = proc.Start(c)
	}
	return pid, err
}

// await waits for the end of the child, which it kills if it is to end now or when the time is over.
func (c child) await(ctx context.Context, now bool) (code int, err error) {
	if !now {
		select {
		case <-c.ended:
		case <-ctx.Done():
			now = true
		}
	}
	if now {
		// It was not waited for, so it has its pid.
		_ = proc.SignalChild(c.pid, unix.SIGKILL)
		select {
		case <-c.ended:
		case <-time.After(killTimeout):
			return -1, errTime
		}
	}
	ws, err := proc.Wait(c.pid)
	switch {
	case err != nil:
		return -1, err
	case ws.Signaled():
		return -1, fmt.Errorf("%w: %v", errSignal, ws.Signal())
	}
	return ws.ExitStatus(), nil
}
