package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to the engine's unix socket, or by plain TCP. The connection has CloseWrite.
func (e Endpoint) Dial(ctx context.Context) (net.Conn, error) {
	if e.Socket != "" {
		return e.dial(ctx, unix.AF_UNIX, &unix.SockaddrUnix{Name: e.Socket})
	}
	if to := e.tcpAddress(); to != nil {
		return e.dial(ctx, unix.AF_INET, to)
	}
	return nil, fmt.Errorf("%q: %w", e.URL, ErrElsewhere)
}

// keepAlive is after how many seconds of silence the kernel asks whether the engine's machine is still there.
const keepAlive = 30

// connectStep is how long one connect(2) blocks, so that the end of the context is noticed.
const connectStep = 100 * time.Millisecond

// dial connects with a socket that still blocks: connect(2) then waits for room in the listener's queue as well.
func (e Endpoint) dial(ctx context.Context, family int, to unix.Sockaddr) (net.Conn, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if family == unix.AF_INET {
		// As Go's own connections have it, and so the commands'.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAlive)
	}
	step := unix.NsecToTimeval(int64(connectStep))
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &step)
	for again := err == nil; again; {
		err = unix.Connect(fd, to)
		again = ctx.Err() == nil && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY))
	}
	if err != nil && !errors.Is(err, unix.EISCONN) {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to %s: %w", cmp.Or(e.Socket, e.URL), cmp.Or(context.Cause(ctx), err))
	}
	return newConn(fd)
}

// tcpAddress is that of an engine that is reached by plain TCP and named by an IPv4 address or as localhost; nil for any
// other. A resolver of our own would be a thirteenth of the program.
func (e Endpoint) tcpAddress() *unix.SockaddrInet4 {
	address, plain := strings.CutPrefix(e.URL, "tcp://")
	if port, local := strings.CutPrefix(address, "localhost:"); local {
		address = "127.0.0.1:" + port
	}
	at, err := netip.ParseAddrPort(address)
	if !plain || err != nil || !at.Addr().Is4() {
		return nil
	}
	return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
}
