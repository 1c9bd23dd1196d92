package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Limits that are reached while a session lives, or before it does.

// firstUser and lastUser are the first and the last of the users that neither Debian nor systemd gives to anything
// (systemd.io/UIDS-GIDS). A user namespace of the usual 65536 users has them.
const firstUser, lastUser = 60578, 61183

// ownUser gives a test a user of its own: RLIMIT_NPROC counts all that a user has, in every pid namespace. A socket without
// a file tells all other runs of the tests that the user is taken; the kernel removes it with its process.
func ownUser(t *testing.T) int {
	t.Helper()
	testkit.Need(t, testkit.Namespaces) // in a container root may not look at the files of others
	for uid := firstUser; uid <= lastUser; uid++ {
		if l, err := net.Listen("unix", fmt.Sprintf("@mcp-tether-e2e-user-%d", uid)); err == nil {
			t.Cleanup(func() { _ = l.Close() })
			return uid
		}
	}
	t.Fatal("no user is free")
	return 0
}

// A record that exceeds the limit of file sizes is not written. Neither that nor our log matters to the server.
func TestFileSizeLimited(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 51200} {
		for _, flags := range [][]string{nil} {
			t.Run(strconv.Itoa(size)+strings.Join(flags, ""), func(t *testing.T) {
				t.Parallel()
				s := startGateway(t).newSession()
				// The first line of the teardown exceeds the limit.
				s.ok(os.WriteFile(s.Log, bytes.Repeat([]byte("-"), max(0, size-50)), 0o600))
				argv := s.Wrap(quick(append(flags, "--log-level=debug")...), fixture, "signals")
				s.Spawn(setup{Bare: true}, append([]string{fixture, "under", fmt.Sprintf("fsize=%d", size), "--"}, argv...)...)
				s.WaitReady()
				s.Signal(syscall.SIGUSR1)
				if got := s.Read(); !strings.Contains(got, "got 10") {
					t.Errorf("the server says %q, want the signal that it was sent and no other", got)
				}
				if size > 0 {
					s.WaitRecord()
				} else if all := s.Records(); len(all) > 0 {
					t.Errorf("records: %v", all)
				}
				s.Signal(syscall.SIGTERM)
				if got := s.ReadToEnd(); strings.Contains(got, "got 25") {
					t.Errorf("the server was sent our own SIGXFSZ: %q", got)
				}
				wantExit(t, s.Wait(), "exit 137")
				s.Gone()
				if st, err := os.Stat(s.Log); err != nil || st.Size() != int64(size) {
					t.Errorf("the log: %v, %v", st, err)
				}
			})
		}
	}
}

// The control: the signal that we ignore ends a program that does not ignore it.
func TestFileSizeLimitIsDeadly(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	s.Spawn(setup{Bare: true}, fixture, "under", "fsize=0", "--", "/bin/sh", "-c", `echo x >"$0"; echo lived`, filepath.Join(s.Dir, "x"))
	if got := s.ReadToEnd(); strings.Contains(got, "lived") {
		t.Errorf("it says %q", got)
	}
}

// Too little to begin with: there is a sentence where there can be one, and never a server without its supervisor.
func TestTooLittleToStart(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]string{
		"address space": {"as=400000000", "as=100000000", "as=50000000"},
		"data":          {"data=40000000", "data=20000000"},
		"open files":    {"nofile=5", "nofile=4", "nofile=3"},
		"processes":     {"nproc=4", "nproc=3", "nproc=2"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Need(t, testkit.Root)
			t.Parallel()
			g := startGatewayAs(t, ownUser(t))
			for _, limit := range limits {
				if g.refusesAt(limit) {
					return
				}
			}
			t.Error("every session was started: the test has shown nothing")
		})
	}
}

// Where fewer descriptors may be open than a session waits for at once, its processes wait all the same: none of them runs. The control is
// the client's bytes, which come through.
func TestFewerDescriptorsThanPolled(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--cgroup=auto", "--hibernate=1ms"} {
		s := startGateway(t).newSession()
		s.Spawn(setup{Bare: true}, append([]string{"/bin/sh", "-c", `ulimit -S -n 6; exec "$@"`, "sh"}, s.Wrap(polite(flag), "/bin/cat")...)...)
		const line = `{"method":"notifications/x"}`
		if answer := s.Ask(line); strings.TrimSpace(answer) != line {
			t.Errorf("%s: %q", flag, answer)
		}
		s.until("all wait", func() bool {
			return !slices.ContainsFunc(s.Members(), func(p stage.Proc) bool { return p.State != "S" })
		})
		s.closeStdin()
		wantExit(t, s.Wait(), "exit 0")
		s.Gone()
	}
}

// As much data as the documents ask for is enough, for a server that is put to sleep, too.
func TestEnoughDataToStart(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--cgroup=auto", "--hibernate=1ms"} {
		s := startGateway(t).newSession()
		s.Spawn(setup{Bare: true}, append([]string{fixture, "under", "data=67108864", "--"}, s.Wrap(polite(flag), "/bin/cat")...)...)
		for n := range 5 {
			if answer, want := s.Ask(`{"method":"notifications/x"}`), `{"method":"notifications/x"}`; strings.TrimSpace(answer) != want {
				t.Errorf("%d: %q", n, answer)
			}
		}
		s.closeStdin()
		wantExit(t, s.Wait(), "exit 0")
		s.Gone()
	}
}

// refusesAt reports whether a session ends before its server is started.
func (g *gateway) refusesAt(limit string) bool {
	g.t.Helper()
	s := g.newSession()
	s.Spawn(setup{Bare: true}, append([]string{fixture, "under", limit, "--"}, s.Wrap(polite(), "/bin/sh", "-c", "echo started; cat")...)...)
	s.closeStdin()
	started, end := s.ReadToEnd(), s.Wait()
	said, err := os.ReadFile(s.Stderr)
	s.ok(err)
	g.t.Logf("%s: %q, %s, standard error %.300q", limit, started, end, said)
	s.WaitDead()
	if started != "" && end != "exit 0" || started == "" && (end == "exit 0" || len(said) == 0) {
		g.t.Errorf("%s: %q, %s, and not a word: %q", limit, started, end, said)
	}
	if started == "" && !strings.Contains(string(said), "mcp-tether: ") && !strings.Contains(string(said), "runtime: ") && !strings.Contains(string(said), "fatal error: ") {
		g.t.Errorf("standard error: %q", said)
	}
	return started == ""
}

// squeeze takes away from a living session what new threads and processes take. undo gives it back.
type squeeze struct {
	name string
	uid  func(t *testing.T) int
	do   func(s *session) (undo func())
}

var squeezes = []squeeze{
	{"RLIMIT_NPROC", ownUser, func(s *session) func() {
		// By a process of that user: not every superuser may do it.
		set := func(n int) {
			argv := []string{"lower", strconv.Itoa(rlimitNproc), strconv.Itoa(n), strconv.Itoa(s.PID)}
			for _, p := range stage.Below(s.PID) {
				argv = append(argv, strconv.Itoa(p.PID))
			}
			cmd := exec.Command(fixture, argv...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.gw.UID), Gid: uint32(s.gw.UID)}}
			out, err := cmd.CombinedOutput()
			if err != nil {
				s.t.Fatalf("%v: %s", err, out)
			}
		}
		set(1)
		return func() { set(1 << 40) }
	}},
	{"pids.max", func(*testing.T) int { return 0 }, func(s *session) func() {
		dir := pidsCgroup(s.t)
		for _, p := range append(stage.Below(s.PID), proc{PID: s.PID}) {
			_ = os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(p.PID)), 0)
		}
		s.ok(os.WriteFile(dir+"/pids.max", []byte("1"), 0))
		return func() { s.ok(os.WriteFile(dir+"/pids.max", []byte("max"), 0)) }
	}},
}

const rlimitNproc = 6

// pidsCgroup makes a cgroup with the pids controller, of version 1 or 2.
func pidsCgroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup/pids", ownCgroupOr("")} {
		dir, err := os.MkdirTemp(root, "e2e-") //nolint:usetesting // a cgroup, not a temporary directory
		if root == "" || err != nil {
			continue
		}
		if _, err := os.Stat(dir + "/pids.max"); err != nil {
			_ = os.Remove(dir)
			continue
		}
		t.Cleanup(func() { clearNest(t, dir) })
		return dir
	}
	testkit.Lacks(t, testkit.Controllers, true, "a pids controller")
	return ""
}

func ownCgroupOr(other string) string {
	if dir, err := stage.OwnCgroup(); err == nil {
		return dir
	}
	return other
}

// squeezed are sessions in which something of ours goes on while no thread can be had.
var squeezed = []struct {
	name  string
	flags []string
	begin func(t *testing.T, g *gateway, flags []string) *session
	work  func(t *testing.T, s *session)
}{
	{name: "nothing", work: func(*testing.T, *session) {}},
	{name: "a dead record on disk", begin: besideDead, work: func(*testing.T, *session) {
		quiet(1500 * time.Millisecond) // The sweep goes on meanwhile, or cannot.
	}},
	{name: "log to a full stderr", flags: []string{"--log-level=debug", "--log-file="}, work: func(_ *testing.T, s *session) {
		for range 20 {
			s.gw.Call("signal", s.Name, strconv.Itoa(int(syscall.SIGUSR1)))
		}
	}},
}

func besideDead(t *testing.T, g *gateway, flags []string) *session {
	t.Helper()
	dead := g.tree(setup{Flags: flags}, "serve", "daemon")
	dead.WaitReady()
	dead.WaitRecord()
	killPair(t, dead.PID)
	s := g.newSession()
	s.Runtime = dead.Runtime
	s.spawnCat(flags)
	return s
}

// spawnCat starts a tree whose server is no Go program: where no thread can be had, the runtime of one may abort, and then
// nobody answers. SIGUSR1 must not end it.
func (s *session) spawnCat(flags []string) {
	s.t.Helper()
	argv := append([]string{"/bin/sh", "-c", `trap "" USR1; "$@" & exec /bin/cat`, "sh"}, node(s.Dir, "plain", escapees...)...)
	s.Spawn(setup{Flags: flags}, argv...)
	s.WaitReady()
}

// A healthy session goes on, and ends whole, where no thread and no process can be had any more.
func TestSqueezedSession(t *testing.T) {
	t.Parallel()
	for _, q := range squeezes {
		for _, c := range squeezed {
			for _, cgroup := range []string{"auto", "off"} {
				t.Run(q.name+"/"+c.name+"/cgroup="+cgroup, func(t *testing.T) {
					testkit.Need(t, testkit.Root)
					t.Parallel()
					g := startGatewayAs(t, q.uid(t))
					flags := append(polite("--cgroup="+cgroup), c.flags...)
					var s *session
					if c.begin != nil {
						s = c.begin(t, g, flags)
					} else {
						s = g.newSession()
						s.spawnCat(flags)
					}
					supervisor := s.below(s.PID)
					q.do(s)
					before := threadsOf(t, s.PID) + threadsOf(t, supervisor)
					c.work(t, s)
					if !strings.Contains(s.Ask(`{"id":3,"method":"ping"}`), `"id":3`) {
						t.Error("the server does not answer")
					}
					if now := threadsOf(t, s.PID) + threadsOf(t, supervisor); now != before {
						t.Errorf("%d threads, before %d", now, before)
					}
					g.Kill()
					s.WaitDead()
					stage.AwaitExit(t, s.PID)
					s.noCrash()
				})
			}
		}
	}
}

// threadsOf counts the threads of a process.
func threadsOf(t *testing.T, pid int) int {
	t.Helper()
	tids, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	ok(t, err)
	return len(tids)
}

// noCrash expects that our Go runtime has not aborted. The fixture is a Go program, too, and has no thread in reserve.
// On a busy machine its runtime does abort, with a trace that names it.
func (s *session) noCrash() {
	s.t.Helper()
	b, err := os.ReadFile(s.Stderr)
	s.ok(err)
	said := string(b)
	if strings.Contains(said, "mcp-tether/e2e/fixture") && !strings.Contains(said, "mcp-tether/supervise") {
		return
	}
	if strings.Contains(said, "runtime:") || strings.Contains(said, "goroutine ") {
		s.t.Errorf("standard error: %.2000s", said)
	}
}

// A server that sleeps cannot be woken where no process can be had: the request gets an error, and later an answer.
func TestSqueezedSleep(t *testing.T) {
	t.Parallel()
	for _, q := range squeezes {
		t.Run(q.name, func(t *testing.T) {
			testkit.Need(t, testkit.Root)
			t.Parallel()
			g := startGatewayAs(t, q.uid(t))
			s := g.mcpSession(setup{Flags: sleepy()}, "serve", "daemon")
			s.greet()
			undo := q.do(s)
			before := threadsOf(t, s.PID)
			s.asleep(1)
			s.alone()
			// A front cannot have its threads, so the message waits; or there is room for these, and not for the server.
			s.Write(toolCall(1, "echo", "hello") + "\n")
			quiet(100 * time.Millisecond)
			if now := threadsOf(t, s.PID); now != before {
				t.Errorf("%d threads, before %d", now, before)
			}
			undo()
			if line := s.Read(); s.parse(line).Error != nil {
				s.until("awake", func() bool { return s.parse(s.Ask(toolCall(2, "echo", "hello"))).Error == nil })
			}
			q.do(s)
			s.asleep(2)
			s.alone()
			g.Kill()
			s.Gone()
			s.noCrash()
		})
	}
}

// The server is a fork bomb, in a container that allows so many processes.
func TestSqueezedByForkBomb(t *testing.T) {
	for _, cgroup := range []string{"auto", "off"} {
		for _, end := range stuckEnds {
			t.Run(end.name+"/cgroup="+cgroup, func(t *testing.T) {
				testkit.Need(t, testkit.Root)
				t.Parallel()
				dir := pidsCgroup(t)
				ok(t, os.WriteFile(dir+"/pids.max", []byte("100"), 0))
				s := startGateway(t).newSession()
				argv := s.Wrap(quick("--cgroup="+cgroup, "--log-level=debug"), fixture, "bomb")
				s.Spawn(setup{Bare: true}, inWorld(argv, "cgroup="+dir)...)
				s.WaitReady()
				testkit.Until(t, "half of the processes that there may be", func() bool {
					all, err := os.ReadFile(dir + "/cgroup.procs")
					s.ok(err)
					return strings.Count(string(all), "\n") >= 50
				})
				if now := state(s.PID); now == "Z" || now == "" {
					t.Errorf("the anchor is in state %q", now)
				}
				end.end(s)
				stage.AwaitExit(t, s.PID)
				s.WaitDead()
				for deadline := time.Now().Add(testkit.Patience); ; pause(5 * time.Millisecond) {
					left, err := os.ReadFile(dir + "/cgroup.procs")
					s.ok(err)
					if len(left) == 0 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("%d processes are left", strings.Count(string(left), "\n"))
					}
				}
			})
		}
	}
}
