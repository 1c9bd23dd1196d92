package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// Whatever is said on the host's socket, its clients notice nothing.
func TestShareOddWords(t *testing.T) {
	t.Parallel()
	s := share(t)
	c := s.client()
	sockets, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "share-*.sock"))
	null, err := os.Open(os.DevNull)
	ok(t, err)
	defer null.Close()
	n := int(null.Fd())
	for text, fds := range map[string][]int{
		"": nil, "x": nil, "{}": {n}, `{"session":{"pid":-1}}`: {n, n, n, n, n, n}, "null": {n, n, n, n, n, n, n, n, n}, strings.Repeat("[", 60<<10): {n, n, n, n, n, n},
	} {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		ok(t, err)
		ok(t, unix.Connect(fd, &unix.SockaddrUnix{Name: sockets[0]}))
		_ = unix.Sendmsg(fd, []byte(text), unix.UnixRights(fds...), nil, 0)
		_ = unix.Close(fd)
		c.echo()
	}
	c.close()
	s.end()
}

// Another user does not get at the socket.
func TestShareOtherUser(t *testing.T) {
	testkit.Need(t, testkit.Root)
	t.Parallel()
	s := share(t)
	c := s.client()
	sockets, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "share-*.sock"))
	// Even where the directories let it in, the host does not take it.
	for _, d := range []string{s.Dir, s.Gateway.Dir, filepath.Dir(s.Gateway.Dir), s.Runtime, filepath.Dir(sockets[0])} {
		ok(t, os.Chmod(d, 0o755))
	}
	ok(t, os.Chmod(sockets[0], 0o666))
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
	ok(t, os.Chmod(filepath.Dir(sockets[0]), 0o700))
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
	s.command = []string{filepath.Join(s.Dir, "none")}
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
