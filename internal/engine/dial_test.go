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
