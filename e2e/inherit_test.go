package e2e

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// The server finds what it would find without us: environment (but for two variables), signal dispositions and mask,
// limits, working directory, descriptors and umask. It is a C program, `head`, so that no runtime of its own changes
// anything before the test looks at it from outside.

// states in which gateways start their servers, as words for fixture/under.go.
var states = map[string][]string{
	"plain": nil,
	"all": {
		"ignore=1,2,3,10,13,17,20,40", "block=1,2,3,12,14,15,17,18,28,35,64", "umask=23", "nofile=777", "core=4096", "slack=123456",
		"open=17:/etc/passwd",
	},
	"everything blocked": {"block=" + allSignals()},
	"everything ignored": {"ignore=" + allSignals()},
	"closed stdin":       {"close=0"},
	"closed streams":     {"close=0,1,2"},
	"slow timers":        {"slack=7000000"},
}

// allSignals is every signal that a process may block or ignore, but for the two that C libraries keep to themselves.
func allSignals() string {
	var all []string
	for n := 1; n <= 64; n++ {
		if n != 32 && n != 33 && syscall.Signal(n) != syscall.SIGKILL && syscall.Signal(n) != syscall.SIGSTOP {
			all = append(all, fmt.Sprint(n))
		}
	}
	return strings.Join(all, ",")
}

func TestServerInherits(t *testing.T) {
	t.Parallel()
	for name, state := range states {
		for _, how := range [][]string{{"--cgroup=auto"}, {"--cgroup=off"}} {
			t.Run(name+"/"+strings.Join(how, ","), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				want, got := inherited(t, dir, state, nil), inherited(t, dir, state, how)
				got.wantMarks(t)
				for _, key := range slices.Sorted(maps.Keys(want)) {
					if got[key] != want[key] {
						t.Errorf("%s\n    is  %q\nwant %q", key, got[key], want[key])
					}
				}
				for key := range got {
					if _, found := want[key]; !found {
						t.Errorf("%s: bare it is not there; now it is %q", key, got[key])
					}
				}
			})
		}
	}
}

// A server behind a front has streams of the front, and what is ignored is not passed on. The rest is what its gateway gave.
func TestServerBehindAFrontInherits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"plain", "all", "everything blocked"} {
		want, got := inherited(t, dir, states[name], nil), inherited(t, dir, states[name], []string{"--hibernate=10m"})
		for _, key := range []string{"SigBlk", "Umask", "limits"} {
			if got[key] != want[key] || want[key] == "" {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], want[key])
			}
		}
	}
}

// The states are what they are called, or the test above compares nothing.
func TestStatesDiffer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := inherited(t, dir, nil, nil)
	for name, keys := range map[string][]string{
		"all":                {"SigBlk", "SigIgn", "Umask", "limits", "fd 17", "timerslack_ns"},
		"everything blocked": {"SigBlk"},
		"everything ignored": {"SigIgn"},
		"closed stdin":       {"fd 0"},
		"closed streams":     {"fd 0", "fd 1"},
		"slow timers":        {"timerslack_ns"},
	} {
		in := inherited(t, dir, states[name], nil)
		for _, key := range keys {
			if _, readable := plain[key]; key == "timerslack_ns" && !readable {
				continue // that of others wants CAP_SYS_NICE (proc_pid_timerslack_ns(5))
			}
			if in[key] == plain[key] {
				t.Errorf("%s: %s is %q, as in no particular state", name, key, in[key])
			}
		}
	}
}

// A descriptor of ours in place of a closed stream would be taken for that, and closed: without its gateway's, an anchor spins, and
// ends the session when its time is over.
func TestClosedStreamsArePlacesOfNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"closed stdin", "closed streams"} {
		s := startGateway(t).newSession()
		argv := append(append([]string{fixture, "under"}, states[name]...), "--")
		s.Spawn(setup{Bare: true}, append(argv, s.Wrap(quick(), "/bin/sleep", "1000")...)...)
		testkit.Until(t, name+": an anchor that holds pidfds of its gateway and its supervisor", func() bool {
			held := 0
			links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", s.PID))
			for _, link := range links {
				if target, _ := os.Readlink(link); strings.Contains(target, "pidfd") {
					held++
				}
			}
			return held == 2
		})
		s.IDs = s.Records()
		s.Signal(syscall.SIGTERM)
		wantExit(t, s.Wait(), "exit 143")
		s.Gone()
	}
}

// In whatever state we are started, the session ends.
func TestEndingsInStates(t *testing.T) {
	t.Parallel()
	for name, state := range states {
		if strings.HasPrefix(name, "closed") {
			continue // there is no stream to end it by
		}
		for _, e := range endings {
			t.Run(name+"/"+e.name, func(t *testing.T) {
				sample(t, 3)
				t.Parallel()
				s := startGateway(t).newSession()
				argv := s.Wrap(quick(), "/bin/sh", "-c", "setsid sleep 1000 </dev/null >/dev/null & exec cat")
				s.Spawn(setup{Bare: true}, append(append(append([]string{fixture, "under"}, state...), "--"), argv...)...)
				s.Ask("up")
				s.IDs = s.Records()
				e.end(s)
				s.Gone()
				s.EndedWhole(e.causes...)
			})
		}
	}
}

// inheritance is what a process was started with, by name.
type inheritance map[string]string

// inherited starts a server in the state, bare without flags, and looks at it.
func inherited(t *testing.T, dir string, state, flags []string) inheritance {
	t.Helper()
	s := startGateway(t).newSession()
	gate := filepath.Join(dir, "gate")
	_ = syscall.Mkfifo(gate, 0o600)
	argv := []string{"/usr/bin/head", "-n1", gate}
	if flags != nil {
		argv = s.Wrap(quick(flags...), argv...)
	}
	argv = append(append(append([]string{fixture, "under"}, state...), "--"), argv...)
	stdio := stdios[len(state)%len(stdios)]
	s.Spawn(setup{Bare: true, Stdio: stdio, Keys: []string{"dir=" + dir}, Env: environment(s)}, argv...)
	w := openGate(t, gate)
	defer w.Close()
	in := look(t, awaitReader(t, gate), s)
	s.IDs = s.Records()
	s.ok(w.Close())
	wantExit(t, s.Wait(), "exit 0")
	s.Gone()
	return in
}

// awaitReader is the one process that has the file open for reading. The kernel lets a writer of a FIFO in before the
// reader that waits for it has its descriptor. A process that the test has just forked, and that has not executed anything
// yet, still has the test's own descriptor, which is for writing.
func awaitReader(t *testing.T, path string) int {
	t.Helper()
	var found []int
	testkit.Until(t, "one reader of "+path, func() bool {
		found = readers(path)
		return len(found) == 1
	})
	return found[0]
}

// readers are the processes that have the file open for reading alone.
func readers(path string) []int {
	var found []int
	var links []string
	for _, p := range stage.Holders(path) {
		some, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.PID))
		links = append(links, some...)
	}
	for _, link := range links {
		if target, _ := os.Readlink(link); target != path {
			continue
		}
		info, _ := os.ReadFile(strings.Replace(link, "/fd/", "/fdinfo/", 1))
		_, flags, _ := strings.Cut(string(info), "flags:")
		mode, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(flags, "\n", 2)[0]), 8, 64)
		if pid, pidErr := strconv.Atoi(strings.Split(link, "/")[2]); err == nil && pidErr == nil && mode&syscall.O_ACCMODE == syscall.O_RDONLY {
			found = append(found, pid)
		}
	}
	return found
}

// openGate returns when a process is about to open the FIFO for reading.
func openGate(t *testing.T, path string) *os.File {
	t.Helper()
	var w *os.File
	testkit.Until(t, "a server that is up", func() bool {
		var err error
		if w, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0); err != nil && !errors.Is(err, syscall.ENXIO) {
			t.Fatal(err)
		}
		return err == nil
	})
	return w
}

// environment has what the Go runtime reads, too: what people set for a server written in Go is meant for that server.
func environment(s *session) []string {
	return []string{"XDG_RUNTIME_DIR=" + s.Runtime, "EMPTY=", "GOMAXPROCS=-3", "GODEBUG=,,=,x", "GOGC=1", "GOTRACEBACK=please", "GOMEMLIMIT=1"}
}

// look reads the state of a process. Names that differ from one session to the next are made equal.
func look(t *testing.T, pid int, s *session) inheritance {
	t.Helper()
	proc := fmt.Sprintf("/proc/%d/", pid)
	in := inheritance{}
	for _, file := range []string{"limits", "oom_score_adj", "coredump_filter", "personality", "timerslack_ns", "autogroup"} {
		if b, err := os.ReadFile(proc + file); err == nil {
			in[file] = string(b)
		}
	}
	delete(in, "autogroup") // belongs to the session, which is ours to make
	cwd, err := os.Readlink(proc + "cwd")
	s.ok(err)
	in["cwd"] = cwd
	env, err := os.ReadFile(proc + "environ")
	s.ok(err)
	entries := strings.SplitAfter(strings.ReplaceAll(string(env), s.Dir, "DIR"), "\x00")
	slices.Sort(entries)
	in["environ"] = strings.Join(entries, "")
	in.readStatus(t, proc)
	in.readFiles(t, proc, s)
	return in
}

// statusFields are the lines of status that a parent decides on.
var statusFields = []string{
	"Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
	"NoNewPrivs", "Seccomp", "Cpus_allowed", "Mems_allowed", "THP_enabled",
}

func (in inheritance) readStatus(t *testing.T, proc string) {
	t.Helper()
	status, err := os.ReadFile(proc + "status")
	ok(t, err)
	for line := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); slices.Contains(statusFields, name) {
			in[name] = strings.TrimSpace(value)
		}
	}
	stat, err := os.ReadFile(proc + "stat")
	ok(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	in["nice"], in["priority"], in["policy"] = fields[16], fields[15], fields[38]
}

func (in inheritance) readFiles(t *testing.T, proc string, s *session) {
	t.Helper()
	files, err := os.ReadDir(proc + "fd")
	ok(t, err)
	for _, f := range files {
		target, err := os.Readlink(proc + "fd/" + f.Name())
		ok(t, err)
		kind, _, numbered := strings.Cut(target, ":[")
		if numbered {
			target = kind
		}
		info, err := os.ReadFile(proc + "fdinfo/" + f.Name())
		ok(t, err)
		head, _, _ := strings.Cut(string(info), "mnt_id") // pos and flags
		in["fd "+f.Name()] = strings.ReplaceAll(target, s.Dir, "DIR") + " " + head
	}
}

// wantMarks expects the two variables, and takes them out.
func (in inheritance) wantMarks(t *testing.T) {
	t.Helper()
	marks := map[string]int{"MCP_TETHER_SESSION": 0, "MCP_TETHER_GATEWAY": 0}
	var rest strings.Builder
	for entry := range strings.SplitAfterSeq(in["environ"], "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		if _, ours := marks[name]; ours && len(value) > 1 {
			marks[name]++
			continue
		}
		rest.WriteString(entry)
	}
	in["environ"] = rest.String()
	for name, n := range marks {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
}
