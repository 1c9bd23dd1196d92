package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// A pass of root's is made in a child for each user. What the user has this child start has nothing of root's, and does
// not outlive it. For root's own record the same command has all of it: the control.
func TestReapChildHasNothingOfRoot(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const secret = "mcp-tether-secret-of-root"
	// The child looks for commands where no caller can say, so they must be there.
	ok(t, unix.Mount("none", "/usr/local/sbin", "tmpfs", 0, "mode=755"))
	testkit.WriteProgram(t, "/usr/local/sbin/docker", []byte(`#!/bin/sh
cd /tmp/seen-$(id -u) || exit 1
exec 2>errors
cat /proc/keys >keys
cat /proc/self/cgroup >cgroup
cat /proc/self/limits >limits
n=0
while [ $n -lt 5 ]; do n=$((n + 1)); setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >>left; done
exit 1
`))
	for _, user := range []int{mallory, 0} {
		seen := fmt.Sprint("/tmp/seen-", user)
		ownDir(t, user, seen)
		victim := startInnocent(t, user)
		forge(t, user, dirOf(user), func(p *page) { p.Engine = "ssh://mallory@localhost" }, victim.pid)
		cmd := operator.command("reap", "--kill", "--term-grace=200ms", "--timeout=20s")
		cmd.Env = append(cmd.Env, "PATH=/usr/local/sbin:/usr/bin:/bin")
		o := runWithKey(t, cmd, secret)
		read := func(name string) string {
			b, err := os.ReadFile(filepath.Join(seen, name))
			if err != nil {
				t.Fatalf("the command of user %d has not run: %v; %s", user, err, o.stderr)
			}
			return strings.TrimSpace(string(b))
		}
		own, err := os.ReadFile("/proc/self/cgroup")
		ok(t, err)
		limits := regexp.MustCompile(`Max processes +(\d+)`).FindStringSubmatch(read("limits"))
		var roots unix.Rlimit
		ok(t, unix.Getrlimit(unix.RLIMIT_NPROC, &roots))
		for what, is := range map[string]bool{
			"key":    strings.Contains(read("keys"), secret),
			"cgroup": !nestable() || read("cgroup") == strings.TrimSpace(string(own)),
			"limit":  limits == nil || limits[1] == fmt.Sprint(roots.Max), // it may be "unlimited"
		} {
			if is != (user == 0) && (what != "cgroup" || nestable()) {
				t.Errorf("user %d has root's %s: %v", user, what, is)
			}
		}
		left := 0
		for pid := range strings.FieldsSeq(read("left")) {
			if n := number(t, pid); state(n) != "" && state(n) != "Z" {
				left++
				ok(t, syscall.Kill(n, syscall.SIGKILL))
			}
		}
		if nestable() && (left > 0) != (user == 0) {
			t.Errorf("of user %d, %d processes are left", user, left)
		}
		_ = os.RemoveAll(dirOf(user))
	}
	for _, dir := range rooms(t) {
		t.Errorf("left: %s", dir)
	}
}

// rooms are the cgroups of root's children for users.
func rooms(t *testing.T) []string {
	t.Helper()
	own, err := testkit.OwnCgroup()
	if err != nil {
		return nil
	}
	found, err := filepath.Glob(own + "/mcp-tether.as.*")
	ok(t, err)
	return found
}

// runWithKey runs a command with a session keyring that has a key.
func runWithKey(t *testing.T, cmd *exec.Cmd, name string) (o outcome) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The keyring is the thread's, which ends with it.
		runtime.LockOSThread()
		if _, err := unix.KeyctlJoinSessionKeyring("mcp-tether-e2e"); err != nil {
			t.Error(err)
			return
		}
		if _, err := unix.AddKey("user", name, []byte("x"), unix.KEY_SPEC_SESSION_KEYRING); err != nil {
			t.Error(err)
			return
		}
		o = finish(t, cmd)
	}()
	<-done
	return o
}

// A user stops every process of its own as soon as there is one, also root's children that become this user. That costs
// the user's findings only: neither ps nor a pass hangs, and what is left of others is ended.
func TestReapChildThatIsStopped(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	homeOf(t, 0, mallory, nobody)
	own, theirs, hers := startInnocent(t, 0), startInnocent(t, nobody), startInnocent(t, mallory)
	outgrow(t)
	forge(t, 0, dirOf(0), nil, own.pid)
	forge(t, nobody, dirOf(nobody), func(p *page) { p.ID = "fedcba9876543210" }, theirs.pid)
	forge(t, mallory, malloryDir, func(p *page) { p.ID = "aaaabbbbccccdddd" }, hers.pid)
	// kill(2) spares the one that calls it.
	spinner := exec.Command("/bin/sh", "-c", "while :; do kill -STOP -1; done")
	spinner.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mallory, Gid: mallory}}
	ok(t, spinner.Start())
	defer func() { _ = spinner.Process.Kill(); _ = spinner.Wait() }()
	testkit.Until(t, "a spinner", func() bool { return state(hers.pid) == "T" })
	// A child that is quick enough is not stopped, and few are in the midst of their start.
	const late = "user u1666: it did not end in time"
	hits := 0
	for range 15 {
		o, took := inTime(t, operator.command("reap", "--timeout=1s"), 20*time.Second)
		if strings.Contains(o.stderr, late) {
			hits++
		}
		if o.code == 2 && !strings.Contains(o.stderr, late) || o.code < 0 {
			t.Errorf("reap after %v: exit code %d, %s", took, o.code, o.stderr)
		}
	}
	if hits == 0 {
		t.Error("no child was stopped: this tests nothing")
	}
	if o, took := inTime(t, operator.command("ps"), 20*time.Second); o.code != 0 && !strings.Contains(o.stderr, late) {
		t.Errorf("ps after %v: exit code %d, %s", took, o.code, o.stderr)
	}
	o, took := inTime(t, operator.command("reap", "--kill", "--term-grace=200ms", "--timeout=8s"), 20*time.Second)
	stopped := strings.Contains(o.stderr, late)
	if stopped && o.code != 2 || !stopped && o.code != 0 {
		t.Errorf("reap after %v: exit code %d, %s", took, o.code, o.stderr)
	}
	for _, v := range []innocent{own, theirs} {
		if v.answers() == nil {
			t.Errorf("what is left of others lives (pid %d)", v.pid)
		}
	}
	// The control: nothing but the spinner kept mallory's own from being ended. A child that was stopped late may have ended it.
	ok(t, spinner.Process.Kill())
	_ = spinner.Wait()
	_ = syscall.Kill(hers.pid, syscall.SIGCONT)
	if o := operator.run(t, "reap", "--kill", "--term-grace=200ms"); o.code != 0 || hers.answers() == nil {
		t.Errorf("without the spinner: exit code %d, %s", o.code, o.stderr)
	}
	for _, dir := range rooms(t) {
		t.Errorf("left: %s", dir)
	}
}

// inTime runs a command, and kills it when it does not end.
func inTime(t *testing.T, cmd *exec.Cmd, limit time.Duration) (o outcome, took time.Duration) {
	t.Helper()
	began := time.Now()
	cmd.WaitDelay = time.Second // what it has forked may hold its output
	gone := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer gone.Stop()
	o = finish(t, cmd)
	return o, time.Since(began)
}
