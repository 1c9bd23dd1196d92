package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to the engine's unix socket, or by plain TCP. The connection has CloseWrite.
func (e Endpoint) Dial(ctx context.Context) (net.Conn, error) {
	if e.Socket != "" {
		return dialSocket(ctx, e.Socket)
	}
	if to := e.tcpAddress(); to != nil {
		return dialTCP(ctx, to)
	}
	return nil, fmt.Errorf("%q: %w", e.URL, ErrElsewhere)
}

// connectPause is the time between two attempts while the listener's queue is full, which connect(2) reports with EAGAIN
// for a non-blocking unix socket.
const connectPause = 5 * time.Millisecond

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) || !sleep(ctx, connectPause) {
			break
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return newConn(fd)
}

// tcpAddress is that of an engine that is reached by plain TCP and named by an IPv4 address or as localhost; nil for any
// other. A resolver of our own would be a thirteenth of the program.
func (e Endpoint) tcpAddress() *unix.SockaddrInet4 {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "tcp" || u.User != nil || u.Path != "" || u.RawQuery != "" {
		return nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil
	}
	to := &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	if u.Hostname() == "localhost" {
		return to
	}
	numbers := strings.Split(u.Hostname(), ".")
	for i, n := range numbers {
		v, err := strconv.ParseUint(n, 10, 8)
		if err != nil || len(numbers) != len(to.Addr) {
			return nil
		}
		to.Addr[i] = byte(v)
	}
	return to
}

// keepAlive is after how many seconds of silence the kernel asks whether the engine's machine is still there.
const keepAlive = 30

func dialTCP(ctx context.Context, to *unix.SockaddrInet4) (net.Conn, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	// As Go's own connections have it, and so the commands'.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAlive)
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EINTR) {
		unix.Close(fd)
		return nil, fmt.Errorf("connect: %w", err)
	}
	c, err := newConn(fd)
	if err != nil {
		return nil, err
	}
	if err := c.awaitConnect(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// awaitConnect waits for the outcome of a connect(2).
func (c conn) awaitConnect(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	var outcome error
	err := c.raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if err == nil {
			_, err = unix.Getpeername(int(fd))
		}
		outcome = err
		return !errors.Is(err, unix.ENOTCONN)
	})
	if err != nil {
		return err
	}
	return outcome
}
