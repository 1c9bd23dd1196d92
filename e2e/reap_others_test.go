package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
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

// Root's passes on a host that it shares with users whom it does not trust. The user "mallory" runs and writes whatever
// there is to be run and written; root and "nobody" are the ones who are to be harmed. What counts is what lives, is on
// disk and was opened afterwards. Each harm has its control: the same deed does harm mallory.

const mallory = 1666

var malloryDir = fmt.Sprintf("/tmp/mcp-tether-%d", mallory)

// dirOf is where a user's records are looked for.
func dirOf(user int) string {
	if user == 0 {
		return "/run/mcp-tether"
	}
	return fmt.Sprintf("/tmp/mcp-tether-%d", user)
}

// A living session whose record names somebody else's process for its supervisor: no stop signals that one.
func TestStopForgedSupervisor(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, args := range [][]string{{"--name=files"}, {"--gateway=1"}, {"--all"}, {anID}} {
		for _, owner := range []int{0, nobody, mallory} {
			victim := startInnocent(t, owner)
			forge(t, mallory, malloryDir, func(p *page) {
				p.Supervisor, p.Server, p.Gateway, p.Name = markOf(t, victim.pid), deadMark(t), mark{1, 0}, "files"
			}, victim.pid)
			lock := filepath.Join(malloryDir, anID+".lock")
			f, err := os.Open(lock)
			if err == nil {
				err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			}
			if err != nil {
				t.Fatal(err)
			}
			o := operator.run(t, append([]string{"stop", "--all-users", "--timeout=200ms"}, args...)...)
			if owner == mallory { // the control
				if victim.answers() == nil {
					t.Errorf("%v: the forger's own process was not asked (%d %s)", args, o.code, o.stderr)
				}
			} else {
				victim.wantAlive(t, fmt.Sprint("stop ", args))
			}
			_ = f.Close()
			_ = os.RemoveAll(malloryDir)
			victim.end()
		}
	}
}

// While a pass waits for a process that ignores SIGTERM, mallory puts a link in the place of her own directory. The
// link leads to root's directory, or to one of her own that the pass may write to. What is removed is what was read.
func TestReapDirectorySwapped(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, c := range []struct {
		who     caller
		owner   int
		swapped bool
	}{
		{operator, 0, true}, {operator, mallory, true}, {caller{uid: mallory}, mallory, true}, {operator, 0, false},
	} {
		// The same id there.
		const precious = "/tmp/precious"
		bystander := startInnocent(t, c.owner)
		forge(t, c.owner, precious, nil, bystander.pid)
		stubborn := startStubborn(t, mallory)
		outgrow(t)
		forge(t, mallory, malloryDir, nil, stubborn.pid)
		cmd := c.who.command("reap", "--json", "--kill", "--term-grace=20s")
		ok(t, cmd.Start())
		stubborn.awaitTerm()
		read := malloryDir
		if c.swapped {
			read = "/tmp/moved"
			ok(t, os.Rename(malloryDir, read))
			ok(t, os.Symlink(precious, malloryDir))
		}
		stubborn.end()
		_ = cmd.Wait()
		if left, _ := filepath.Glob(precious + "/" + anID + ".*"); len(left) != 2 {
			t.Errorf("%+v: of the record and lock that the link leads to %v are left", c, left)
		}
		if left, _ := filepath.Glob(read + "/" + anID + ".*"); len(left) > 0 {
			t.Errorf("%+v: of the dead session %v are there", c, left)
		}
		for _, dir := range []string{precious, "/tmp/moved", malloryDir} {
			_ = os.RemoveAll(dir)
		}
	}
}

// While a pass waits, another hierarchy takes the place of the one that a record names. The leaf that was opened goes, with
// the process that it keeps moved out, and the one that has its path now stays. A path with a link in it is no leaf's.
func TestReapCgroupSwapped(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	own, err := testkit.OwnCgroup()
	if err != nil || !nestable() {
		testkit.Need(t, false, "a cgroup of its own")
	}
	const at = "/tmp/cgroups"
	for _, how := range []string{"swapped", "link", "as it was"} {
		// A pass that looks for leaves does not look below these names: it has only the path in the record.
		ours, theirs := own+"/mcp-tether-ours", own+"/mcp-tether-theirs"
		leaf := "/mcp-tether-" + anID
		for _, dir := range []string{ours, theirs, ours + leaf, theirs + leaf} {
			ok(t, os.Mkdir(dir, 0o755))
		}
		if how == "link" {
			ok(t, os.Symlink(theirs, at))
		} else {
			ok(t, os.Mkdir(at, 0o755))
			ok(t, unix.Mount(ours, at, "", unix.MS_BIND, ""))
		}
		stubborn := startStubborn(t, 0)
		kept := startInnocent(t, 0)
		ok(t, os.WriteFile(ours+leaf+"/cgroup.procs", fmt.Append(nil, kept.pid), 0))
		outgrow(t)
		forge(t, 0, "/run/mcp-tether", func(p *page) { p.Cgroup, p.Keep = at+leaf, []string{"cat"} }, stubborn.pid)
		cmd := operator.command("reap", "--kill", "--term-grace=20s")
		ok(t, cmd.Start())
		stubborn.awaitTerm()
		if how == "swapped" {
			ok(t, unix.Mount(theirs, at, "", unix.MS_BIND, ""))
		}
		stubborn.end()
		_ = cmd.Wait()
		_, gone := os.Stat(ours + leaf)
		_, left := os.Stat(theirs + leaf)
		if left != nil || (gone == nil) != (how == "link") {
			t.Errorf("%s: ours %v, theirs %v", how, gone, left)
		}
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", kept.pid)); strings.Contains(string(b), "-theirs") {
			t.Errorf("%s: what is kept is in %s", how, b)
		}
		kept.wantAlive(t, how)
		for how != "link" && unix.Unmount(at, unix.MNT_DETACH) == nil {
		}
		ok(t, os.Remove(at))
		kept.end()
		for _, dir := range []string{ours + leaf, theirs + leaf, ours, theirs} {
			_ = os.Remove(dir)
		}
		_ = os.RemoveAll("/run/mcp-tether")
	}
}

// ok fails the test at an error.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stubborn ignores SIGTERM, and says when it comes.
type stubborn struct {
	t     *testing.T
	pid   int
	lines *bufio.Reader
}

func startStubborn(t *testing.T, user int) stubborn {
	t.Helper()
	// Some shells give up what they read at a signal that they trap, as they do at the end of it.
	cmd := exec.Command("/bin/sh", "-c", `trap 'echo term; more=1' TERM; echo up; while read -r x || [ -n "$more" ]; do more=; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s := stubborn{t, cmd.Process.Pid, bufio.NewReader(out)}
	s.await("up\n")
	return s
}

func (s stubborn) awaitTerm() { s.t.Helper(); s.await("term\n") }

// end ends it within its grace, which must not be over.
func (s stubborn) end() {
	s.t.Helper()
	if now := state(s.pid); now == "" || now == "Z" {
		s.t.Error("the stubborn process was ended before its time")
	}
	_ = syscall.Kill(s.pid, syscall.SIGKILL)
}

func (s stubborn) await(want string) {
	s.t.Helper()
	if line, err := s.lines.ReadString('\n'); line != want {
		s.t.Fatalf("it said %q (%v), want %q", line, err, want)
	}
}

// A record of another boot may name a socket: root's session keeps its own.
func TestReapSocketOfLivingSession(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for _, owner := range []int{0, nobody, mallory} {
		dir := dirOf(owner)
		ownDir(t, owner, dir)
		socket := filepath.Join(dir, anID+".sock")
		l, err := net.Listen("unix", socket)
		ok(t, err)
		ok(t, os.Chown(socket, owner, owner))
		victim := startInnocent(t, mallory)
		forge(t, mallory, malloryDir, func(p *page) { p.Host.Boot, p.Socket = "another boot", socket }, victim.pid)
		operator.run(t, "reap", "--kill")
		_, err = os.Lstat(socket)
		if gone := err != nil; gone != (owner == mallory) {
			t.Errorf("the socket of %d: %v", owner, err)
		}
		_ = l.Close()
		_ = os.RemoveAll(dir)
		_ = os.RemoveAll(malloryDir)
	}
}

// What a user's record names as its engine is not connected to, and no command is run, by root.
func TestReapEngineOfAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	ok(t, os.Mkdir("/run/closed", 0o700))
	for _, c := range []struct {
		socket string
		user   int
		want   bool
	}{
		{"/run/closed/e.sock", 0, false}, {"/tmp/mallory.sock", mallory, true}, // the control
	} {
		l, err := net.Listen("unix", c.socket)
		ok(t, err)
		ok(t, os.Chown(c.socket, c.user, c.user))
		peers := make(chan uint32, 64)
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					close(peers)
					return
				}
				raw, _ := conn.(*net.UnixConn).SyscallConn()
				_ = raw.Control(func(fd uintptr) {
					if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
						peers <- cred.Uid
					}
				})
				_ = conn.Close()
			}
		}()
		victim := startInnocent(t, mallory)
		forge(t, mallory, malloryDir, func(p *page) { p.Engine = "unix://" + c.socket }, victim.pid)
		put(t, mallory, filepath.Join(malloryDir, anID+".containers"), []byte(`{"op":"created","kind":"container","id":"`+strings.Repeat("a", 64)+`"}`+"\n"))
		operator.run(t, "reap", "--kill", "--term-grace=200ms")
		operator.run(t, "ps")
		_ = l.Close()
		asked := false
		for uid := range peers {
			if asked = true; uid != mallory {
				t.Errorf("uid %d connected to %s", uid, c.socket)
			}
		}
		if asked != c.want {
			t.Errorf("%s was connected to: %v, want %v", c.socket, asked, c.want)
		}
		_ = os.RemoveAll(malloryDir)
	}
	program := "#!/bin/sh\nid -u >>/tmp/ran; exit 1\n"
	put(t, 0, "/tmp/docker", []byte(program))
	ok(t, os.Chmod("/tmp/docker", 0o755))
	path := caller{env: []string{"PATH=/tmp:" + os.Getenv("PATH")}}
	for _, user := range []int{mallory, 0} { // root's own record is the control
		victim := startInnocent(t, user)
		forge(t, user, dirOf(user), func(p *page) { p.Engine = "ssh://mallory@localhost" }, victim.pid)
		path.run(t, "reap", "--kill", "--term-grace=200ms")
		path.run(t, "ps")
		if b, err := os.ReadFile("/tmp/ran"); (err == nil) != (user == 0) {
			t.Errorf("by a record of user %d the docker command ran as %q (%v)", user, b, err)
		}
	}
}

// Where configurations are looked for in a home, links lead to what root must not open. What a user's own file says
// counts for that user's processes.
func TestReapOpensNothingOfOthers(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	homes := homeOf(t, 0, mallory, nobody)
	ok(t, os.MkdirAll("/run/traps/project", 0o755))
	for _, c := range []struct {
		name string
		lay  func(target string) error
	}{
		{"FIFO", func(target string) error { return syscall.Mkfifo(target, 0o666) }},
		{"closed file", func(target string) error { return os.WriteFile(target, []byte("{}"), 0o600) }},
		{"device", func(target string) error { return unix.Mknod(target, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) }},
	} {
		for _, direct := range []bool{true, false} {
			target := "/run/traps/project/.mcp.json"
			_ = os.Remove(target)
			ok(t, c.lay(target))
			opened := watchOpens(t, target)
			config := filepath.Join(homes[mallory], ".claude.json")
			_ = os.Remove(config)
			if direct {
				ok(t, os.Symlink(target, config))
			} else {
				put(t, mallory, config, []byte(`{"projects":{"/run/traps/project":{}}}`))
			}
			o := operator.run(t, "reap", "--kill", "--unwrapped", "--timeout=20s")
			if o.code == 2 {
				t.Errorf("%s: %s", c.name, o.stderr)
			}
			if opened() {
				t.Errorf("%s (direct: %v) was opened", c.name, direct)
			}
			ok(t, os.Remove(config))
		}
	}
	// A file of root that a user's configuration names speaks for that user only.
	s := bareServer(t, "pipe", nobody)
	s.gw.kill()
	command := node(s.dir, "serve,ignore-eof", "setsid/plain", "plain")
	configure(t, 0, "/run/traps", command...)
	ok(t, os.Chmod("/run/traps/.claude.json", 0o644))
	ok(t, os.Symlink("/run/traps/.claude.json", filepath.Join(homes[mallory], ".claude.json")))
	if r := operator.reap(t, 0, "--kill", "--unwrapped"); len(r.Findings) > 0 {
		t.Errorf("by mallory's file %v", r.Findings)
	}
	ok(t, os.Symlink("/run/traps/.claude.json", filepath.Join(homes[nobody], ".claude.json")))
	operator.reap(t, 0, "--kill", "--unwrapped") // the control
	s.waitDead()
}

// watchOpens tells whether a file was opened since, for more than a look.
func watchOpens(t *testing.T, file string) (opened func() bool) {
	t.Helper()
	var (
		fd  int
		err error
	)
	// Others take root's instances as well, and the kernel takes back closed ones a moment later.
	testkit.Until(t, "an inotify instance", func() bool {
		fd, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		return !errors.Is(err, unix.EMFILE)
	})
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, file, unix.IN_OPEN)
	}
	ok(t, err)
	return func() bool {
		defer unix.Close(fd)
		var buf [4096]byte
		n, _ := unix.Read(fd, buf[:])
		return n > 0
	}
}

// What mallory says of other people's sessions does not hide what is left of them, nor delete its record.
func TestReapHidesNothing(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	for name, hide := range map[string]func(t *testing.T, id string) (undo func()){
		"command line": startNamed,
		// What a set-user-ID program is told is its caller's word, not root's.
		"set-user-ID":    func(t *testing.T, id string) func() { return startClaim(t, id, mallory, "") },
		"kept":           func(t *testing.T, id string) func() { return startClaim(t, id, mallory, "*:") },
		"another pid ns": func(t *testing.T, id string) func() { return startClaim(t, id, 0, "") },
		"lock": func(t *testing.T, id string) func() {
			ownDir(t, mallory, malloryDir)
			put(t, mallory, filepath.Join(malloryDir, id+".lock"), nil)
			f, err := os.Open(filepath.Join(malloryDir, id+".lock"))
			ok(t, err)
			ok(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
			return func() { _ = f.Close() }
		},
		"record of all": func(t *testing.T, id string) func() {
			forge(t, mallory, malloryDir, func(p *page) { p.ID, p.Keep, p.Server = id, []string{"*"}, markOf(t, 1) }, 1)
			return func() {}
		},
	} {
		for _, owner := range []int{0, nobody} {
			t.Run(fmt.Sprint(name, "/", owner), func(t *testing.T) {
				s := startGatewayAs(t, owner).newSession()
				s.shareRuntime()
				s.spawn(setup{flags: deaf("--cgroup=off")}, node(s.dir, "serve,ignore-eof", "daemon", "setsid")...)
				s.waitReady()
				id := s.ownRecord()
				killPair(t, s.pid)
				s.gw.kill()
				outgrow(t)
				undo := hide(t, id)
				operator.run(t, "reap", "--kill", "--term-grace=300ms")
				s.waitDead()
				undo()
				_ = os.RemoveAll(malloryDir)
			})
		}
	}
}

// startNamed starts a process of mallory whose command line is that of a session's supervisor.
func startNamed(t *testing.T, id string) (end func()) {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.Chmod(filepath.Dir(dir), 0o755))
	ownDir(t, mallory, dir)
	put(t, mallory, filepath.Join(dir, "__supervise"), []byte("echo up; read -r x\n"))
	cmd := exec.Command("/bin/sh", "__supervise", id+",1,2")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mallory, Gid: mallory}}
	in, err := cmd.StdinPipe()
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return func() { _ = in.Close(); _ = cmd.Wait() }
}

// startClaim starts a process with root's effective number that speaks of a session in its command line and environment. A
// user has started it from a set-user-ID program, or root of another pid namespace.
func startClaim(t *testing.T, id string, user int, keep string) (end func()) {
	t.Helper()
	b, err := os.ReadFile("/bin/cat")
	ok(t, err)
	program := filepath.Join(filepath.Dir(fixture), "claim-"+id)
	testkit.WriteProgram(t, program, b)
	ok(t, os.Chmod(program, 0o755|os.ModeSetuid))
	dir := t.TempDir()
	for up := dir; up != "/tmp"; up = filepath.Dir(up) {
		ok(t, os.Chmod(up, 0o755))
	}
	ok(t, unix.Mkfifo(filepath.Join(dir, "__supervise"), 0o644)) // it waits for a writer
	cmd := exec.Command(program, "__supervise", id+",1,2")
	cmd.Dir, cmd.Env = dir, []string{"MCP_TETHER_SESSION=" + id}
	if keep != "" {
		cmd.Env = append(cmd.Env, "MCP_TETHER_KEPT="+keep)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	if user == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	ok(t, cmd.Start())
	if uids, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); err != nil || !strings.Contains(string(uids), fmt.Sprintf("Uid:\t%d\t0\t0\t", user)) {
		t.Errorf("it is not root for the kernel: %s", uids)
	}
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = os.Remove(program) }
}

// A user's process, configuration, journal and engine may be as large and as slow as the user likes. The pass stays small
// and in time, and ends what is left of somebody else.
//
// What could not be looked at is unknown: then code, the exit code of the pass, is 2. It is -1 where that depends on
// how busy the machine is.
func staysSmall(t *testing.T, code int, fill func(t *testing.T, homes map[int]string)) {
	t.Helper()
	if !onOwnHost(t) {
		return
	}
	homes := homeOf(t, 0, mallory, nobody)
	fill(t, homes)
	leftover := startInnocent(t, nobody)
	outgrow(t)
	forge(t, nobody, theirDir, nil, leftover.pid)
	cmd := operator.command("reap", "--kill", "--unwrapped", "--timeout=30s", "--term-grace=200ms")
	began := time.Now()
	o := finish(t, cmd)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	if leftover.answers() == nil {
		t.Error("what is left of another user lives")
	}
	if code >= 0 && o.code != code || (o.code == 2) != strings.Contains(o.stderr, "not complete: user u1666: ") {
		t.Errorf("exit code %d, want %d: %s", o.code, code, o.stderr)
	}
	peak(t, cmd, o)
	ps := operator.command("ps")
	peak(t, ps, finish(t, ps))
}

// fillFile writes a file of mallory that begins with head and repeats line, without holding it in memory. What the test
// has would count as the memory of the commands that it starts.
func fillFile(t *testing.T, file, head, line string, size int, tail string) {
	t.Helper()
	f, err := os.Create(file)
	ok(t, err)
	w := bufio.NewWriter(f)
	_, _ = w.WriteString(head)
	for n := 0; n < size; n += len(line) {
		_, _ = w.WriteString(line)
	}
	_, _ = w.WriteString(tail)
	ok(t, w.Flush())
	ok(t, f.Close())
	ok(t, os.Chown(file, mallory, mallory))
}

func TestReapAndVast(t *testing.T) {
	staysSmall(t, -1, func(t *testing.T, _ map[int]string) {
		for range 3 {
			cmd := exec.Command(fixture, "vast")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mallory, Gid: mallory}}
			out, err := cmd.StdoutPipe()
			ok(t, err)
			ok(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReapAndLargeFiles(t *testing.T) {
	staysSmall(t, 0, func(t *testing.T, homes map[int]string) {
		big := filepath.Join(homes[mallory], "big")
		fillFile(t, big, `{"mcpServers":{}`, `,"a":[[],[]]`, 60<<20, "}")
		projects := map[string]any{}
		for i := range 200 {
			dir := filepath.Join(homes[mallory], fmt.Sprint("p", i))
			ownDir(t, mallory, dir)
			ok(t, os.Symlink(big, filepath.Join(dir, ".mcp.json")))
			projects[dir] = map[string]any{}
		}
		b, err := json.Marshal(map[string]any{"projects": projects})
		ok(t, err)
		put(t, mallory, filepath.Join(homes[mallory], ".claude.json"), b)
	})
}

func TestReapAndJournals(t *testing.T) {
	// The records stay: what is in the journals is not known.
	staysSmall(t, 1, func(t *testing.T, _ map[int]string) {
		victim := startInnocent(t, mallory)
		line := `{"op":"created","kind":"container","id":"` + strings.Repeat("a", 64) + `"}` + "\n"
		for i := range 8 {
			id := fmt.Sprintf("%016x", i)
			forge(t, mallory, malloryDir, func(p *page) { p.ID = id }, victim.pid)
			fillFile(t, filepath.Join(malloryDir, id+".containers"), "", line, 30<<20, "")
		}
		hold(t, filepath.Join(malloryDir, "0000000000000007.lock"))
	})
}

func TestReapAndHung(t *testing.T) {
	staysSmall(t, 2, func(t *testing.T, _ map[int]string) {
		victim := startInnocent(t, mallory)
		for i := range 25 {
			id, socket := fmt.Sprintf("%016x", i), fmt.Sprintf("/tmp/hang-%d", i)
			l, err := net.Listen("unix", socket)
			ok(t, err)
			ok(t, os.Chown(socket, mallory, mallory))
			t.Cleanup(func() { _ = l.Close() })
			forge(t, mallory, malloryDir, func(p *page) { p.ID, p.Engine = id, "unix://"+socket }, victim.pid)
		}
	})
}

func TestReapAndTalkative(t *testing.T) {
	staysSmall(t, 2, func(t *testing.T, _ map[int]string) {
		victim := startInnocent(t, mallory)
		l, err := net.Listen("unix", "/tmp/talks")
		ok(t, err)
		ok(t, os.Chown("/tmp/talks", mallory, mallory))
		t.Cleanup(func() { _ = l.Close() })
		go answerMuch(l)
		forge(t, mallory, malloryDir, func(p *page) { p.Engine = "unix:///tmp/talks" }, victim.pid)
	})
}

// answerMuch answers every request with a list of 60 MiB.
func answerMuch(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			item := `{"Id":"` + strings.Repeat("b", 64) + `","Labels":{"a":"b"}},`
			n := 60 << 20 / len(item)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n[", n*len(item)+len("{}]")+1)
			w := bufio.NewWriter(conn)
			for range n {
				_, _ = w.WriteString(item)
			}
			_, _ = w.WriteString("{}]")
			_ = w.Flush()
		}()
	}
}

// peak checks how much memory a command had, or the largest of its children.
func peak(t *testing.T, cmd *exec.Cmd, o outcome) {
	t.Helper()
	use, is := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !is || use.Maxrss > 64<<10 {
		t.Errorf("%v had %d KiB", cmd.Args[1:], use.Maxrss)
	}
	t.Logf("%v: %d KiB, exit code %d, %.300s", cmd.Args[1], use.Maxrss, o.code, o.stderr)
}

// Two pid namespaces may share a file system of cgroups. From within the one, a session of the other has an empty leaf
// while it sleeps. While it is awake, the leaf has members without a number. Neither is touched.
func TestReapSparesLeavesOfAnotherNamespace(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	own, err := testkit.OwnCgroup()
	if err != nil || !nestable() {
		testkit.Need(t, false, "a cgroup of its own")
	}
	victim := startInnocent(t, 0)
	asleep, awake := filepath.Join(own, "mcp-tether-"+anID), filepath.Join(own, "mcp-tether-fedcba9876543210")
	for _, leaf := range []string{asleep, awake} {
		ok(t, os.Mkdir(leaf, 0o755))
		t.Cleanup(func() { _ = os.Remove(leaf) })
	}
	ok(t, os.WriteFile(filepath.Join(awake, "cgroup.procs"), fmt.Append(nil, victim.pid), 0))
	settle(t)
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", tether, "reap", "--kill", "--json", "--term-grace=100ms")
	cmd.Env = operator.command().Env
	if r := parseSweep(t, 0, finish(t, cmd)); len(r.Findings) > 0 {
		t.Errorf("found %v", r.Findings)
	}
	victim.wantAlive(t, "a pass in another pid namespace")
	if _, err := os.Stat(asleep); err != nil {
		t.Errorf("the leaf of a sleeping session: %v", err)
	}
	// The control: with a record of this namespace, the leaf is proof.
	forge(t, 0, "/run/mcp-tether", func(p *page) { p.ID, p.Server, p.Cgroup = "fedcba9876543210", deadMark(t), awake }, victim.pid)
	operator.run(t, "reap", "--kill", "--term-grace=100ms")
	if victim.answers() == nil {
		t.Error("the control: the member of a dead session's leaf lives")
	}
}

// Names, directories and commands of users are shown without what steers a terminal.
func TestTextOfOthersSteersNothing(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	evil := "a\x1b[2J\nmcp-tether: all is well\u202e\u2066\u009b\r"
	victim := startInnocent(t, mallory)
	forge(t, mallory, malloryDir, func(p *page) { p.Name, p.Args, p.Engine = evil, []string{evil}, "unix:///tmp/"+evil }, victim.pid)
	homes := homeOf(t, 0, mallory)
	put(t, mallory, filepath.Join(homes[mallory], ".claude.json"), []byte(`{"`+strings.Repeat("\x1b[2J\u202e", 3)))
	held := func(p *page) {
		p.ID, p.Name, p.Args, p.State, p.Supervisor = "fedcba9876543210", evil, []string{evil}, evil, markOf(t, victim.pid)
	}
	forge(t, mallory, malloryDir, held, victim.pid)
	hold(t, filepath.Join(malloryDir, "fedcba9876543210.lock"))
	shown := 0
	for _, args := range [][]string{{"reap"}, {"reap", "--quiet"}, {"ps"}, {"ps", "--tree"}, {"stop", "--timeout=10ms", "fedcba9876543210"}, {"reap", "--kill", "--term-grace=10ms"}} {
		o := operator.run(t, args...)
		text := o.stdout + o.stderr
		if i := strings.IndexAny(text, "\x1b\r\u202e\u2066\u009b"); i >= 0 || strings.Contains(text, "\nmcp-tether: all is well") {
			t.Errorf("%v: %q", args, text)
		}
		if strings.Contains(text, "all is well") {
			shown++
		}
	}
	if shown < 2 {
		t.Errorf("the texts were shown %d times only: this tests nothing", shown)
	}
}
