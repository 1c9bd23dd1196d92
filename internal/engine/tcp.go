package engine

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tcpAddress is that of an engine that is reached by plain TCP and named by an IPv4 address or as localhost; nil for any
// other. What only the command can do is left to it: TLS, the settings of a context, and looking up names. A resolver of
// our own would be a thirteenth of the program.
func (e Endpoint) tcpAddress() *unix.SockaddrInet4 {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "tcp" || u.User != nil || u.Path != "" || u.RawQuery != "" || e.Context != "" || wantsTLS() {
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

// wantsTLS reports whether the environment may have the commands speak TLS. If one of these variables is only left over,
// the command still connects.
func wantsTLS() bool {
	for _, name := range []string{"DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_TLS_CA", "CONTAINER_TLS_CERT", "CONTAINER_TLS_KEY"} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// keepAlive is after how many seconds of silence the kernel asks whether the engine's machine is still there.
const keepAlive = 30

// dialTCP connects within timeout (0: no limit but the kernel's).
func dialTCP(to *unix.SockaddrInet4, timeout time.Duration) (net.Conn, error) {
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
	if err == nil {
		if err = awaitConnect(c, timeout); err != nil {
			_ = c.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// awaitConnect waits for the outcome of a connect(2).
func awaitConnect(c conn, timeout time.Duration) error {
	if timeout > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return err
		}
		defer func() { _ = c.SetWriteDeadline(time.Time{}) }()
	}
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
