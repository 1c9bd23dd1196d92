package e2e

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A relay enlarges the client's pipe while much passes, and gives that back afterwards, with its buffers. Without the
// relay the pipe stays as it is.
func TestRelayGivesBackWhatBulkTook(t *testing.T) {
	capacity := func(f *os.File) int { return capacityOf(t, f) }
	line := append(lineOf(mib), '\n')
	for way, flags := range ways {
		t.Run(way, func(t *testing.T) {
			c := newClient(t, "pipe", flags, "/bin/sh", "-c", "cat >/dev/null")
			usual := capacity(c.in)
			grown := false
			for i := 0; i < 64 && !grown; i++ {
				_, err := c.in.Write(line)
				noError(t, err)
				grown = capacity(c.in) > usual
			}
			if grown != (way == "relay") {
				t.Fatalf("the pipe has grown: %t", grown)
			}
			testkit.Until(t, "the pipe is as it was", func() bool { return capacity(c.in) == usual })
			noError(t, c.in.Close())
			if code := c.exitCode(); code != 0 {
				t.Errorf("exit %d", code)
			}
			c.s.gone()
		})
	}
}

// capacityOf is that of a pipe, in bytes. It is less than usual where the user has too many pipes (pipe(7)).
func capacityOf(t *testing.T, f *os.File) (n int) {
	t.Helper()
	raw, err := f.SyscallConn()
	noError(t, err)
	noError(t, raw.Control(func(fd uintptr) { n, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }))
	noError(t, err)
	return n
}
