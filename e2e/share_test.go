package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A hundred sessions that start at once have one host and one server. Without --share they have a hundred.
func TestShareRacingStarts(t *testing.T) {
	s := share(t)
	const many = 100
	clients := make([]*sharer, many)
	for i := range clients {
		clients[i] = s.attach()
	}
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			c.greet()
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
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

// A flag wins over its variable, also in the server's own session, which does not get the flags of sharing.
func TestShareFlagOverVariable(t *testing.T) {
	t.Parallel()
	s := share(t, "--share-max=5", "--share-scope=gateway")
	s.env = []string{"MCP_TETHER_SHARE_MAX=-1", "MCP_TETHER_SHARE_LINGER=-1s", "MCP_TETHER_SHARE_SCOPE=all"}
	c := s.client()
	c.echo()
	c.close()
}

// What the first session had closed is not closed for the server of them all.
func TestShareFirstStreamClosed(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]string{"output": ">&-", "error": "2>&-"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := share(t)
			s.outer = []string{"/bin/sh", "-c", `exec "$@" ` + closed, "sh"}
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
		})
	}
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

// The server lives for a while after the last session, and then all is gone. The next session finds another one.
func TestShareLinger(t *testing.T) {
	t.Parallel()
	s := share(t, "--share-linger=300ms")
	first := s.client()
	first.echo()
	first.close()
	s.wantGone()
	second := s.client()
	second.echo()
	if n := s.starts(); n != 2 {
		t.Errorf("%d servers were started, want 2", n)
	}
	second.close()
	s.wantGone()
}

// A process of the server's session is killed, or the host itself. Open calls get errors, and the sessions go on with
// another server without a new handshake. Nothing is left of the first.
func TestShareServerKilled(t *testing.T) {
	t.Parallel()
	for name, which := range map[string]func(*sharing) int{
		"server": (*sharing).server, "supervisor": (*sharing).supervisor, "anchor": (*sharing).anchor, "host": (*sharing).host,
	} {
		t.Run(name, func(t *testing.T) {
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

// When a server is killed, its clients do not hear of one before it that failed to start.
func TestShareServerThatFailedBefore(t *testing.T) {
	t.Parallel()
	s := share(t)
	s.command = slices.Concat([]string{"sh", "-c", `[ -e "$0" ] || { : >"$0"; exit 3; }; exec "$@"`, filepath.Join(s.dir, "failed")}, s.command)
	c := s.attach()
	testkit.Until(t, "the handshake succeeds", func() bool {
		c.write(initialize(version))
		return c.answer(0).Result != nil
	})
	c.write(initialized)
	c.write(toolCall(77, "hold", ""))
	testkit.Until(t, "the call is open", func() bool { return s.received("hold") })
	kill(t, s.server(), unix.SIGKILL)
	if r := c.answer(77); r.Error == nil || !strings.Contains(r.Error.Message, "the server ended (exit code 137) before it answered") {
		t.Errorf("the open call was answered with %s, %+v", r.Result, r.Error)
	}
	c.close()
	s.end()
}

// An idle session of a shared server leaves it, and comes back with the next message. The server ends once all have left it
// for the time of --share-linger. ps knows the sessions that sleep, and stop ends them.
func TestShareHibernates(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms", "--share-linger=300ms")
	a, b := s.client(), s.client()
	testkit.Until(t, "the server has ended", func() bool { return len(s.with("^"+fixture+"\x00")) == 0 })
	s.asleep(a, b)
	a.echo()
	b.echo()
	if n := s.starts(); n < 2 {
		t.Errorf("%d servers were started", n)
	}
	testkit.Until(t, "the server has ended again", func() bool { return len(s.with("^"+fixture+"\x00")) == 0 })
	s.tether("stop", s.asleep(a, b)[0])
	a.wantExit(143)
	b.echo()
	b.close()
	s.wantGone()
}

// A session that sleeps does not end the server of those that are awake, and comes back to it.
func TestShareHibernatesAlone(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms", "--share-linger=0s")
	a, b := s.client(), s.client()
	b.write(toolCall(77, "hold", "")) // What is open keeps a session awake.
	host := s.host()
	s.asleep(a)
	a.echo()
	if n := s.starts(); n != 1 || s.host() != host {
		t.Errorf("%d servers were started", n)
	}
	a.close()
	b.close()
	s.wantGone()
}

// A session stays at its server while that has work that has begun since the session came, and so the server stays too. A session
// that came later does not.
func TestShareHibernatesNeverWithWork(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms", "--share-linger=0s", "--log-level=debug")
	a := s.client()
	a.write(toolCall(77, "hold", "")) // What is open keeps a session awake.
	a.write(toolCall(1, "lock", ""))
	a.answer(1)
	b := s.client()
	a.write(fmt.Sprintf(cancelRequest, 77))
	testkit.Until(t, "kept awake by a lock", func() bool {
		log, _ := os.ReadFile(s.log())
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

// While a session comes back to a host that tells of it, it has no record of its own: ps would list it twice.
func TestShareOneRecord(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=300ms", "--share-linger=0s", "--wake-timeout=10m")
	c := s.client()
	s.asleep(c)
	noError(t, os.WriteFile(filepath.Join(s.dir, "mode"), []byte("mute"), 0o666))
	c.write(toolCall(1, "echo", ""))
	testkit.Until(t, "a server is greeted once more", func() bool { return s.starts() == 2 })
	testkit.Until(t, "the server has the only record", func() bool {
		records := slices.DeleteFunc(s.files(), func(f string) bool {
			return !strings.HasSuffix(f, ".json") || strings.HasPrefix(filepath.Base(f), "share-")
		})
		return len(records) == 1
	})
}

// asleep waits until ps lists exactly these sessions as asleep, and returns their ids in its order.
func (s *sharing) asleep(want ...*sharer) (ids []string) {
	s.t.Helper()
	var list struct {
		Sessions []struct {
			ID, State  string
			Supervisor struct{ PID int }
		}
	}
	testkit.Until(s.t, "ps lists who sleeps", func() bool {
		list.Sessions, ids = nil, nil
		if err := json.Unmarshal([]byte(s.tether("ps", "--json")), &list); err != nil {
			s.t.Fatal(err)
		}
		for _, l := range list.Sessions {
			if l.State == "asleep" && slices.ContainsFunc(want, func(c *sharer) bool { return c.cmd.Process.Pid == l.Supervisor.PID }) {
				ids = append(ids, l.ID)
			}
		}
		return len(ids) == len(want)
	})
	return ids
}

// A server that is started anew may end before it has answered the handshake. The call that waits gets an error, and the
// sessions go on with the next server.
func TestShareNewServerDies(t *testing.T) {
	t.Parallel()
	s := share(t, "--hibernate=1h", "--on-crash=restart")
	dies := filepath.Join(s.dir, "dies")
	s.command = slices.Concat([]string{"sh", "-c", `if rm "$0" 2>/dev/null; then read -r _; exit 3; fi; exec "$@"`, dies}, s.command)
	a, b := s.client(), s.client()
	a.write(toolCall(77, "hold", ""))
	b.echo()
	noError(t, os.WriteFile(dies, nil, 0o666))
	kill(t, s.supervisor(), unix.SIGKILL)
	if r := a.answer(77); r.Error == nil {
		t.Errorf("the open call was answered with %s", r.Result)
	}
	if b.try() {
		t.Error("the call for the server that died was answered")
	}
	testkit.Until(t, "the next server answers", a.try)
	b.echo()
	a.close()
	b.close()
	s.end()
}

// Where no thread can be had any more, the host goes on.
func TestShareSqueezed(t *testing.T) {
	testkit.Need(t, os.Geteuid() == 0, "root")
	t.Parallel()
	dir := pidsCgroup(t) // it ends after the host, which is in it
	s := share(t)
	clients := []*sharer{s.client(), s.client()}
	host := s.host()
	noError(t, os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(host)), 0))
	noError(t, os.WriteFile(dir+"/pids.max", []byte("1"), 0))
	before := threadsOf(t, host)
	for range 100 {
		for _, c := range clients {
			c.echo()
		}
	}
	if now := threadsOf(t, host); now != before || s.host() != host {
		t.Errorf("host %d has %d threads, before %d", host, now, before)
	}
	for _, c := range clients {
		c.close()
	}
}

// A server that hangs in its handshake goes with the session that has given up. The next session gets another server.
func TestShareHangingHandshake(t *testing.T) {
	t.Parallel()
	s := share(t)
	mode := filepath.Join(s.dir, "mode")
	noError(t, os.WriteFile(mode, []byte("mute"), 0o666))
	c := s.attach()
	c.write(initialize(version))
	testkit.Until(t, "the handshake has begun", func() bool { return s.received("initialize") })
	noError(t, os.Remove(mode))
	kill(t, c.cmd.Process.Pid, unix.SIGKILL)
	_ = c.cmd.Wait()
	testkit.Until(t, "the end of the server that hangs", func() bool { return len(s.with("^"+fixture+"\x00")) == 0 })
	next := s.client()
	next.echo()
	if n := s.starts(); n != 2 {
		t.Errorf("%d servers were started", n)
	}
	next.close()
}

// One that is started anew and hangs in its handshake is ended, although sessions stay. Their calls get errors. They go on
// with the next server that answers.
func TestShareNewServerHangs(t *testing.T) {
	t.Parallel()
	s := share(t, "--wake-timeout=2s")
	a, b := s.client(), s.client()
	b.echo()
	mode := filepath.Join(s.dir, "mode")
	noError(t, os.WriteFile(mode, []byte("mute"), 0o666))
	a.write(toolCall(77, "hold", ""))
	testkit.Until(t, "the call is open", func() bool { return s.received("hold") })
	kill(t, s.server(), unix.SIGKILL)
	if r := a.answer(77); r.Error == nil {
		t.Errorf("the open call was answered with %s", r.Result)
	}
	a.write(toolCall(78, "echo", ""))
	b.write(toolCall(78, "echo", ""))
	for _, c := range []*sharer{a, b} {
		if r := c.answer(78); r.Error == nil || !strings.Contains(r.Error.Message, "--wake-timeout") {
			t.Errorf("the call that waited was answered with %s, %+v", r.Result, r.Error)
		}
	}
	noError(t, os.Remove(mode))
	testkit.Until(t, "the next server answers", a.try)
	b.echo()
	a.close()
	b.close()
	s.end()
}
