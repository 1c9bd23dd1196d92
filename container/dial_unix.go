//go:build unix

package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// writable reports whether this process may write to a file, which for a socket means to connect to it.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// startOverSocket runs a command of env's PATH with one end of a socket pair as its stdin and stdout, and returns the
// other end. A pair of pipes would not know which side was closed first.
func startOverSocket(args, env []string) (net.Conn, int, error) {
	path, err := lookPath(args[0], env)
	if err != nil {
		return nil, 0, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, 0, err
	}
	defer theirs.Close()
	complaints, stderr, err := os.Pipe()
	if err != nil {
		unix.Close(ours)
		return nil, 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer stderr.Close()
	pid, err := startDetached(path, args, env, theirs, stderr)
	if err != nil {
		unix.Close(ours)
		_ = complaints.Close()
		return nil, 0, err
	}
	conn, err := newConn(ours)
	return helperConn{conn, complaints}, pid, err
}

// helperConn is a connection through a command, which may end with a complaint instead of an engine.
type helperConn struct {
	net.Conn
	complaints *os.File
}

// complaintTime and complaintSize bound what is heard of a complaint.
const (
	complaintTime = time.Second
	complaintSize = 1 << 10
)

// Complaint is what the command has said when it ended without an answer.
func (c helperConn) Complaint() string {
	_ = c.complaints.SetReadDeadline(time.Now().Add(complaintTime))
	text, _ := io.ReadAll(io.LimitReader(c.complaints, complaintSize)) // whatever came says more than nothing
	return strings.TrimSpace(string(text))
}

// CloseWrite tells the engine that nothing follows.
func (c helperConn) CloseWrite() error { return halfClose(c.Conn) }

// Close lets the command end.
func (c helperConn) Close() error { return errors.Join(c.Conn.Close(), c.complaints.Close()) }

// startDetached starts a command in a session of its own, and does not wait for it. Its stderr is not ours, which it
// would hold open.
func startDetached(path string, args, env []string, stdio, stderr *os.File) (int, error) {
	p, err := os.StartProcess(path, args, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{stdio, stdio, stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Release() }()
	return p.Pid, nil
}

// socketPair gives both ends of a connection. SOCK_CLOEXEC is Linux's alone, hence the lock.
func socketPair() (ours int, theirs *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fds[0])
		unix.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return -1, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "engine"), nil
}

// lookPath finds a command in env's PATH, which need not be this process's. Relative directories are passed over.
func lookPath(name string, env []string) (string, error) {
	for _, assignment := range env {
		list, ok := strings.CutPrefix(assignment, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			file := filepath.Join(dir, name)
			st, err := os.Stat(file)
			if filepath.IsAbs(dir) && err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not in PATH: %w", name, fs.ErrNotExist)
}
