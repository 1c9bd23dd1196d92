package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A client that asks and does not read holds up itself, and no other. When it reads, all answers are there.
func TestShareSlowClient(t *testing.T) {
	t.Parallel()
	s := share(t)
	slow, other := s.client(), s.client()
	const calls = 40
	text := strings.Repeat("x", 1<<20)
	wrote := make(chan error, 1)
	go func() {
		for id := range calls {
			if _, err := slow.in.WriteString(toolCall(1000+id, "echo", text) + "\n"); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for range 50 {
		other.echo()
	}
	for id := range calls {
		if r := slow.answer(1000 + id); len(r.Result) < len(text) {
			t.Fatalf("call %d: %.100s %+v", id, r.Result, r.Error)
		}
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	slow.close()
	other.close()
	s.end()
}

// A client cannot write more than the buffers on the way hold, ahead of a server that does not read. When it reads, all of it
// comes.
func TestShareHoldsTheClientBack(t *testing.T) {
	t.Parallel()
	s := share(t)
	noError(t, unix.Mkfifo(filepath.Join(s.dir, "gate"), 0o600))
	s.command = []string{"sh", "-c", greets + `; read x <"$0/gate"; cat >"$0/all"; exit`, s.dir}
	c := s.client()
	_, text := lotsOf(t, 8*roomy)
	var sent atomic.Int64
	go (&client{in: c.in}).send(text, &sent)
	if n := steady(t, sent.Load); n == 0 || n > 4*roomy {
		t.Errorf("the client has written %d bytes that nobody reads", n)
	}
	noError(t, os.WriteFile(filepath.Join(s.dir, "gate"), []byte("go\n"), 0))
	c.wantExit(0)
	text = append([]byte(initialized+"\n"), text...)
	testkit.Until(t, "the server has all of it", func() bool {
		all, _ := os.ReadFile(filepath.Join(s.dir, "all"))
		return bytes.Equal(all, text)
	})
	s.end()
}

// A client that gives up a server that does not read closes its input, and its session ends as any other.
func TestShareGivesUpAStuckServer(t *testing.T) {
	t.Parallel()
	s := share(t, "--eof-grace=200ms")
	noError(t, unix.Mkfifo(filepath.Join(s.dir, "gate"), 0o600))
	s.command = []string{"sh", "-c", greets + `; read x <"$0/gate"; exit`, s.dir}
	c := s.client()
	_, text := lotsOf(t, 8*roomy)
	var sent atomic.Int64
	go (&client{in: c.in}).send(text, &sent)
	steady(t, sent.Load)
	c.close()
	s.end()
}

// greets is how a server that is a script begins.
const greets = `read line
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"script","version":"0"}}}'`

// flood is a server that writes many notifications once it has met its client.
const flood = greets + `
read line; read line
pad=$(head -c 8000 /dev/zero | tr '\0' x)
yes '{"jsonrpc":"2.0","method":"notifications/flood","params":{"pad":"'$pad'"}}' | head -n 20000
echo '{"jsonrpc":"2.0","method":"notifications/over"}'
while read line; do :; done`

// What a client does not read is kept up to a bound. Then the client is ended with an error, and the others get
// everything.
func TestShareClientThatNeverReads(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := share(t, "--max-message=1MiB")
	s.command = []string{"sh", "-c", flood, s.dir}
	reads, never := s.client(), s.attach()
	never.write(initialize(version))
	never.answer(0)
	never.write(initialized)
	reads.write(`{"jsonrpc":"2.0","method":"test/begin"}`)
	lines := 0
	for line := ""; !strings.Contains(line, "notifications/over"); lines++ {
		if line = reads.line(); line == "" {
			t.Fatalf("the session that reads ended after %d lines", lines)
		}
	}
	if lines < 20000 {
		t.Errorf("%d lines", lines)
	}
	never.wantExit(125)
	reads.close()
	s.end()
	if b, _ := os.ReadFile(filepath.Join(s.dir, "stderr")); !bytes.Contains(b, []byte("does not read")) {
		t.Errorf("no reason was given: %s", b)
	}
}

// A line that is too long ends its client alone.
func TestShareTooLong(t *testing.T) {
	t.Parallel()
	s := share(t, "--max-message=100KiB")
	long, other := s.client(), s.client()
	go func() { _, _ = long.in.WriteString(strings.Repeat("x", 1<<20)) }()
	long.wantExit(125)
	other.echo()
	if n := s.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	other.close()
	s.end()
}

// Whatever is said on the host's socket, its clients notice nothing.
func TestShareOddWordsOnTheSocket(t *testing.T) {
	t.Parallel()
	s := share(t)
	c := s.client()
	sockets, _ := filepath.Glob(filepath.Join(s.runtime, "mcp-tether", "share-*.sock"))
	if len(sockets) != 1 {
		t.Fatalf("%d sockets", len(sockets))
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	n := int(null.Fd())
	for i, say := range []struct {
		text string
		fds  []int
	}{
		{"", nil}, {"x", nil}, {"{}", nil}, {"{}", []int{n}}, {`{"session":{"pid":-1}}`, []int{n, n, n, n, n, n}},
		{"null", []int{n, n, n, n, n, n, n, n, n}}, {strings.Repeat("[", 60<<10), []int{n, n, n, n, n, n}}, {strings.Repeat("x", 100<<10), nil},
	} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: sockets[0]}); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		var rights []byte
		if len(say.fds) > 0 {
			rights = unix.UnixRights(say.fds...)
		}
		_ = unix.Sendmsg(fd, []byte(say.text), rights, nil, 0)
		if i%2 == 0 { // Half of them hang up at once, the others wait for the end.
			_ = unix.Shutdown(fd, unix.SHUT_WR)
			file := os.NewFile(uintptr(fd), "socket")
			_, _ = io.Copy(io.Discard, file)
			fd, _ = unix.Dup(fd)
			file.Close()
		}
		_ = unix.Close(fd)
		c.echo()
	}
	c.close()
	s.end()
}

// Another user does not get at the socket.
func TestShareOtherUser(t *testing.T) {
	testkit.Need(t, os.Geteuid() == 0, "root")
	t.Parallel()
	s := share(t)
	c := s.client()
	sockets, _ := filepath.Glob(filepath.Join(s.runtime, "mcp-tether", "share-*.sock"))
	// Even where the directories let it in, the host does not take it.
	for _, d := range []string{s.dir, filepath.Dir(s.dir), s.runtime, filepath.Dir(sockets[0])} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(sockets[0], 0o666); err != nil {
		t.Fatal(err)
	}
	told := make(chan string)
	go func() {
		// The thread ends with the goroutine, so it may become another user.
		runtime.LockOSThread()
		told <- connectAs(65534, sockets[0])
	}()
	if got := <-told; got != "end" {
		t.Errorf("another user was told %s; want an end", got)
	}
	c.echo()
	c.close()
	if err := os.Chmod(filepath.Dir(sockets[0]), 0o700); err != nil {
		t.Fatal(err)
	}
	s.end()
}

// connectAs connects to a socket as another user, and tells what came.
func connectAs(uid int, socket string) string {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return errno.Error()
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err.Error()
	}
	n, err := unix.Read(fd, make([]byte, 10))
	if err != nil || n != 0 {
		return fmt.Sprintf("%d bytes, %v", n, err)
	}
	return "end"
}

// A server that cannot be started at all ends its sessions with the code that they would have without --share.
func TestShareServerThatCannotStart(t *testing.T) {
	t.Parallel()
	s := share(t)
	s.command = []string{filepath.Join(s.dir, "none")}
	var wg sync.WaitGroup
	for range 3 {
		c := s.attach()
		_, _ = c.in.WriteString(initialize(version) + "\n") // it may have ended with the first one
		wg.Go(func() { c.wantExit(127) })
	}
	wg.Wait()
	s.wantGone()
	s.flags = append(s.flags, "--term-grace=never")
	s.attach().wantExit(125)
	s.wantGone()
}
