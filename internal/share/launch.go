package share

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
)

// tryStart starts a host if no other process is about to, and none is ending.
func (f *Finder) tryStart() (started bool, err error) {
	place := f.place()
	lock, err := place.Lock()
	switch {
	case errors.Is(err, session.ErrHeld):
		return false, nil
	case errors.Is(err, unix.ENOENT): // The directory was removed, as it is at the end of a login.
		return false, f.open()
	}
	if err != nil {
		return false, err
	}
	listener, err := place.Listen()
	if err == nil {
		err = f.launch(lock.FD(), listener)
		_ = unix.Close(listener)
	}
	if err != nil {
		return false, errors.Join(err, place.Withdraw(), lock.Remove())
	}
	// If the launching process was killed, it may have started the host before. If not, the lock is free now.
	lock.Release()
	return true, nil
}

// launch starts a host by way of a process that ends at once. So the host is no child of ours, and ending this
// process's tree does not end the host.
func (f *Finder) launch(lock, listener int) error {
	h := argv.Host{Key: f.placeKey(), Lock: lock, Listener: listener, Gateway: f.owner.ID, GatewayFD: f.owner.FD, Launches: true}
	for _, fd := range []int{lock, listener, h.GatewayFD} {
		if fd < 0 {
			continue
		}
		// The host would take whatever has the number there for what it should have had, and never see its gateway end.
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("hand descriptor %d to the host: %w", fd, err)
		}
		defer unix.CloseOnExec(fd)
	}
	pid, err := proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.HostArgs(f.args[0], h, f.words), Env: proc.Environ(),
	})
	if err != nil {
		return fmt.Errorf("start the host from %s: %w", proc.SelfExe, err)
	}
	ws, err := proc.Wait(pid)
	if err != nil {
		return err
	}
	if !ws.Signaled() && ws.ExitStatus() != 0 { // One that was killed may have started the host before.
		return fmt.Errorf("start the host: exit code %d", proc.ExitCode(ws))
	}
	return nil
}

// Launch starts a host in a session of its own, and returns. It is called by a process that ends at once.
func Launch(o Options) error {
	null, err := proc.OpenNull()
	if err != nil {
		return fmt.Errorf("open /dev/null: %w", err)
	}
	defer unix.Close(null)
	h := o.Host
	h.Launches = false
	_, err = proc.Start(proc.Child{
		Path: proc.SelfExe, Argv: argv.HostArgs(o.Program, h, o.Words), Env: proc.Environ(), NewSession: true,
		Stdin: null, Stdout: null, Stderr: null,
	})
	if err != nil {
		return fmt.Errorf("start the host from %s: %w", proc.SelfExe, err)
	}
	return nil
}
