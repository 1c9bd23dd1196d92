package engine

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/http1"
	"mcp-tether/kernel"
)

// The longest list is read in the memory that a child for another user has left. A longer one is refused.
func TestLongestListInLittleMemory(t *testing.T) {
	const inside = "MCP_TETHER_TEST_INSIDE"
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestLongestListInLittleMemory$")
		cmd.Env = append(os.Environ(), inside+"=1", "GOMAXPROCS=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %.500s", err, out)
		}
		return
	}
	status, err := kernel.Read("/proc/self/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	var have uint64 // in KiB
	_, data, _ := bytes.Cut(status, []byte("VmData:"))
	if _, err := fmt.Sscan(string(data), &have); err != nil {
		t.Fatal(err)
	}
	// A binary without cgo has more left of the 128 MiB. The race detector needs memory of its own.
	info, _ := debug.ReadBuildInfo()
	limit := have<<10 + 64<<20
	if !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		if err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			t.Fatal(err)
		}
	}
	const most = maxResponse - maxResponse/256 // the lengths of the chunks count, too
	all, err := Client{Dial: sends(most)}.Containers(t.Context())
	if err != nil || len(all) != 1 || len(all[0].Labels["k"]) < most-100 {
		t.Errorf("%d containers, %v", len(all), err)
	}
	if _, err := (Client{Dial: sends(maxResponse + 1)}).Containers(t.Context()); !errors.Is(err, ErrBadResponse) {
		t.Errorf("a list that is too long: %v", err)
	}
}

// sends is an engine with a list of so many bytes, which takes it no memory. Docker sends a long list in chunks.
func sends(size int) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if _, err := http1.ReadHead(bufio.NewReader(theirs)); err != nil {
				return
			}
			_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			const before, after = `[{"Id":"a1","Labels":{"k":"`, `"}}]`
			chunk := func(text string) { _, _ = fmt.Fprintf(theirs, "%x\r\n%s\r\n", len(text), text) }
			chunk(before)
			text := strings.Repeat("k", 4<<10)
			for left := size - len(before+after); left > 0; left -= len(text) {
				text = text[:min(left, len(text))]
				chunk(text)
			}
			chunk(after)
			chunk("")
		}()
		return ours, nil
	}
}
