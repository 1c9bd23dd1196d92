package e2e

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// dead is a session whose wrappers were killed, with a member that the kernel does not end with them.
func dead(t *testing.T) *session {
	t.Helper()
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: polite("--name=files\x1b[2J")}, node(s.Dir, "serve", "daemon", "setsid")...)
	s.WaitReady()
	s.IDs = []string{s.ownRecord()}
	server := s.Record(s.IDs[0]).Server.PID
	killPair(t, s.PID)
	stage.AwaitExit(t, server) // by its death signal
	return s
}

// A member that became another user's is that user's, however it is marked.
func TestReapSparesMemberOfAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	name := setuidCopy(t)
	s := startGatewayAs(t, nobody).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: resisting("--cgroup=off")}, node(s.Dir, "serve", "daemon", "setsid/setsid,setuid,comm="+name)...)
	s.WaitReady()
	killPair(t, s.PID)
	for _, c := range []caller{s.as(), operator} {
		o := c.run(t, "reap", "--kill", "--json")
		t.Logf("uid %d: exit code %d\n%s", c.uid, o.code, o.stdout)
		// What was killed ends when it gets a processor.
		testkit.Until(t, "the others to end", func() bool { return len(s.Members()) <= 1 })
		if left := s.Members(); len(left) != 1 {
			t.Errorf("after the sweep of %d: left %v, want the one of root", c.uid, left)
		}
	}
	s.EndAll()
}

// A full disk keeps neither records from being swept nor the last metrics from being read.
func TestReapOnFullDisk(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const metrics = "/run/metrics"
	ok(t, os.Mkdir(metrics, 0o755))
	for _, dir := range []string{"/run", metrics} {
		ok(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size=64k"))
		ok(t, os.MkdirAll(metrics, 0o755))
	}
	s := dead(t)
	const file = metrics + "/mcp.prom"
	operator.reap(t, 1, "--metrics-file="+file)
	before, err := os.ReadFile(file)
	ok(t, err)
	fillUp(t, metrics+"/filler")
	fillUp(t, "/run/filler")
	if o := operator.run(t, "reap", "--kill", "--metrics-file="+file); o.code != 2 || !strings.Contains(o.stderr, "no space left") {
		t.Errorf("exit code %d, %q", o.code, o.stderr)
	}
	s.swept()
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the old metrics are not whole: %v\n%s", err, after)
	}
	if _, err := os.Stat(file + ".tmp"); err == nil {
		t.Error("half a file is left")
	}
}

// fillUp leaves no room on the file system.
func fillUp(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	ok(t, err)
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}
