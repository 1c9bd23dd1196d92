//go:build unix

package clients

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// Any user may put anything where root's pass looks for a configuration.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	fifo, socket, device := filepath.Join(dir, "fifo.json"), filepath.Join(dir, "socket.json"), filepath.Join(dir, "device.json")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", device); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fifo, socket, device} {
		failed := make(chan error, 1)
		go func() {
			_, err := Named(file)
			failed <- err
		}()
		select {
		case err := <-failed:
			if err == nil {
				t.Errorf("%s was read", file)
			}
		case <-time.After(testkit.Patience):
			t.Errorf("%s holds up the pass", filepath.Base(file))
			if w, err := unix.Open(file, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil { // let it go
				t.Log(<-failed)
				unix.Close(w)
			}
		}
	}
}

// Files through a symbolic link are read: people keep their settings in other places.
func TestSymlink(t *testing.T) {
	dir := write(t, map[string]string{"real.json": `{"mcpServers": {"a": {"command": "c"}}}`})
	if err := os.Symlink("real.json", dir+"/link.json"); err != nil {
		t.Fatal(err)
	}
	if file, err := Named(dir + "/link.json"); err != nil || len(file.Servers) != 1 {
		t.Errorf("%v, %v", file, err)
	}
}

// A configuration that is not ours to read is none of our business.
func TestKnownUnreadable(t *testing.T) {
	testkit.Excuse(t, os.Getuid() == 0, "root may read everything")
	home := write(t, map[string]string{".claude.json": "{}"})
	if err := os.Chmod(home+"/.claude.json", 0); err != nil {
		t.Fatal(err)
	}
	Known([]string{home}, func(err error) { t.Error(err) })
}
