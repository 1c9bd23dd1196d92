package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A host with several users, each with a file system of their own as runtime directory, as login managers mount it. Each of
// these numbers its files from the same number on.
func TestReapEachUserWithAFileSystem(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	ok(t, os.MkdirAll("/run/user", 0o755))
	var all []innocent
	inodes := map[uint64]int{}
	for _, user := range []int{nobody, mallory, 1667} {
		dir := fmt.Sprint("/run/user/", user)
		ok(t, os.Mkdir(dir, 0o700))
		ok(t, unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("mode=700,uid=%d,gid=%d", user, user)))
		victim := startInnocent(t, user)
		outgrow(t)
		forge(t, user, dir+"/mcp-tether", nil, victim.pid)
		var st unix.Stat_t
		ok(t, unix.Stat(dir+"/mcp-tether", &st))
		inodes[st.Ino]++
		all = append(all, victim)
	}
	if len(inodes) == len(all) {
		t.Errorf("the directories have numbers of their own, %v: this tests nothing", inodes)
	}
	if r := operator.reap(t, 1); r.classes() != "record record record" {
		t.Errorf("found %v", r.Findings)
	}
	operator.reap(t, 0, "--kill")
	for _, victim := range all {
		if victim.answers() == nil {
			t.Errorf("pid %d lives", victim.pid)
		}
	}
}

// Whatever is met, a pass ends in time and says that it did.
func TestReapTimeout(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	l, err := net.Listen("unix", "/tmp/hangs")
	ok(t, err)
	defer l.Close()
	began := time.Now()
	slow := caller{env: []string{"DOCKER_HOST=unix:///tmp/hangs"}}
	// An answer that never comes is waited for no longer than that; a busy machine adds to it. Without the limit the pass would
	// take as long as the engine likes.
	if o := slow.run(t, "reap", "--timeout=300ms"); o.code != 2 || !strings.Contains(o.stderr, "gave up after 300ms") || time.Since(began) > testkit.Patience/2 {
		t.Errorf("exit code %d after %v: %s", o.code, time.Since(began), o.stderr)
	}
	if o := operator.run(t, "reap", "--timeout=20s"); o.code != 0 { // the control
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
}

// A client of an engine that lost its gateway is ended. Its container may live on, which the report and the exit code
// say. The same command under another name is the control.
func TestReapSeveredClient(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	sh, err := os.ReadFile("/bin/sh")
	ok(t, err)
	for name, code := range map[string]int{"docker": 1, "other": 0} {
		program := filepath.Join(t.TempDir(), name)
		testkit.WriteProgram(t, program, sh)
		pid := orphan(t, program, "-c", "echo up; while :; do sleep 1; done", "run", "-i", "mcp/fetch")
		outgrow(t)
		r := operator.reap(t, code, "--kill", "--unwrapped", "--match=mcp/fetch")
		if lives := unix.Kill(pid, 0) == nil && stage.Describe(pid).State != "Z"; lives || r.classes() != "severed" {
			t.Errorf("%s: lives: %v, found %v", name, lives, r.Findings)
		}
		if told := strings.Contains(r.stdout, "the container may be there"); told != (code == 1) {
			t.Errorf("%s: %s", name, r.stdout)
		}
	}
}

// Names are not users: only a directory that belongs to its user counts.
func TestReapManyNames(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const many = 50
	for n := range many {
		ok(t, os.WriteFile(dirOf(65_000+n), nil, 0o600))
		ok(t, os.Symlink("/run", dirOf(66_000+n)))
	}
	wantStrangerServed(t)
	if o := operator.run(t, "ps"); o.code != 0 || strings.Contains(o.stderr, "not looked after") {
		t.Errorf("ps: exit code %d, %s", o.code, o.stderr)
	}
}

// wantStrangerServed expects that root ends a dead session of a user with a high number whom no list names.
func wantStrangerServed(t *testing.T) {
	t.Helper()
	const stranger = 3_000_000
	victim := startInnocent(t, stranger)
	outgrow(t)
	forge(t, stranger, dirOf(stranger), nil, victim.pid)
	r := operator.reap(t, -1, "--kill")
	if r.classes() != "record" || r.Findings[0].Result != "ended" || len(r.Warnings) > 0 || len(r.Incomplete) > 0 {
		t.Errorf("found %v, warnings %v, incomplete %v", r.Findings, r.Warnings, r.Incomplete)
	}
	if victim.answers() == nil {
		t.Error("a process of a dead session lives")
	}
}
