//go:build unix

package session

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
)

// TestMain lets the test binary play the other process: it takes the lease of a session, says so, and holds it until its
// standard input ends, or it is killed.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "hold" {
		hold(os.Args[2], os.Args[3])
		return
	}
	os.Exit(m.Run())
}

func hold(dir, id string) {
	l, err := Take(dir, id)
	if err == nil {
		err = l.Write(Record{Version: Version, ID: id, State: StateRunning})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	fmt.Fprintln(os.Stdout, "held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

// holder starts the other process and waits until it holds the lease.
func holder(t *testing.T, dir, id string) (cmd *exec.Cmd, release io.Closer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self, "hold", dir, id)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var word [5]byte
	if _, err := io.ReadFull(out, word[:]); err != nil || string(word[:]) != "held\n" {
		t.Fatalf("%q, %v", word, err)
	}
	return cmd, in
}

// need skips a test that lacks something, unless skips are forbidden.
func need(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("MCP_TETHER_NO_SKIP") != "" {
		t.Fatalf("this needs %s, and skips are forbidden", what)
	}
	t.Skipf("this needs %s", what)
}
