package engine

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

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

func TestConnPassesMuchBothWays(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	near, far := connected(t)
	var all sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		all.Go(func() {
			if n, err := from.Write(data); n != len(data) || err != nil {
				t.Errorf("wrote %d bytes: %v", n, err)
			}
			if err := CloseWrite(from); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if got, err := io.ReadAll(to); !bytes.Equal(got, data) || err != nil {
				t.Errorf("read %d bytes: %v", len(got), err)
			}
		})
	}
	all.Wait()
}

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

func TestConnDeadline(t *testing.T) {
	near, _ := connected(t)
	if err := near.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}
