package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// client is the test itself as the gateway of one server, for more bytes than the fixture's protocol can carry.
type client struct {
	cmd     *exec.Cmd
	in, out *os.File
	s       *session
}

// newClient starts the command, tethered, with streams of the given kind.
func newClient(t *testing.T, stdio string, flags []string, argv ...string) *client {
	t.Helper()
	join := os.Pipe
	if stdio == "socketpair" {
		join = socketpair
	}
	theirIn, in, err := join()
	ok(t, err)
	out, theirOut, err := join()
	ok(t, err)
	c := startOn(t, theirIn, theirOut, flags, argv...)
	c.in, c.out = in, out
	t.Cleanup(func() { _, _ = in.Close(), out.Close() })
	return c
}

// startOn starts the command, tethered, with these streams, which are closed here then.
func startOn(t *testing.T, in, out *os.File, flags []string, argv ...string) *client {
	t.Helper()
	s := startGateway(t).newSession()
	full := s.Wrap(flags, argv...)
	c := &client{cmd: exec.Command(full[0], full[1:]...), s: s}
	lifeline := holdLifeline(t, s.Life)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = in, out, os.Stderr
	c.cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+s.Runtime)
	c.cmd.ExtraFiles = make([]*os.File, lifelineFD-2)
	c.cmd.ExtraFiles[lifelineFD-3] = lifeline
	s.ok(c.cmd.Start())
	for _, f := range []*os.File{in, out, lifeline} {
		s.ok(f.Close())
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

const lifelineFD = 9 // as in the fixture

// holdLifeline opens the writing end. Not by os: the file would be non-blocking for all who inherit it.
func holdLifeline(t *testing.T, l *lifeline) *os.File {
	t.Helper()
	fd, err := unix.Open(l.Path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	ok(t, err)
	return os.NewFile(uintptr(fd), l.Path)
}

func socketpair() (r, w *os.File, err error) {
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(p[0]), "socket"), os.NewFile(uintptr(p[1]), "socket"), nil
}

// exitCode waits for the wrapper.
func (c *client) exitCode() int {
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.s.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// A server that sends back what it gets: what comes back is what was sent, to the last byte.
func TestBytesAreIdentical(t *testing.T) {
	t.Parallel()
	for stdio, size := range map[string]int64{"pipe": gib, "socketpair": 128 * mib} {
		t.Run(stdio, func(t *testing.T) {
			if size == gib {
				testkit.Long(t)
			}
			t.Parallel()
			c := newClient(t, stdio, nil, node(t.TempDir(), "cat")...)
			sent := make(chan hash.Hash, 1)
			go func() {
				sum := sha256.New()
				_, _ = io.Copy(io.MultiWriter(c.in, sum), io.LimitReader(rand.NewChaCha8([32]byte{1}), size))
				_ = c.in.Close()
				sent <- sum
			}()
			got := sha256.New()
			n, err := io.Copy(got, c.out)
			if err != nil || n != size {
				t.Fatalf("%d bytes came back of %d (%v)", n, size, err)
			}
			if !bytes.Equal(got.Sum(nil), (<-sent).Sum(nil)) {
				t.Error("what came back is not what was sent")
			}
			if code := c.exitCode(); code != 0 {
				t.Errorf("exit %d", code)
			}
			c.s.Gone()
		})
	}
}

// The last words of a server that exits at once after them, with the wrapper gone before they are read or not.
func TestLastOutputIsNotCut(t *testing.T) {
	t.Parallel()
	for _, stdio := range []string{"pipe", "socketpair"} {
		for _, size := range []int{60 * kib, 16 * mib} {
			t.Run(stdio+"/"+strconv.Itoa(size), func(t *testing.T) {
				t.Parallel()
				want := make([]byte, size)
				_, _ = rand.NewChaCha8([32]byte{2}).Read(want)
				file := filepath.Join(t.TempDir(), "words")
				ok(t, os.WriteFile(file, want, 0o600))
				for range testkit.Rounds(10) {
					testLastOutput(t, stdio, file, want)
				}
			})
		}
	}
}

func testLastOutput(t *testing.T, stdio, file string, want []byte) {
	t.Helper()
	c := newClient(t, stdio, quick(), fixture, "burst", file, "7")
	fits := len(want) <= 64*kib && (stdio != "pipe" || capacityOf(t, c.out) >= 64*kib)
	if fits { // all of it is in the pipe when the wrapper ends
		if code := c.exitCode(); code != 7 {
			t.Errorf("exit %d", code)
		}
	}
	_ = c.out.SetReadDeadline(time.Now().Add(testkit.Patience))
	got, err := io.ReadAll(c.out)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes of %d (%v), or others", len(got), len(want), err)
	}
	if !fits {
		if code := c.exitCode(); code != 7 {
			t.Errorf("exit %d", code)
		}
	}
	c.s.Gone()
}
