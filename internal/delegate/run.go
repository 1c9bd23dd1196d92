package delegate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
)

// Why a child's answer is not complete.
var (
	errTooMuch = errors.New("it found more than can be taken")
	errTime    = errors.New("it did not end in time")
)

// killTimeout is how long a killed child may take to end. One that does not is left behind.
const killTimeout = time.Second

// Run starts this program as the user with the given words, the first of which is a command such as reap. It gives what
// the child writes to its standard output, at most limit bytes, and its exit code. When the context ends the child is
// killed. A child that cannot be started, was killed or says too much is an error; an exit code is none.
//
// The child has the user's groups, no capabilities and no way to get any, and a terminal session and an environment of
// its own. It has limits of memory, processor time, descriptors and file size (Confine). It inherits /dev/null and the
// one pipe.
func Run(ctx context.Context, u User, words []string, limit int64) (out []byte, code int, err error) {
	// Root's descriptors may give access to files that only root may read. Closed here, their numbers might be those of the
	// pipes of other children by then.
	proc.SealInherited()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, -1, fmt.Errorf("make a pipe for user %s: %w", u.Name, err)
	}
	defer r.Close()
	cmd := child(u, words, w)
	exit := make(chan error, 1)
	started := make(chan error, 1)
	go func() {
		// The death signal comes when the thread that started the child ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		w.Close()
		started <- err
		if err == nil {
			exit <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, -1, fmt.Errorf("start a child as user %s: %w", u.Name, err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Kill()
		_ = r.SetReadDeadline(time.Now().Add(killTimeout))
	})
	defer stop()
	out, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(out)) > limit {
		err = errTooMuch
		_ = cmd.Process.Kill()
	}
	code, werr := await(ctx, cmd, exit)
	switch {
	case ctx.Err() != nil:
		err = errTime
	case err == nil:
		// After any other error the child has ended by our signal, or ends as it likes.
		err = werr
	}
	return out, code, err
}

// await waits for the end of the child.
func await(ctx context.Context, cmd *exec.Cmd, exit <-chan error) (code int, err error) {
	select {
	case err = <-exit:
	case <-ctx.Done():
		select {
		case err = <-exit:
		case <-time.After(killTimeout):
			return -1, errTime
		}
	}
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed) && failed.Exited():
		return failed.ExitCode(), nil
	case err != nil:
		return -1, fmt.Errorf("it ended by %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

// child is the command line, the environment and the rights of the child.
func child(u User, words []string, out *os.File) *exec.Cmd {
	groups := make([]uint32, 0, len(u.Groups))
	for _, g := range u.Groups {
		groups = append(groups, uint32(g))
	}
	return &exec.Cmd{
		Path: proc.SelfExe, Args: argv.DelegatedArgs(os.Args[0], words), Dir: "/", Stdout: out,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name,
		},
		SysProcAttr: &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(u.UID), Gid: uint32(u.GID), Groups: groups},
			Setsid:     true, Pdeathsig: unix.SIGKILL,
		},
	}
}
