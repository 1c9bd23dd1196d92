package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// tcpAddresses are those of an engine that is reached by plain TCP and named by an address or as localhost; nil for any
// other. What only the command can do is left to it: TLS, the settings of a context, and looking up names. A resolver of
// our own would be a thirteenth of the program.
func (e Endpoint) tcpAddresses() []netip.AddrPort {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != "tcp" || u.User != nil || u.Path != "" || u.RawQuery != "" || e.Context != "" || wantsTLS() {
		return nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil
	}
	names := []string{u.Hostname()}
	if names[0] == "localhost" {
		names = []string{"127.0.0.1", "::1"}
	}
	var out []netip.AddrPort
	for _, name := range names {
		if ip, err := netip.ParseAddr(name); err == nil && ip.Zone() == "" {
			out = append(out, netip.AddrPortFrom(ip.Unmap(), uint16(port)))
		}
	}
	return out
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

// dialTCP connects to the first address that accepts within timeout (0: no limit but the kernel's).
func dialTCP(to []netip.AddrPort, timeout time.Duration) (c net.Conn, err error) {
	var failed []error
	for _, address := range to {
		if c, err = connectTCP(address, timeout); err == nil {
			return c, nil
		}
		failed = append(failed, fmt.Errorf("connect to %s: %w", address, err))
	}
	return nil, oneLine(failed...)
}

// keepAlive is after how many seconds of silence the kernel asks whether the engine's machine is still there.
const keepAlive = 30

func connectTCP(to netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	var address unix.Sockaddr = &unix.SockaddrInet6{Addr: to.Addr().As16(), Port: int(to.Port())}
	family := unix.AF_INET6
	if to.Addr().Is4() {
		address, family = &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}, unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	// As Go's own connections have it, and so the commands'.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepAlive)
	if err := unix.Connect(fd, address); err != nil && !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.EINTR) {
		unix.Close(fd)
		return nil, err
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
