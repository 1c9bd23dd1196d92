package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// The units of scripts/packaging/ under the systemd of this machine, which scripts/systemd starts as the first process of its own
// namespaces. The binary is where packages put it, and the units are as they are shown.

// booted is that systemd.
type booted struct {
	t   *testing.T
	pid int // of its first process
}

// agentID is the user of the gateway's unit, who is not on this machine.
const agentID = 990

// A gateway that has its servers started by a process of its own, and a server of which something detaches itself.
const (
	unitGateway = "#!/bin/sh\n" + `sh -c 'sleep 4710 | mcp-tether run --cgroup=require --term-grace 300ms -- sh -c "setsid sleep 4711 & exec sleep 4712"; exec sleep 1' &
exec sleep 4713
`
	unitServer = "#!/bin/sh\nsetsid sleep 4721 </dev/null >/dev/null 2>&1 &\nexec cat\n"
)

func boot(t *testing.T) *booted {
	t.Helper()
	_, err := stage.WritableCgroup()
	testkit.Lacks(t, testkit.Systemd, !(os.Geteuid() == 0 && err == nil && has("/lib/systemd/systemd")), "root, a cgroup v2 that can be written, and systemd")
	files := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		name = filepath.Join(files, name)
		ok(t, os.MkdirAll(filepath.Dir(name), 0o755))
		ok(t, os.WriteFile(name, []byte(text), mode))
	}
	read := func(name string) string {
		b, err := os.ReadFile(name)
		ok(t, err)
		return string(b)
	}
	put("usr/bin/mcp-tether", read(tether), 0o755)
	put("usr/bin/npx", unitServer, 0o755)
	put("usr/local/bin/my-gateway", unitGateway, 0o755)
	put("etc/passwd", read("/etc/passwd")+fmt.Sprintf("agent:x:%d:%[1]d::/var/lib/agent:/bin/sh\n", agentID), 0o644)
	put("etc/group", read("/etc/group")+fmt.Sprintf("agent:x:%d:\n", agentID), 0o644)
	put("etc/shadow", read("/etc/shadow")+"agent:*:20000:0:99999:7:::\n", 0o640)
	ok(t, os.MkdirAll(filepath.Join(files, "var/lib/agent"), 0o755))
	ok(t, os.Chown(filepath.Join(files, "var/lib/agent"), agentID, agentID))
	// The managers of users do without PAM and logind here, and nothing without a bus needs one.
	for _, masked := range []string{"dbus.socket", "dbus.service", "systemd-logind.service"} {
		put("etc/systemd/system/"+masked, "", 0o644)
	}
	put("etc/systemd/system/user@.service.d/alone.conf", "[Service]\nPAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n", 0o644)
	put("etc/systemd/system/user-runtime-dir@.service.d/alone.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/install -d -m 700 -o %i -g %i /run/user/%i\n", 0o644)
	for dir, to := range map[string][]string{
		"systemd": {"usr/lib/systemd/system", "usr/lib/systemd/user"}, "examples": {"etc/systemd/system"},
	} {
		units, err := filepath.Glob("../scripts/packaging/" + dir + "/*.[st]*")
		ok(t, err)
		for _, unit := range units {
			for _, place := range to {
				put(filepath.Join(place, filepath.Base(unit)), read(unit), 0o644)
			}
		}
	}
	cmd := exec.Command("../scripts/systemd", files)
	var says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &says, &says
	ok(t, cmd.Start())
	b := &booted{t: t}
	t.Cleanup(func() {
		b.end(cmd)
		if t.Failed() {
			t.Logf("%s", says.String())
		}
	})
	testkit.Until(t, "systemd", func() bool { b.pid = systemdBelow(cmd.Process.Pid); return b.pid > 0 })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", b.run("journalctl", "--no-pager", "-n", "60").stdout)
		}
	})
	testkit.Until(t, "the end of the boot", func() bool { return b.run("systemctl", "is-active", "basic.target").code == 0 })
	return b
}

// end ends systemd, or what was to become it, and waits for the script, which cleans up.
func (b *booted) end(cmd *exec.Cmd) {
	first := []int{b.pid}
	if b.pid == 0 {
		first = childrenOf(cmd.Process.Pid)
	}
	// All processes end with it.
	for _, pid := range first {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	late := time.AfterFunc(testkit.Patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	_ = cmd.Wait()
}

// systemdBelow is a descendant that is systemd; 0 if there is none yet.
func systemdBelow(pid int) int {
	for _, p := range stage.Below(pid) {
		if exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID)); strings.HasSuffix(exe, "/lib/systemd/systemd") {
			return p.PID
		}
	}
	return 0
}

// run runs a command in the namespaces of that system.
func (b *booted) run(argv ...string) outcome {
	b.t.Helper()
	return finish(b.t, b.command(argv...))
}

func (b *booted) command(argv ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(b.pid), "--pid", "--mount", "--cgroup", "--net", "--uts", "--ipc", "--", "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	return exec.Command("nsenter", append(enter, argv...)...)
}

// must runs a command that must not fail.
func (b *booted) must(argv ...string) string {
	b.t.Helper()
	o := b.run(argv...)
	if o.code != 0 {
		b.t.Fatalf("%v: %+v", argv, o)
	}
	return strings.TrimSpace(o.stdout)
}

// path is a file of that system.
func (b *booted) path(name string) string { return fmt.Sprintf("/proc/%d/root%s", b.pid, name) }

// has tells whether a process runs with this command line there.
func (b *booted) has(words ...string) bool {
	all, _ := filepath.Glob(b.path("/proc/[0-9]*/cmdline"))
	for _, f := range all {
		if line, _ := os.ReadFile(f); string(line) == strings.Join(words, "\x00")+"\x00" {
			return true
		}
	}
	return false
}

// session is the record of the only session in a directory of records there.
func (b *booted) session(dir string) (r struct {
	Anchor, Supervisor, Server, Parent mark
	Cgroup                             string
},
) {
	b.t.Helper()
	testkit.Until(b.t, "a record in "+dir, func() bool {
		all, _ := filepath.Glob(b.path(dir + "/*.json"))
		if len(all) != 1 {
			return false
		}
		text, _ := os.ReadFile(all[0])
		return json.Unmarshal(text, &r) == nil && r.Server.PID > 0
	})
	return r
}

// manager is a systemd that looks after units: that of the system, or of a user.
type manager struct {
	prefix        []string // of its commands
	runtime, home string   // where its sessions are, and drop-ins for its units
}

func TestUnitsUnderSystemd(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	b := boot(t)
	// The gateway's first: the user's manager makes a runtime directory, and records would be there.
	t.Run("gateway", func(t *testing.T) { b.of(t).gateway() })
	t.Run("server", func(t *testing.T) { b.of(t).server() })
	t.Run("timer", func(t *testing.T) { b.of(t).timers() })
}

// of is the same system for a part of the test.
func (b *booted) of(t *testing.T) *booted { return &booted{t: t, pid: b.pid} }

func (b *booted) timers() {
	t := b.t
	b.must("systemctl", "start", fmt.Sprintf("user@%d.service", agentID))
	user := fmt.Sprintf("/run/user/%d", agentID)
	id := strconv.Itoa(agentID)
	for name, m := range map[string]manager{
		"system": {nil, "/run", "/run/systemd/system"},
		"user": {
			[]string{"setpriv", "--reuid", id, "--regid", id, "--clear-groups", "env", "XDG_RUNTIME_DIR=" + user}, user, user + "/systemd/user",
		},
	} {
		t.Run(name, func(t *testing.T) { b.of(t).sweeps(m) })
	}
}

// sweeps has a service leave something behind, and the timer end it.
func (b *booted) sweeps(m manager) {
	t := b.t
	ctl := func(words ...string) string {
		t.Helper()
		argv := append(append([]string{}, m.prefix...), words[0])
		if m.prefix != nil {
			argv = append(argv, "--user")
		}
		return b.must(append(argv, words[1:]...)...)
	}
	// Only the first process of this unit is ended with it. So it is with a gateway whose unit says so, or that is no
	// unit.
	ctl("systemd-run", "--unit=leaky", "-p", "KillMode=process", "-p", "SendSIGKILL=no", "mcp-tether", "run", "--", "sh", "-c", "setsid sleep 4701 & exec sleep 4702")
	testkit.Until(t, "the server", func() bool { return b.has("sleep", "4701") && b.has("sleep", "4702") })
	s := b.session(m.runtime + "/mcp-tether")
	// Stopped first, so that neither sees the other's end.
	both := []string{strconv.Itoa(s.Anchor.PID), strconv.Itoa(s.Supervisor.PID)}
	b.must(append([]string{"kill", "-STOP"}, both...)...)
	b.must(append([]string{"kill", "-KILL"}, both...)...)
	testkit.Until(t, "the end of the server", func() bool { return !b.has("sleep", "4702") })
	settle(t)
	if !b.has("sleep", "4701") {
		t.Fatal("nothing is left: the test shows nothing")
	}
	// As it is shown, it waits for five minutes.
	ctl("systemctl", "start", "mcp-tether-reap.timer")
	if says := ctl("systemctl", "show", "mcp-tether-reap.timer", "-p", "TimersMonotonic", "-p", "SubState"); strings.Count(says, "USec=5min ") != 2 || !strings.Contains(says, "SubState=waiting") {
		t.Errorf("the timer: %s", says)
	}
	// Started anew, it elapses at once: without AccuracySec systemd takes a minute as it likes. A reload would have it
	// elapse as well, if it ran.
	ctl("systemctl", "stop", "mcp-tether-reap.timer")
	dropIn := b.path(m.home + "/mcp-tether-reap.timer.d")
	ok(t, os.MkdirAll(dropIn, 0o755))
	ok(t, os.WriteFile(dropIn+"/now.conf", []byte("[Timer]\nOnBootSec=\nOnActiveSec=1ms\nRandomizedDelaySec=0\nAccuracySec=1ms\n"), 0o644))
	ctl("systemctl", "daemon-reload")
	ctl("systemctl", "start", "mcp-tether-reap.timer")
	testkit.Until(t, "the sweep", func() bool { return !b.has("sleep", "4701") })
	testkit.Until(t, "the end of the pass", func() bool {
		return strings.Contains(ctl("systemctl", "show", "mcp-tether-reap.service", "-p", "SubState"), "=dead")
	})
	if says := ctl("systemctl", "show", "mcp-tether-reap.service", "-p", "Result", "-p", "ExecMainStatus"); says != "Result=success\nExecMainStatus=0" {
		t.Errorf("the pass: %s", says)
	}
	if left, _ := filepath.Glob(b.path(m.runtime + "/mcp-tether/*.json")); len(left) > 0 {
		t.Errorf("records left: %v", left)
	}
}

// A session of the gateway's unit has a cgroup of its own within the unit's, and ends while the unit goes on.
func (b *booted) gateway() {
	t := b.t
	b.must("systemctl", "start", "gateway.service")
	testkit.Until(t, "gateway and server", func() bool { return b.has("sleep", "4711") && b.has("sleep", "4712") && b.has("sleep", "4713") })
	s := b.session(fmt.Sprintf("/tmp/mcp-tether-%d", agentID))
	if list := b.must("mcp-tether", "ps", "--json"); !strings.Contains(list, strconv.Itoa(s.Server.PID)) {
		t.Errorf("root does not see the unit's session: %s", list)
	}
	if _, err := os.Stat(b.path(s.Cgroup)); err != nil || !strings.Contains(s.Cgroup, "/system.slice/gateway.service/") {
		t.Errorf("the session's cgroup is %s, %v", s.Cgroup, err)
	}
	b.must("kill", "-KILL", strconv.Itoa(s.Parent.PID))
	testkit.Until(t, "the end of the session", func() bool { return !b.has("sleep", "4711") && !b.has("sleep", "4712") })
	testkit.Until(t, "the end of its cgroup", func() bool { _, err := os.Stat(b.path(s.Cgroup)); return err != nil })
	if state := b.must("systemctl", "is-active", "gateway.service"); state != "active" || !b.has("sleep", "4713") {
		t.Errorf("the gateway is %s", state)
	}
	b.must("systemctl", "restart", "gateway.service")
	testkit.Until(t, "the next server", func() bool { return b.has("sleep", "4711") && b.has("sleep", "4712") })
	b.must("systemctl", "stop", "gateway.service")
	if b.has("sleep", "4711") || b.has("sleep", "4713") {
		t.Error("something outlived its unit")
	}
	// The control: without delegation there is no cgroup to be had.
	dropIn := b.path("/run/systemd/system/gateway.service.d")
	ok(t, os.MkdirAll(dropIn, 0o755))
	ok(t, os.WriteFile(dropIn+"/no.conf", []byte("[Service]\nDelegate=no\n"), 0o644))
	b.must("systemctl", "daemon-reload")
	b.must("systemctl", "start", "gateway.service")
	testkit.Until(t, "the error", func() bool {
		return strings.Contains(b.must("journalctl", "--no-pager", "-u", "gateway.service"), "mcp-tether: ")
	})
	if b.has("sleep", "4712") {
		t.Error("the server runs without a cgroup")
	}
}

// A server behind a socket lives as long as its connection.
func (b *booted) server() {
	t := b.t
	b.must("systemctl", "start", "everything.socket")
	// The connection lasts until standard input is closed.
	talk := b.command("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/3300; echo hello >&3; read -r answer <&3; echo "$answer"; read -r _`)
	in, err := talk.StdinPipe()
	ok(t, err)
	out, err := talk.StdoutPipe()
	ok(t, err)
	ok(t, talk.Start())
	if answer, err := bufio.NewReader(out).ReadString('\n'); answer != "hello\n" {
		t.Errorf("over the connection: %q, %v", answer, err)
	}
	testkit.Until(t, "what the server starts", func() bool { return b.has("sleep", "4721") })
	if units := b.must("systemctl", "list-units", "--no-legend", "everything@*"); strings.Count(units, "running") != 1 {
		t.Errorf("the units are %q", units)
	}
	ok(t, in.Close())
	_ = talk.Wait() // read has met the end
	testkit.Until(t, "the end of the server and of its unit", func() bool {
		return !b.has("sleep", "4721") && b.must("systemctl", "list-units", "--no-legend", "everything@*") == ""
	})
}
