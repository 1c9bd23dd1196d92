package session

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

var _ = testkit.Role("hold", hold)

// hold is the other process. It takes the lease of a session, says so, and holds it until it ends.
func hold() {
	dir, id := testkit.RoleArgs()[0], testkit.RoleArgs()[1]
	at, err := proc.OpenDir(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	l, err := newDirectory(at).Take(id)
	if err == nil {
		err = l.Write(Record{Version: Version, ID: id, State: StateRunning})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	fmt.Fprintln(os.Stdout, "held")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// holder starts the other process and waits until it holds the lease.
func holder(t *testing.T, dir, id string) *exec.Cmd {
	t.Helper()
	cmd := testkit.Command(t, "hold", dir, id)
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
	return cmd
}

// open opens a directory for as long as the test lasts.
func open(t testing.TB, name string) *Directory {
	t.Helper()
	dir, err := proc.OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	return newDirectory(dir)
}
