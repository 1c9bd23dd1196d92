package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDialSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e := Endpoint{Socket: socket}
	conn, err := e.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = l.Close()
	if _, err := e.Dial(t.Context()); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("without a listener: %v", err)
	}
}

// By plain TCP data passes both ways, the end of one direction does not end the other, and a port without a listener is told
// from an engine that hangs.
func TestDialTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			text, _ := io.ReadAll(c)
			_, _ = c.Write(append(text, "answer"...))
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		e := Endpoint{URL: "tcp://" + host + ":" + port}
		c, err := e.Dial(t.Context())
		if err != nil {
			t.Fatal(host, err)
		}
		_, err = io.WriteString(c, "question, ")
		got, readErr := []byte(nil), error(nil)
		if err == nil {
			err = CloseWrite(c)
			got, readErr = io.ReadAll(c)
		}
		if string(got) != "question, answer" || err != nil || readErr != nil {
			t.Errorf("%s: %q, %v, %v", host, got, err, readErr)
		}
		_ = c.Close()
	}
	_ = l.Close()
	if _, err := (Endpoint{URL: "tcp://localhost:" + port}).Dial(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a listener: %v", err)
	}
	for _, url := range []string{"tcp://far:1", "tcp://[::1]:1", "tcp://127.0.1:1", "tcp://127.0.0.1", "tcp://127.0.0.1:1/path", "ssh://127.0.0.1:1"} {
		if _, err := EndpointAt(url); !errors.Is(err, ErrElsewhere) {
			t.Errorf("%s: %v", url, err)
		}
		if _, err := (Endpoint{URL: url}).Dial(t.Context()); !errors.Is(err, ErrElsewhere) {
			t.Errorf("%s is dialled: %v", url, err)
		}
	}
}

// A connection that nobody accepts or refuses takes no longer than it may.
func TestDialTCPInTime(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	e := Endpoint{URL: fmt.Sprintf("tcp://127.0.0.1:%d", at.(*unix.SockaddrInet4).Port)}
	for range 8 { // what the queue of the listener takes, and one more
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		c, err := e.Dial(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	t.Error("nothing had to wait")
}
