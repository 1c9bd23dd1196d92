package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

func TestDialSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e := Endpoint{Socket: socket}
	conn, err := e.Dial(time.Minute, func(int) { t.Error("a command was started") })
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	_ = l.Close()
	if _, err := e.Dial(time.Minute, nil); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("without a listener: %v", err)
	}
}

// An engine by plain TCP needs no command: data passes both ways, the end of one direction does not end the other, and a
// port without a listener is told from an engine that hangs. What needs a command is left to it.
func TestDialTCP(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
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
		c, err := e.Dial(time.Minute, func(int) { t.Error("a command was started") })
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
	if _, err := (Endpoint{URL: "tcp://localhost:" + port}).Dial(time.Minute, nil); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a listener: %v", err)
	}
	for _, e := range []Endpoint{
		{URL: "tcp://far:1"}, {URL: "tcp://[::1]:1"}, {URL: "tcp://127.0.1:1"}, {URL: "tcp://127.0.0.1"}, {URL: "tcp://127.0.0.1:1/path"}, {URL: "ssh://127.0.0.1:1"}, {URL: "tcp://127.0.0.1:1", Context: "x"},
	} {
		if e.Helper() != "docker" {
			t.Errorf("%+v is dialled without a command", e)
		}
	}
	t.Setenv("DOCKER_TLS_VERIFY", "1")
	if e := (Endpoint{URL: "tcp://127.0.0.1:" + port}); e.Helper() != "docker" {
		t.Error("TLS is left out")
	}
}

// A connection that nobody accepts or refuses takes no longer than it may.
func TestDialTCPInTime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
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
		c, err := e.Dial(50*time.Millisecond, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	t.Error("nothing had to wait")
}

// docker writes a command of that name. The command prints how it was called, and then copies its stdin to its stdout.
func docker(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\necho \"$0 $*, $DOCKER_CERT_PATH, $$ \"\nexec cat\n"
	testkit.WriteProgram(t, filepath.Join(dir, name), []byte(script))
	t.Setenv("PATH", "relative:"+dir+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_CERT_PATH", "/certs")
	return dir
}

// Data passes both ways between us and the command. The end of one direction does not end the other.
func TestDialStdio(t *testing.T) {
	for want, e := range map[string]Endpoint{
		"docker --host ssh://far system dial-stdio":  {URL: "ssh://far"},
		"docker --context foo system dial-stdio":     {URL: "tcp://far:2376", Context: "foo"},
		"podman --url tcp://far:1 system dial-stdio": {URL: "tcp://far:1", Podman: true},
	} {
		dir := docker(t, want[:6])
		pid := 0
		conn, err := e.Dial(0, func(p int) { pid = p })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "question"); err != nil {
			t.Error(err)
		}
		half, ok := conn.(interface{ CloseWrite() error })
		if !ok {
			t.Fatalf("%T has no CloseWrite", conn)
		}
		if err := half.CloseWrite(); err != nil {
			t.Error(err)
		}
		got, err := io.ReadAll(conn)
		text := dir + "/" + want + ", /certs, "
		if s := string(got); err != nil || len(s) < len(text) || s[:len(text)] != text || s[len(s)-8:] != "question" {
			t.Errorf("%q, %v, want %q ... question", got, err, text)
		}
		var own int
		if _, err := fmt.Sscan(string(got[min(len(got), len(text)):]), &own); err != nil || own != pid {
			t.Errorf("%q, but the pid is said to be %d: %v", got, pid, err)
		}
		if sid, err := unix.Getsid(pid); err != nil || sid != pid {
			t.Errorf("it is in session %d: %v", sid, err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			t.Errorf("it is no child of ours: %v", err)
		}
		_ = conn.Close()
	}
}

func TestDialWithoutTheCommand(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Endpoint{URL: "ssh://far"}.Dial(0, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
