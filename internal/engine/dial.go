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
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
)

// Dial connects to the engine. A connection to a unix socket, or by plain TCP, is made within timeout (0: no limit). For
// any other engine Dial runs the docker (or podman) command from PATH with dial-stdio, which knows TLS and ssh. The command has no
// terminal, and a terminal session of its own, so that no signal to our process group reaches it. It ends when the
// connection is closed. It is a child of this process, which has to reap it. So started, unless nil, is called with its
// pid.
//
// The connection has CloseWrite. If it leads through a command, only a read shows that the engine does not respond.
func (e Endpoint) Dial(timeout time.Duration, started func(pid int)) (net.Conn, error) {
	if e.Socket != "" {
		return dialSocket(e.Socket, timeout)
	}
	if to := e.tcpAddress(); to != nil {
		return dialTCP(to, timeout)
	}
	args := e.dialStdio()
	conn, pid, err := startOverSocket(args)
	if err != nil {
		return nil, fmt.Errorf("run %s for %s: %w", args[0], e.URL, err)
	}
	if started != nil {
		started(pid)
	}
	return conn, nil
}

// Helper returns the name of the command that Dial runs to reach the engine; "" where it needs none.
func (e Endpoint) Helper() string {
	if e.Socket != "" || e.tcpAddress() != nil {
		return ""
	}
	return e.dialStdio()[0]
}

// dialStdio returns the command that connects its stdin and stdout to the engine.
func (e Endpoint) dialStdio() []string {
	switch {
	case e.Context != "":
		return []string{"docker", "--context", e.Context, "system", "dial-stdio"}
	case e.Podman:
		return []string{"podman", "--url", e.URL, "system", "dial-stdio"}
	}
	return []string{"docker", "--host", e.URL, "system", "dial-stdio"}
}

// startDetached starts a command in a terminal session of its own, and does not wait for it. The command does not get
// our stderr, which it would hold open.
func startDetached(path string, args []string, stdio, stderr *os.File) (int, error) {
	fd := int(stdio.Fd())
	return proc.Start(proc.Child{
		Path: path, Argv: args, Env: os.Environ(), Stdin: fd, Stdout: fd, Stderr: int(stderr.Fd()),
		NewSession: true,
	})
}

// startOverSocket runs a command from PATH with one end of a socket pair as its stdin and stdout, and returns the
// other end. One descriptor serves both ways, as with a socket, and each way can end by itself.
func startOverSocket(args []string) (net.Conn, int, error) {
	path, err := lookPath(args[0])
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
	pid, err := startDetached(path, args, theirs, stderr)
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

// Close makes the command end.
func (c helperConn) Close() error { return errors.Join(c.Conn.Close(), c.stderr.Close()) }

// socketPair returns both ends of a connection.
func socketPair() (ours int, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("make a socket pair: %w", err)
	}
	return fds[0], os.NewFile(uintptr(fds[1]), "engine"), nil
}

// lookPath finds a command in PATH. Relative directories are ignored.
func lookPath(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		file := filepath.Join(dir, name)
		st, err := os.Stat(file)
		if filepath.IsAbs(dir) && err == nil && st.Mode().IsRegular() && unix.Access(file, unix.X_OK) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s is not in PATH: %w", name, fs.ErrNotExist)
}
