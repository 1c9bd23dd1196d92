package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
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

// A home that no list of users has is looked into when it is named, for its owner's processes alone.
func TestReapFurtherHome(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	homeOf(t, 0) // the host knows no other user
	s, other := bareServer(t, "pipe", nobody), bareServer(t, "pipe", mallory)
	s.gw.kill()
	other.gw.kill()
	further := filepath.Join(t.TempDir(), "further")
	for dir := filepath.Dir(further); dir != "/tmp"; dir = filepath.Dir(dir) {
		ok(t, os.Chmod(dir, 0o755))
	}
	ownDir(t, nobody, further)
	var entries []string
	for _, of := range []*session{s, other} {
		b, err := json.Marshal(map[string]any{"command": fixture, "args": node(of.dir, "serve,ignore-eof", "setsid/plain", "plain")[1:]})
		ok(t, err)
		entries = append(entries, string(b))
	}
	put(t, nobody, filepath.Join(further, ".claude.json"), []byte(`{"mcpServers":{"one":`+entries[0]+`,"two":`+entries[1]+`}}`))
	if r := operator.reap(t, 0, "--kill", "--unwrapped"); len(r.Findings) > 0 { // the control
		t.Errorf("without it %v", r.Findings)
	}
	r := operator.reap(t, 0, "--kill", "--unwrapped", "--home="+further)
	s.waitDead()
	if r.classes() != "severed" || len(other.members()) == 0 {
		t.Errorf("found %v, %d of the other user's are left", r.Findings, len(other.members()))
	}
	other.endAll()
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

// In JSON the texts of others are whole, and no byte of them steers a terminal; ps --watch shows them as ps does.
func TestWatchAndJSONOfOthers(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	evil := "a\x1b[2J\nall is well\u202e\u2066\u009b\r\x07"
	victim := startInnocent(t, mallory)
	forge(t, mallory, malloryDir, func(p *page) {
		p.Name, p.Args, p.State, p.Supervisor = evil, []string{evil}, evil, markOf(t, victim.pid)
	}, victim.pid)
	hold(t, filepath.Join(malloryDir, anID+".lock"))
	o := operator.run(t, "ps", "--json", "--tree")
	var answer struct {
		Sessions []struct{ Name string }
	}
	ok(t, json.Unmarshal([]byte(o.stdout), &answer))
	if len(answer.Sessions) != 1 || answer.Sessions[0].Name != evil {
		t.Errorf("not whole: %q", answer)
	}
	steers := func(what, text string) {
		t.Helper()
		if i := strings.IndexAny(text, "\x1b\r\x07\u202e\u2066\u009b"); i >= 0 {
			t.Errorf("%s: %q", what, text)
		}
	}
	steers("ps --json", o.stdout+o.stderr)
	cmd := operator.command("ps", "--watch", "--interval=50ms")
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	lines := bufio.NewReader(out)
	for range 4 { // two looks
		line, err := lines.ReadString('\n')
		ok(t, err)
		steers("ps --watch", line)
		if strings.HasPrefix(line, "all is well") {
			t.Errorf("a line of its own: %q", line)
		}
	}
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	_ = os.RemoveAll(malloryDir)
	dead := startInnocent(t, mallory)
	outgrow(t)
	forge(t, mallory, malloryDir, func(p *page) { p.Name, p.Args = evil, []string{evil} }, dead.pid)
	steers("reap --json", operator.run(t, "reap", "--json").stdout)
}

// A real server that speaks HTTP was started over a pipe that is closed by now, as by ssh or by a CI job. It lives. The same
// package as a server of standard input, in the same place, is ended: the control.
func TestReapSparesHTTPServer(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	_, err := exec.LookPath("node")
	testkit.Need(t, err == nil, "node")
	js, err := filepath.Abs(filepath.Join("npm", everythingJS))
	ok(t, err)
	_, err = os.Stat(js)
	testkit.Need(t, err == nil, "npm packages (npm ci in e2e/npm)")
	ok(t, exec.Command("ip", "link", "set", "lo", "up").Run())
	for _, http := range []bool{true, false} {
		// The other one must outlive the end of its input.
		preload := filepath.Join(t.TempDir(), "stay.cjs")
		ok(t, os.WriteFile(preload, []byte("setInterval(() => {}, 1e6); process.exit = () => {}"), 0o600))
		argv, address := []string{"node", "-r", preload, js, "stdio"}, ""
		if http {
			address = freeAddress(t)
			argv = []string{"node", js, "streamableHttp"}
		}
		pid := orphanOf(t, address, argv...)
		outgrow(t)
		r := operator.reap(t, -1, "--kill", "--unwrapped", "--match=mcp-server-everything")
		lives := unix.Kill(pid, 0) == nil && describe(pid).state != "Z"
		if lives != http {
			t.Errorf("http: %v; it lives: %v, found %v", http, lives, r.Findings)
		}
		if http {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Errorf("it does not answer: %v", err)
			} else {
				_ = conn.Close()
			}
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// freeAddress is one that nobody listens at: the network is the machine's, and another run may be in it.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	return l.Addr().String()
}

// orphanOf starts a real server over a pipe that is closed, from a shell that has ended, once it is up. With an address it
// speaks HTTP there.
func orphanOf(t *testing.T, address string, argv ...string) (pid int) {
	t.Helper()
	shell := exec.Command("/bin/sh", append([]string{"-c", `exec 3<&0; "$@" <&3 >/dev/null & exec 3<&-; echo $!`, "sh"}, argv...)...)
	shell.Env = append(os.Environ(), "PORT="+address[strings.LastIndexByte(address, ':')+1:])
	// The pipe is closed when the shell has ended.
	_, err := shell.StdinPipe()
	ok(t, err)
	up, err := os.CreateTemp(t.TempDir(), "stderr")
	ok(t, err)
	defer up.Close()
	shell.Stderr = up
	out, err := shell.Output()
	ok(t, err)
	_, err = fmt.Sscan(string(out), &pid)
	ok(t, err)
	testkit.Until(t, "a server that is up", func() bool {
		if address != "" {
			conn, err := net.Dial("tcp", address)
			if err == nil {
				_ = conn.Close()
			}
			return err == nil
		}
		b, _ := os.ReadFile(up.Name())
		return len(b) > 0
	})
	return pid
}

// A client of an engine that lost its gateway is ended. Its container may live on, which the report and the exit code
// say. The same command under another name is the control.
func TestReapSeveredClient(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	sh, err := os.ReadFile("/bin/sh")
	ok(t, err)
	for name, code := range map[string]int{"docker": 1, "podman": 1, "other": 0} {
		program := filepath.Join(t.TempDir(), name)
		testkit.WriteProgram(t, program, sh)
		pid := orphan(t, program, "-c", "echo up; while :; do sleep 1; done", "run", "-i", "mcp/fetch")
		outgrow(t)
		r := operator.reap(t, code, "--kill", "--unwrapped", "--match=mcp/fetch")
		if lives := unix.Kill(pid, 0) == nil && describe(pid).state != "Z"; lives || r.classes() != "severed" {
			t.Errorf("%s: lives: %v, found %v", name, lives, r.Findings)
		}
		if told := strings.Contains(r.stdout, "the container may be there"); told != (code == 1) {
			t.Errorf("%s: %s", name, r.stdout)
		}
	}
}

// A server that is a script of a project outlives the npm that ran it. It is known by what npm tells its scripts. The same
// script of another project is no business of ours.
func TestReapScriptOfDeadNpm(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	npm, err := exec.LookPath("npm")
	testkit.Need(t, err == nil, "npm")
	pids := map[string]int{}
	for _, name := range []string{"ours", "theirs"} {
		dir := "/tmp/" + name
		ok(t, os.Mkdir(dir, 0o755))
		put(t, 0, dir+"/package.json", []byte(`{"name":"x","version":"1.0.0","scripts":{"start":"node server.js"}}`))
		put(t, 0, dir+"/server.js", []byte(`setInterval(() => {}, 1e6); require("fs").writeFileSync("pid.tmp", String(process.pid)); require("fs").renameSync("pid.tmp", "pid")`))
		shell := exec.Command("/bin/sh", "-c", `exec 3<&0; "$@" <&3 >/dev/null 2>&1 & exec 3<&-; echo $!; read -r x`, "sh", npm, "--prefix", dir, "run", "start")
		shell.Env = append(os.Environ(), "HOME="+dir, "npm_config_update_notifier=false")
		in, err := shell.StdinPipe()
		ok(t, err)
		out, err := shell.StdoutPipe()
		ok(t, err)
		ok(t, shell.Start())
		var manager, server int
		_, err = fmt.Fscan(out, &manager)
		ok(t, err)
		testkit.Until(t, "a server", func() bool {
			b, err := os.ReadFile(dir + "/pid")
			if err == nil {
				_, err = fmt.Sscan(string(b), &server)
			}
			return err == nil
		})
		ok(t, syscall.Kill(manager, syscall.SIGKILL))
		ok(t, in.Close())
		_ = shell.Wait()
		pids[name] = server
		t.Cleanup(func() { _ = syscall.Kill(server, syscall.SIGKILL) })
	}
	outgrow(t)
	config := filepath.Join(t.TempDir(), "mcp.json")
	put(t, 0, config, []byte(`{"mcpServers":{"it":{"command":"npm","args":["--prefix","/tmp/ours","run","start"]}}}`))
	r := operator.reap(t, 0, "--kill", "--unwrapped", "--config="+config)
	for name, pid := range pids {
		if lives := unix.Kill(pid, 0) == nil && describe(pid).state != "Z"; lives != (name == "theirs") {
			t.Errorf("%s: lives: %v, found %v", name, lives, r.Findings)
		}
	}
	if r.classes() != "severed" {
		t.Errorf("found %v", r.Findings)
	}
}

// A script that its runner is told the directory of is a server there only, although it is called the same elsewhere.
func TestReapScriptOfADirectory(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	pids, home := map[string]int{}, t.TempDir()
	for _, name := range []string{"ours", "theirs"} {
		dir := filepath.Join(home, name)
		ok(t, os.Mkdir(dir, 0o755))
		put(t, 0, dir+"/server.py", []byte("sleep 1000 & wait\n"))
		// Nobody can write to its standard input any more once the shell has ended.
		shell := exec.Command("/bin/sh", "-c", "sleep 0 | { exec 3<&0; sh server.py <&3 >/dev/null 2>&1 & echo $!; }")
		shell.Dir = dir
		out, err := shell.Output()
		ok(t, err)
		pids[name] = number(t, strings.TrimSpace(string(out)))
		t.Cleanup(func() { _ = syscall.Kill(pids[name], syscall.SIGKILL) })
		testkit.Until(t, "a server", func() bool { return len(childrenOf(pids[name])) > 0 })
	}
	outgrow(t)
	config := filepath.Join(home, "mcp.json")
	put(t, 0, config, []byte(`{"mcpServers":{"it":{"command":"uv","args":["--directory","`+home+`/ours","run","server.py"]}}}`))
	r := operator.reap(t, 0, "--kill", "--unwrapped", "--config="+config)
	for name, pid := range pids {
		if lives := unix.Kill(pid, 0) == nil && describe(pid).state != "Z"; lives != (name == "theirs") {
			t.Errorf("%s: lives: %v, found %v", name, lives, r.Findings)
		}
	}
}

// Names are not users: only a directory that belongs to its user counts.
func TestReapManyNames(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const many = 300
	for n := range many {
		ok(t, os.WriteFile(dirOf(65_000+n), nil, 0o600))
		ok(t, os.Symlink("/run", dirOf(66_000+n)))
	}
	wantStrangerServed(t)
	if o := operator.run(t, "ps"); o.code != 0 || strings.Contains(o.stderr, "not looked after") {
		t.Errorf("ps: exit code %d, %s", o.code, o.stderr)
	}
}

// However many users there are, each has a turn within the time, those with processes first. What is left is one line.
func TestReapManyUsers(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	const many = 300
	for n := range many {
		ownDir(t, 67_000+n, dirOf(67_000+n))
	}
	wantStrangerServed(t, "--timeout=20s")
}

// wantStrangerServed expects that root ends a dead session of a user with a high number whom no list names.
func wantStrangerServed(t *testing.T, flags ...string) {
	t.Helper()
	const stranger = 3_000_000
	victim := startInnocent(t, stranger)
	outgrow(t)
	forge(t, stranger, dirOf(stranger), nil, victim.pid)
	r := operator.reap(t, -1, append(flags, "--kill")...)
	if r.classes() != "record" || r.Findings[0].Result != "ended" || len(r.Warnings) > 0 || len(r.Incomplete) > len(flags) {
		t.Errorf("found %v, warnings %v, incomplete %v", r.Findings, r.Warnings, r.Incomplete)
	}
	if victim.answers() == nil {
		t.Error("a process of a dead session lives")
	}
}
