package argv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

const (
	// atOnce is how many children run at a time.
	atOnce = 8
	// leastShare is what a child has at least, so that it can answer.
	leastShare = time.Second
	// killTimeout is how long a killed child may take to end. One that does not is left behind.
	killTimeout = time.Second
)

// Why there is no answer, or none that is taken.
var (
	ErrNoTurn   = errors.New("not looked after: too many users, or their children took too long")
	errTooMuch  = errors.New("it found more than can be taken")
	errTime     = errors.New("it did not end in time")
	errNoAnswer = errors.New("it did not answer")
)

// Each calls ask for the users with these numbers, in this order and several at a time. Each has a share of the time that is left,
// so that one that hangs leaves time for those that wait, and at most limit. Who had no turn within total has no answer.
func Each[T any](uids []int, total, limit time.Duration, ask func(ctx context.Context, uid int) T) map[int]T {
	ctx, over := context.WithTimeout(context.Background(), total)
	defer over()
	end, _ := ctx.Deadline()
	var (
		lock    sync.Mutex
		wait    sync.WaitGroup
		answers = map[int]T{}
		turns   = make(chan struct{}, atOnce)
	)
	for i, uid := range uids {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		share := time.Until(end) * atOnce / time.Duration(len(uids)-i+atOnce-1)
		wait.Go(func() {
			defer func() { <-turns }()
			mine, done := context.WithTimeout(ctx, min(max(share, leastShare), limit))
			defer done()
			answer := ask(mine, uid)
			lock.Lock()
			defer lock.Unlock()
			answers[uid] = answer
		})
	}
	wait.Wait()
	return answers
}

// RunAs starts this program as a user with the given words, the first of which is a command such as reap. It gives what the child
// writes to its standard output, and its exit code. When the context ends the child is killed. A child that cannot be started,
// was killed or says too much is an error; an exit code is none.
//
// The child is executed as root, and becomes the user by itself (Become): a user can stop what is the user's, and nobody may
// wait for that. It inherits /dev/null and the one pipe.
func RunAs(ctx context.Context, uid int, words []string) (out []byte, code int, err error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The thread ends with this goroutine, because it is never unlocked: it has given up root's session keyring.
		runtime.LockOSThread()
		// Without keyrings, or where a filter refuses them, the child finds none of root's either.
		_, _, errno := unix.RawSyscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
		if code = -1; errno != 0 && errno != unix.ENOSYS && errno != unix.EPERM {
			err = fmt.Errorf("leave root's keyring: %w", errno)
			return
		}
		proc.SealInherited()
		out, code, err = capture(ctx, proc.SelfExe, delegatedArgs(os.Args[0], uid, words))
	}()
	<-ended
	return out, code, err
}

// capture runs a program in a session of its own, and gives what it writes to its standard output and its exit code. When the
// context or the calling thread ends, or for too much, it is killed.
func capture(ctx context.Context, path string, args []string) (out []byte, code int, err error) {
	null, err := proc.OpenNull()
	if err != nil {
		return nil, -1, err
	}
	defer unix.Close(null)
	r, w, err := os.Pipe()
	if err != nil {
		return nil, -1, fmt.Errorf("make a pipe: %w", err)
	}
	defer r.Close()
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Dir: "/", Env: []string{searchPath}, Files: []uintptr{uintptr(null), w.Fd(), uintptr(null)}, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	})
	w.Close()
	if err != nil {
		return nil, -1, fmt.Errorf("start %s: %w", path, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Now()) })
	defer stop()
	out, err = io.ReadAll(io.LimitReader(r, proc.MaxAnswer+1))
	if err == nil && len(out) > proc.MaxAnswer {
		err = errTooMuch
	}
	code, waitErr := await(ctx, pid, err != nil)
	switch {
	case ctx.Err() != nil:
		err = errTime
	case err == nil:
		err = waitErr
	}
	return out, code, err
}

// await waits for the end of a child, which it kills if it is to end now or when the context has ended.
func await(ctx context.Context, pid int, now bool) (code int, err error) {
	ended := make(chan struct{})
	go func() { proc.AwaitExit(pid); close(ended) }()
	if !now {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	_ = proc.SignalChild(pid, unix.SIGKILL) // It was not waited for, so it has its pid.
	select {
	case <-ended:
	case <-time.After(killTimeout):
		return -1, errTime
	}
	ws, err := proc.Wait(pid)
	if err == nil && ws.Signaled() {
		return -1, fmt.Errorf("it ended by signal %v", ws.Signal())
	}
	return ws.ExitStatus(), err
}

// Decode reads the answer of a child.
func Decode(b []byte, v any) error {
	switch {
	case bytes.Count(b, []byte(",")) > proc.MaxParts:
		return errTooMuch
	case len(bytes.TrimSpace(b)) == 0:
		return errNoAnswer
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	return nil
}
