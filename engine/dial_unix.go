//go:build unix

package engine

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

// writable reports whether this process may write to a file. For a socket that means to connect to it.
func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// chgrp gives a file the group of another one.
func chgrp(path string, like fs.FileInfo) error {
	if st, ok := like.Sys().(*syscall.Stat_t); ok {
		return os.Lchown(path, -1, int(st.Gid))
	}
	return errors.ErrUnsupported
}

// startOverSocket runs a command from env's PATH with one end of a socket pair as its stdin and stdout, and returns the
// other end. One descriptor serves both ways, as with a socket, and each way can end by itself.
func startOverSocket(args, env []string, adopts bool) (net.Conn, int, error) {
	path, err := lookPath(args[0], env)
	if err != nil {
		return nil, 0, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, 0, err
	}
	defer theirs.Close()
	conn, err := newConn(ours)
	if err != nil {
		return nil, 0, err
	}
	output, stderr, err := os.Pipe()
	if err != nil {
		_ = conn.Close()
		return nil, 0, fmt.Errorf("make a pipe: %w", err)
	}
	defer stderr.Close()
	pid, err := startDetached(path, args, env, theirs, stderr, adopts)
	if err != nil {
		_ = conn.Close()
		_ = output.Close()
		return nil, 0, err
	}
	return helperConn{conn, output}, pid, nil
}

// helperConn is a connection through a command, which may fail to reach the engine and say why.
type helperConn struct {
	net.Conn
	stderr *os.File
}

// How much of a command's stderr is read, and for how long.
const (
	maxStderr   = 1 << 10 // bytes
	stderrLimit = time.Second
)

// Stderr returns what the command wrote to its standard error before it ended without a connection.
func (c helperConn) Stderr() string {
	_ = c.stderr.SetReadDeadline(time.Now().Add(stderrLimit))
	text, _ := io.ReadAll(io.LimitReader(c.stderr, maxStderr)) // a part says more than nothing
	return strings.TrimSpace(string(text))
}

// CloseWrite tells the engine that nothing follows.
func (c helperConn) CloseWrite() error { return CloseWrite(c.Conn) }

// SyscallConn returns the socket between the command and us.
func (c helperConn) SyscallConn() (syscall.RawConn, error) {
	if has, ok := c.Conn.(syscall.Conn); ok {
		return has.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// Close makes the command end.
func (c helperConn) Close() error { return errors.Join(c.Conn.Close(), c.stderr.Close()) }

// socketPair returns both ends of a connection. Only Linux has SOCK_CLOEXEC, hence the lock.
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

// lookPath finds a command in env's PATH, which may differ from this process's. Relative directories are ignored.
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
