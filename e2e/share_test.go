package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// Sessions that start at once have one host and one server.
func TestShareRacingStarts(t *testing.T) {
	testkit.Need(t, testkit.Processes)
	t.Parallel()
	s := share(t)
	const many = 12
	clients := make([]*sharer, many)
	for i := range clients {
		clients[i] = s.attach()
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			c.greet(version)
			for range 3 {
				c.echo()
			}
		})
	}
	wg.Wait()
	s.host()
	if n := s.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	for _, c := range clients {
		wg.Go(c.close)
	}
	wg.Wait()
	kill(t, s.host(), unix.SIGTERM)
	s.wantGone()
}

// kill signals a process. A pid that a record does not have is read as 0, which would be the group of the tests.
func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("signal %v: there is no process %d", sig, pid)
	}
	ok(t, unix.Kill(pid, sig))
}

// What the first session had closed is not closed for the server of them all.
func TestShareFirstStreamClosed(t *testing.T) {
	t.Parallel()
	s := share(t)
	s.outer = []string{"/bin/sh", "-c", `exec "$@" >&- 2>&-`, "sh"}
	s.attach().write(initialize(version))
	testkit.Until(t, "a server", func() bool { return s.starts() == 1 })
	s.outer = nil
	next := s.client()
	next.echo()
	for fd := range 3 {
		if is, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", s.server(), fd)); !strings.HasPrefix(is, "pipe:") {
			t.Errorf("descriptor %d of the server: %q, %v", fd, is, err)
		}
	}
	next.close()
}

// However one session ends, the others notice nothing, and what it leaves is gone.
func TestShareSessionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *sharer){
		"stdin closed": func(c *sharer) { c.close() },
		"terminated":   func(c *sharer) { kill(c.s.t, c.cmd.Process.Pid, unix.SIGTERM); c.wantExit(128 + int(unix.SIGTERM)) },
		"killed":       func(c *sharer) { kill(c.s.t, c.cmd.Process.Pid, unix.SIGKILL); _ = c.cmd.Wait() },
		"stdout closed": func(c *sharer) {
			c.out.Close()
			c.wantExit(0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "killed" {
				testkit.Long(t)
			}
			t.Parallel()
			s := share(t, "--eof-grace=1s")
			stays, goes := s.client(), s.client()
			goes.write(toolCall(77, "hold", "")) // A call of it is open.
			stays.echo()
			testkit.Until(t, "the call is there", func() bool { return s.received(`"hold"`) })
			end(goes)
			for range 3 {
				stays.echo()
			}
			testkit.Until(t, "the call was cancelled", func() bool { return s.received("notifications/cancelled") || name == "stdin closed" })
			if n := s.starts(); n != 1 {
				t.Errorf("%d servers were started", n)
			}
			stays.close()
			kill(t, s.host(), unix.SIGTERM)
			s.wantGone()
		})
	}
}

// A process of the server's session is killed, or the host itself. Open calls get errors, and the sessions go on with
// another server without a new handshake. Nothing is left of the first.
func TestShareServerKilled(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]func(*sharing) int{
		"server": (*sharing).server, "supervisor": (*sharing).supervisor, "anchor": (*sharing).anchor, "host": (*sharing).host,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "supervisor" || name == "anchor" {
				testkit.Long(t)
			}
			t.Parallel()
			s := share(t)
			a, b := s.client(), s.client()
			a.write(toolCall(77, "hold", ""))
			b.echo()
			kill(t, which(s), unix.SIGKILL)
			if r := a.answer(77); r.Error == nil {
				t.Errorf("the open call was answered with %s", r.Result)
			}
			a.echo()
			b.echo()
			if n := s.starts(); n != 2 {
				t.Errorf("%d servers were started, want 2", n)
			}
			a.close()
			b.close()
			kill(t, s.host(), unix.SIGTERM)
			s.wantGone()
		})
	}
}

// An idle session of a shared server leaves it, and comes back with the next message. The server ends once all have left it
// for the time of --share-linger. ps knows the sessions that sleep, and stop ends them.
func TestShareHibernates(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms") // It lingers for others, and not for those that sleep.
	a, b := s.client(), s.client()
	s.awaitNone("^" + fixture + "\x00")
	s.asleep(a, b)
	a.echo()
	b.echo()
	if n := s.starts(); n < 2 {
		t.Errorf("%d servers were started", n)
	}
	s.awaitNone("^" + fixture + "\x00")
	ids := s.asleep(a, b)
	if text := s.tether("ps"); strings.Count(text, "asleep") != 2 {
		t.Errorf("ps: %s", text)
	}
	s.tether("stop", ids[0])
	a.wantExit(143)
	b.echo()
	b.close() // It sleeps again, or is about to.
	s.end()
}

// After long messages a host is back to what it was, but for what the runtime keeps for itself. Seen to keep ten megabytes.
func TestShareLongMessagesAreGivenBack(t *testing.T) {
	t.Parallel()
	s := share(t)
	c := s.client()
	c.echo()
	before := pss(t, s.host())
	text := strings.Repeat("long ", 1<<20/5)
	for n := range 20 {
		c.write(toolCall(100+n, "echo", text))
		if r := c.answer(100 + n); len(r.Result) < len(text) {
			t.Fatalf("%d: %d bytes, %+v", n, len(r.Result), r.Error)
		}
	}
	after := 0
	defer func() { t.Logf("%d kB, and %d after it", before, after) }()
	testkit.Until(t, "the host is back to what it was", func() bool { after = pss(t, s.host()); return after < before+4000 })
	c.close()
	s.end()
}

// pss is the memory of a process in kilobytes that is in no file, with its share of what several have.
func pss(t *testing.T, pid int) (kilobytes int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	ok(t, err)
	_, after, _ := strings.Cut(string(text), "\nPss_Anon:")
	_, err = fmt.Sscan(after, &kilobytes)
	ok(t, err)
	return kilobytes
}

// A session that sleeps does not end the server of those that are awake, and comes back to it.
func TestShareHibernatesAlone(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms", "--share-linger=0s", "--eof-grace=1s") // For b's call, at the end.
	a, b := s.client(), s.client()
	b.write(toolCall(77, "hold", "")) // What is open keeps a session awake.
	host := s.host()
	s.asleep(a)
	a.write(toolCall(78, "hold", "")) // From here on it is awake, too.
	a.echo()
	if n := s.starts(); n != 1 || s.host() != host {
		t.Errorf("%d servers were started", n)
	}
	// The host tells of a session that has come back: with a record of its own ps would list it twice.
	testkit.Until(t, "no record of a session", func() bool {
		records := slices.DeleteFunc(s.files(), func(f string) bool {
			return !strings.HasSuffix(f, ".json") || strings.HasPrefix(filepath.Base(f), "share-")
		})
		return len(records) == 1
	})
	a.close()
	b.close()
	s.wantGone()
}

// A session stays at its server while that has work that has begun since the session came, and so the server stays too. A session
// that came later does not.
func TestShareHibernatesNeverWithWork(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	s := share(t, "--hibernate=300ms", "--share-linger=0s", "--log-level=debug")
	a := s.client()
	a.write(toolCall(77, "hold", "")) // What is open keeps a session awake.
	a.write(toolCall(1, "lock", ""))
	a.answer(1)
	b := s.client()
	a.write(fmt.Sprintf(cancelRequest, 77))
	testkit.Until(t, "kept awake by a lock", func() bool {
		log, _ := os.ReadFile(s.Log)
		return strings.Count(string(log), "holds a lock on ") > 1
	})
	s.asleep(b)
	if n := s.starts(); n != 1 {
		t.Errorf("%d servers were started", n)
	}
	a.write(release)
	s.asleep(a, b)
	a.close()
	b.close()
	s.wantGone()
}

// asleep waits until the records tell of exactly these sessions as asleep, and returns their ids.
func (s *sharing) asleep(want ...*sharer) (ids []string) {
	s.t.Helper()
	testkit.Until(s.t, "they sleep", func() bool {
		ids = nil
		for _, c := range want {
			for _, file := range s.files() {
				var r struct {
					ID, State  string
					Supervisor struct{ PID int }
				}
				b, _ := os.ReadFile(file)
				if json.Unmarshal(b, &r) == nil && r.State == "asleep" && r.Supervisor.PID == c.cmd.Process.Pid {
					ids = append(ids, r.ID)
				}
			}
		}
		return len(ids) == len(want)
	})
	return ids
}

// A server that hangs in its handshake goes with the session that has given up. The next session gets another server.
func TestShareHangingHandshake(t *testing.T) {
	t.Parallel()
	s := share(t)
	mode := filepath.Join(s.Dir, "mode")
	ok(t, os.WriteFile(mode, []byte("mute"), 0o666))
	c := s.attach()
	c.write(initialize(version))
	testkit.Until(t, "the handshake has begun", func() bool { return s.received("initialize") })
	ok(t, os.Remove(mode))
	kill(t, c.cmd.Process.Pid, unix.SIGKILL)
	_ = c.cmd.Wait()
	s.awaitNone("^" + fixture + "\x00")
	next := s.client()
	next.echo()
	if n := s.starts(); n != 2 {
		t.Errorf("%d servers were started", n)
	}
	next.close()
}
