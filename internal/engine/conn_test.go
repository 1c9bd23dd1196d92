package engine

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// connected returns both ends of a connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, errN := newConn(fds[0])
	far, errF := newConn(fds[1])
	if err := errors.Join(errN, errF); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}

// A wait ends with its connection: the kernel does not end one of a socket that blocks.
func TestConnCloseEndsWaits(t *testing.T) {
	near, _ := connected(t)
	began, ended := make(chan struct{}, 2), make(chan error, 2)
	go func() {
		began <- struct{}{}
		_, err := near.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		began <- struct{}{}
		_, err := near.Write(make([]byte, 64<<20)) // more than any socket holds
		ended <- err
	}()
	<-began
	<-began
	if err := near.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	}
}
