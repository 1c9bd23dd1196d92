package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// From cron it is silent when there is nothing.
func TestReapSilent(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, args := range [][]string{nil, {"--kill"}, {"--kill", "--unwrapped", "--quiet"}, {"--match=no such server"}} {
		for _, c := range []caller{operator, {uid: nobody}, {runtime: "/nonexistent"}, {runtime: "relative"}} {
			if o := c.run(t, append([]string{"reap"}, args...)...); o.code != 0 || o.stdout != "" || o.stderr != "" {
				t.Errorf("%+v, %q: exit code %d, %q, %q", c, args, o.code, o.stdout, o.stderr)
			}
		}
	}
	if r := operator.reap(t, 0); r.Findings == nil || r.Warnings == nil {
		t.Errorf("no lists in %s", r.stdout)
	}
}

// A wrong command line is answered with the reason, and nothing is done.
func TestReapMistakes(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := dead(t)
	broken := filepath.Join(t.TempDir(), "broken.json")
	if err := os.WriteFile(broken, []byte(`{"mcpServers":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"everything"}, {"--match=("}, {"--config=/nonexistent"}, {"--config=" + broken}, {"--term-grace=soon"}, {"--term-grace=-1s"},
		{"--min-age=-1s"}, {"--timeout=0s"}, {"--surplus=0"}, {"--no-such-flag"},
		{"--session="}, {"--session=" + s.id()[:4]}, {"--session=no-session-has-this"},
		{"--unwrapped", "--dwell=1m"}, {"--unwrapped", "--timeout=10s"}, {"--unwrapped", "--timeout=15s"},
		{"--unwrapped", "--dwell=0s", "--timeout=20s", "--kill-timeout=19s"},
	} {
		o := operator.run(t, append([]string{"reap", "--kill"}, args...)...)
		if o.code != 2 || !strings.HasPrefix(o.stderr, "mcp-tether: ") || o.stdout != "" {
			t.Errorf("%q: exit code %d, %q, %q", args, o.code, o.stdout, o.stderr)
		}
	}
	if len(s.members()) == 0 {
		t.Error("something was ended")
	}
	operator.reap(t, 0, "--kill")
	s.swept()
}

// dead is a session whose wrappers were killed, with a member that the kernel does not end with them.
func dead(t *testing.T) *session {
	t.Helper()
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.spawn(setup{flags: polite("--name=files\x1b[2J")}, node(s.dir, "serve", "daemon", "setsid")...)
	s.waitReady()
	s.ids = []string{s.ownRecord()}
	server := s.record(s.ids[0]).Server.PID
	killPair(t, s.pid)
	awaitExit(t, server) // by its death signal
	return s
}

// The same finding in each form. None of them ends anything without --kill.
func TestReapForms(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := dead(t)
	text := operator.run(t, "reap")
	row := regexp.MustCompile(`(?m)^record +\d+ +2 +\d+s +\S+[KM] +root +` + strconv.Itoa(s.gw.pid) + ` \(alive\) +listed +\S*fixture node`)
	if text.code != 1 || !row.MatchString(text.stdout) || !strings.Contains(text.stdout, "mcp-tether reap --kill") ||
		strings.ContainsAny(text.stdout+text.stderr, "\x1b\r\x07") {
		t.Errorf("exit code %d, want %v and what to do, no escapes:\n%q\n%q", text.code, row, text.stdout, text.stderr)
	}
	if o := operator.run(t, "reap", "--quiet"); o.code != 1 || o.stdout != "" {
		t.Errorf("quiet: exit code %d, %q", o.code, o.stdout)
	}
	r := operator.reap(t, 1)
	if f := r.Findings[0]; r.classes() != "record" || f.Session != s.id() || len(f.Members) != 2 || f.User != "root" ||
		f.AgeSeconds == nil || *f.MemoryBytes == 0 || f.Gateway.PID != s.gw.pid || f.Gateway.State != "alive" || f.Result != "listed" || r.Killed {
		t.Errorf("%s", r.stdout)
	}
	if r := operator.reap(t, 0, "--kill", "--min-age=1h"); len(r.Findings) > 0 {
		t.Errorf("older than an hour: %v", r.Findings)
	}
	if r := operator.reap(t, 0, "--kill", "--session=0123456789abcdef"); len(r.Findings) > 0 {
		t.Errorf("another session: %v", r.Findings)
	}
	if n := len(s.members()); n != 2 {
		t.Errorf("%d processes are left, want both", n)
	}
	if r := operator.reap(t, 0, "--kill", "--session="+s.id()); r.classes() != "record" || !r.Killed || r.Findings[0].Result != "ended" {
		t.Errorf("this session: %v", r.Findings)
	}
	s.swept()
}

// Only the session that was asked for is ended.
func TestReapOneSession(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	one, other := dead(t), dead(t)
	operator.reap(t, 0, "--kill", "--session="+one.id())
	one.waitDead()
	if n := len(other.members()); n != 2 {
		t.Errorf("%d processes of the other are left, want both", n)
	}
	operator.reap(t, 0, "--kill")
	other.swept()
}

// A member that became another user's is that user's, however it is marked.
func TestReapSparesMemberOfAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	name := setuidCopy(t)
	s := startGatewayAs(t, nobody).newSession()
	s.shareRuntime()
	s.spawn(setup{flags: resisting("--cgroup=off")}, node(s.dir, "serve", "daemon", "setsid/setsid,setuid,comm="+name)...)
	s.waitReady()
	killPair(t, s.pid)
	for _, c := range []caller{s.as(), operator} {
		o := c.run(t, "reap", "--kill", "--json", "--term-grace=100ms", "--kill-timeout=100ms")
		t.Logf("uid %d: exit code %d\n%s", c.uid, o.code, o.stdout)
		// What was killed ends when it gets a processor.
		awaitTrue(t, "the others to end", func() bool { return len(s.members()) <= 1 })
		if left := s.members(); len(left) != 1 {
			t.Errorf("after the sweep of %d: left %v, want the one of root", c.uid, left)
		}
	}
	s.endAll()
}

var metric = regexp.MustCompile(`^(# (HELP|TYPE) mcp_tether_\w+ .+|mcp_tether_\w+(\{class="\w+"\})? \d+)$`)

func TestReapMetrics(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := dead(t)
	file := filepath.Join(t.TempDir(), "mcp.prom")
	wantMetrics := func(lines ...string) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if !metric.MatchString(strings.TrimSuffix(line, "\n")) {
				t.Errorf("odd line %q", line)
			}
		}
		for _, line := range lines {
			if !strings.Contains(string(b), line+"\n") {
				t.Errorf("want %q in\n%s", line, b)
			}
		}
	}
	operator.reap(t, 1, "--metrics-file="+file)
	wantMetrics(`mcp_tether_findings{class="record"} 1`, `mcp_tether_processes{class="record"} 2`, "mcp_tether_ended 0")
	operator.reap(t, 0, "--kill", "--metrics-file="+file)
	wantMetrics(`mcp_tether_findings{class="record"} 0`, `mcp_tether_processes{class="record"} 0`, "mcp_tether_ended 1")
	operator.reap(t, 0, "--metrics-file="+file)
	wantMetrics(`mcp_tether_findings{class="suspect"} 0`, "mcp_tether_ended 0")
	if others, _ := os.ReadDir(filepath.Dir(file)); len(others) != 1 {
		t.Errorf("beside the file: %v", others)
	}
	s.swept()
}

// A full disk keeps neither records from being swept nor the last metrics from being read.
func TestReapOnFullDisk(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const metrics = "/run/metrics"
	if err := os.Mkdir(metrics, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"/run", metrics} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755,size=64k"); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(metrics, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := dead(t)
	const file = metrics + "/mcp.prom"
	operator.reap(t, 1, "--metrics-file="+file)
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

// Runtime directories that are missing, or others', are passed over.
func TestReapOddRuntimes(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	base := t.TempDir()
	for name, make := range map[string]func(dir string) error{
		"missing":          func(string) error { return nil },
		"of another user":  func(dir string) error { return makeRuntime(dir, nobody, 0o700) },
		"open to all":      func(dir string) error { return makeRuntime(dir, 0, 0o777) },
		"a file":           func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a link":           func(dir string) error { return os.Symlink("/run", dir) },
		"link to nowhere":  func(dir string) error { return os.Symlink("/run/nowhere", dir) },
		"records are file": recordsFile,
	} {
		s := dead(t)
		dir := filepath.Join(base, name)
		if err := make(dir); err != nil {
			t.Fatal(err)
		}
		if o := (caller{runtime: dir}).run(t, "reap", "--kill", "--json", "--term-grace=300ms"); o.code != 0 {
			t.Errorf("%s: exit code %d, %s%s", name, o.code, o.stdout, o.stderr)
		}
		s.waitDead()
		if left := s.records(); len(left) > 0 {
			t.Errorf("%s: records left: %v", name, left)
		}
	}
}

func makeRuntime(dir string, user int, mode os.FileMode) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, mode); err != nil {
		return err
	}
	return os.Chown(dir, user, user)
}

func recordsFile(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(dir+"/mcp-tether", nil, 0o600)
}
