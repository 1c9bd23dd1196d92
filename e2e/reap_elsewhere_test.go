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
