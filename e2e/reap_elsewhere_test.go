package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A pass from where it does not see everything: from a container, behind a /proc that hides others, or as a user in no list.

// In a container that shares /run, the host's records are no evidence: their numbers mean other processes there, and the cgroups that
// they name may not be in sight.
func TestReapInAContainerThatSharesRun(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const firstPIDNamespace = 0xEFFFFFFC // PROC_PID_INIT_INO
	for name, c := range map[string]struct {
		pidns   uint64
		classes string
		left    int
	}{
		"of the host":    {firstPIDNamespace, "suspect", 1},
		"of a container": {firstPIDNamespace + 100, "record", 0}, // the control
	} {
		victim := startInnocent(t, 0)
		outgrow(t)
		forge(t, 0, "/run/mcp-tether", func(p *page) { p.Host.PIDNS, p.Cgroup = c.pidns, "/sys/fs/cgroup/user.slice/mcp-tether-"+anID }, victim.pid)
		cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", tether, "reap", "--kill", "--unwrapped", "--json")
		cmd.Env = operator.command().Env
		r := parseSweep(t, c.left, finish(t, cmd))
		left, _ := filepath.Glob("/run/mcp-tether/" + anID + ".json")
		if r.classes() != c.classes || len(left) != c.left {
			t.Errorf("%s: found %v, left %v", name, r.Findings, left)
		}
		if c.left > 0 && !strings.Contains(r.Findings[0].Advice, "run mcp-tether reap in that namespace") {
			t.Errorf("%s: advice %q", name, r.Findings[0].Advice)
		}
		victim.wantAlive(t, name)
		_ = os.RemoveAll("/run/mcp-tether")
	}
}

// In a container with the host's pid namespace and a /run of its own, the processes of living sessions are in sight, and their
// records are not. The control is the same session when nobody is left to end it.
func TestReapInAContainerThatSharesProcesses(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: polite("--cgroup=off")}, node(s.Dir, "serve", "daemon", "setsid")...)
	s.WaitReady()
	outgrow(t)
	inside := func(code int) sweep {
		script := `mount --make-rprivate / && mount -t tmpfs own /run && exec "$@"`
		cmd := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", tether, "reap", "--kill", "--unwrapped", "--json")
		cmd.Env = operator.command().Env
		return parseSweep(t, code, finish(t, cmd))
	}
	before := len(s.Members())
	if r := inside(0); len(r.Findings) > 0 || len(s.Members()) != before {
		t.Errorf("found %v, and of %d processes there are %v", r.Findings, before, s.Members())
	}
	s.gw.killWithAnchor(t, s.PID)
	outgrow(t)
	if r := inside(0); r.classes() != "mark" {
		t.Errorf("control: found %v", r.Findings)
	}
	s.WaitDead()
}

// Where /proc hides the processes of others, a gateway of another user is not to be seen, which does not make it dead. What a record
// proves is ended: the control.
func TestReapWithHiddenProcesses(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	ok(t, unix.Mount("proc", "/proc", "proc", unix.MS_REMOUNT, "hidepid=2"))
	gateway, h := markOf(t, startInnocent(t, 0).pid), here(t)
	cmd := exec.Command("/bin/cat")
	cmd.Env = []string{"MCP_TETHER_SESSION=" + anID, fmt.Sprintf("MCP_TETHER_GATEWAY=%d:%d:%s:%d", gateway.PID, gateway.Start, h.Boot, h.PIDNS)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	in, err := cmd.StdinPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	leftover := startInnocent(t, nobody)
	outgrow(t)
	forge(t, nobody, theirDir, func(p *page) { p.ID = "00000000000000aa" }, leftover.pid)
	r := caller{uid: nobody}.reap(t, -1, "--kill", "--unwrapped")
	if now := state(cmd.Process.Pid); now == "Z" || now == "" {
		t.Errorf("what has a living gateway was ended: %v", r.Findings)
	}
	if leftover.answers() == nil {
		t.Errorf("what is left of a recorded session lives: %v, %q", r.Findings, r.Incomplete)
	}
}

// A user in no list of this machine, as where LDAP does not answer, has no name, and may have no home.
func TestReapAsAUserInNoList(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const user = 54321
	for name, env := range map[string][]string{"without a home": {"HOME="}, "with a home": {"HOME=" + t.TempDir()}} {
		who := caller{uid: user, env: append(env, "XDG_STATE_HOME=")}
		victim, other := startInnocent(t, user), startInnocent(t, 0)
		outgrow(t)
		forge(t, user, dirOf(user), nil, victim.pid)
		forge(t, user, dirOf(user), func(p *page) { p.ID = "00000000000000aa" }, other.pid)
		r := who.reap(t, 0, "--kill")
		if victim.answers() == nil || len(r.Incomplete) > 0 {
			t.Errorf("%s: what is left lives: %v %v", name, r.Findings, r.Incomplete)
		}
		other.wantAlive(t, name)
		if o := who.run(t, "ps"); o.code != 0 {
			t.Errorf("%s: ps: %+v", name, o)
		}
		o := who.run(t, "wrap", "--dry-run")
		if told := strings.Contains(o.stderr, "name the files"); o.code != 0 && !told || strings.Contains(o.stderr, "panic") {
			t.Errorf("%s: wrap: %+v", name, o)
		}
	}
}

// What a user writes costs root's pass a bounded time: records that are FIFOs or huge, and very many of them. Somebody else's dead
// session is ended all the same. The control is what the report says of that user.
func TestReapInSpiteOfAUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	ownDir(t, mallory, malloryDir)
	fifo, vast := filepath.Join(malloryDir, "00000000000000aa.json"), filepath.Join(malloryDir, "00000000000000bb.json")
	ok(t, unix.Mkfifo(fifo, 0o600))
	ok(t, os.Chown(fifo, mallory, mallory))
	put(t, mallory, vast, nil)
	ok(t, os.Truncate(vast, 1<<30))
	leftover := startInnocent(t, nobody)
	outgrow(t)
	forge(t, nobody, theirDir, nil, leftover.pid)
	most := "--timeout=" + mostReap.String()
	r := operator.reap(t, 2, "--kill", most)
	gaveUp(t, r.outcome)
	for _, want := range []string{"aa.json", "bb.json"} {
		if !strings.Contains(strings.Join(r.Incomplete, "\n"), want) {
			t.Errorf("%s is not told of: %q", want, r.Incomplete)
		}
	}
	if leftover.answers() == nil {
		t.Error("what is left of another user lives")
	}
	leftover = startInnocent(t, nobody)
	outgrow(t)
	forge(t, nobody, theirDir, nil, leftover.pid)
	for n := range 100_000 {
		n += 1 << 10
		ok(t, os.Symlink("x", fmt.Sprintf("%s/%016x.json", malloryDir, n)))
		ok(t, os.Symlink("x", fmt.Sprintf("/tmp/mcp-tether-%d", 1_000_000+n)))
	}
	o := operator.run(t, "reap", "--kill", most)
	gaveUp(t, o)
	if leftover.answers() == nil || o.code != 2 || !strings.Contains(o.stderr, fmt.Sprint("not complete: user ", mallory)) {
		t.Errorf("exit code %d: %.2000s", o.code, o.stderr)
	}
}
