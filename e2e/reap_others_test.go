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

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
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
	for _, args := range [][]string{{"--all"}, {anID}} {
		for _, owner := range []int{nobody, mallory} {
			victim := startInnocent(t, owner)
			forge(t, mallory, malloryDir, func(p *page) {
				p.Supervisor, p.Server, p.Gateway, p.Name = markOf(t, victim.pid), deadMark(t), mark{1, 0}, "files"
			}, victim.pid)
			f, err := os.Open(filepath.Join(malloryDir, anID+".json"))
			if err == nil {
				err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
			}
			ok(t, err)
			o := operator.run(t, append([]string{"stop", "--timeout=100ms"}, args...)...)
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
		owner   int
		swapped bool
	}{
		{0, true}, {mallory, true}, {0, false},
	} {
		// The same id there.
		const precious = "/tmp/precious"
		bystander := startInnocent(t, c.owner)
		forge(t, c.owner, precious, nil, bystander.pid)
		stubborn := startStubborn(t, mallory)
		outgrow(t)
		forge(t, mallory, malloryDir, nil, stubborn.pid)
		cmd := operator.command("reap", "--json", "--kill")
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
		if left, _ := filepath.Glob(precious + "/" + anID + ".*"); len(left) != 1 {
			t.Errorf("%+v: of the record that the link leads to %v are left", c, left)
		}
		if left, _ := filepath.Glob(read + "/" + anID + ".*"); len(left) > 0 {
			t.Errorf("%+v: of the dead session %v are there", c, left)
		}
		for _, dir := range []string{precious, "/tmp/moved", malloryDir} {
			_ = os.RemoveAll(dir)
		}
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

// What a user's record names as its engine is not connected to, by root.
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
		forge(t, mallory, malloryDir, func(p *page) { p.Engine, p.EngineUsed = "unix://"+c.socket, true }, victim.pid)
		operator.run(t, "reap", "--kill")
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
}

// Where configurations are looked for in a home, links lead to what root must not open. What a user's own file says
// counts for that user's processes.
func TestReapOpensNothingOfOthers(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	homes := homeOf(t, 0, mallory, nobody)
	ok(t, os.MkdirAll("/run/traps/project", 0o755))
	const target = "/run/traps/project/.mcp.json"
	config := filepath.Join(homes[mallory], ".claude.json")
	for name, c := range map[string]struct {
		target, config func() error
	}{
		"a link to a FIFO": {func() error { return syscall.Mkfifo(target, 0o666) }, func() error { return os.Symlink(target, config) }},
		"a device in a project": {
			func() error { return unix.Mknod(target, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) },
			func() error { put(t, mallory, config, []byte(`{"projects":{"/run/traps/project":{}}}`)); return nil },
		},
	} {
		ok(t, c.target())
		opened := watchOpens(t, target)
		ok(t, c.config())
		if o := operator.run(t, "reap", "--kill", "--unwrapped"); o.code == 2 {
			t.Errorf("%s: %s", name, o.stderr)
		}
		if opened() {
			t.Errorf("%s was opened", name)
		}
		ok(t, os.Remove(config))
		ok(t, os.Remove(target))
	}
	// A file of root that a user's configuration names speaks for that user only.
	s := bareServer(t, "pipe", nobody)
	s.gw.Kill()
	command := node(s.Dir, "serve,ignore-eof", "setsid/plain", "plain")
	configure(t, 0, "/run/traps", command...)
	ok(t, os.Chmod("/run/traps/.claude.json", 0o644))
	ok(t, os.Symlink("/run/traps/.claude.json", filepath.Join(homes[mallory], ".claude.json")))
	if r := operator.reap(t, 0, "--kill", "--unwrapped"); len(r.Findings) > 0 {
		t.Errorf("by mallory's file %v", r.Findings)
	}
	ok(t, os.Symlink("/run/traps/.claude.json", filepath.Join(homes[nobody], ".claude.json")))
	operator.reap(t, 0, "--kill", "--unwrapped") // the control
	s.WaitDead()
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

// A user's processes may be as large, and engines as slow, as the user likes. The pass stays small, and ends what is left of
// somebody else. What could not be looked at is unknown, and said to be.
func TestReapStaysSmall(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	vast := exec.Command(fixture, "vast")
	vast.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: mallory, Gid: mallory}}
	out, err := vast.StdoutPipe()
	ok(t, err)
	ok(t, vast.Start())
	t.Cleanup(func() { _ = vast.Process.Kill(); _ = vast.Wait() })
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	victim, leftover := startInnocent(t, mallory), startInnocent(t, nobody)
	outgrow(t)
	l, err := net.Listen("unix", "/tmp/hangs")
	ok(t, err)
	defer l.Close()
	ok(t, os.Chown("/tmp/hangs", mallory, mallory))
	forge(t, mallory, malloryDir, func(p *page) { p.Engine, p.EngineUsed = "unix:///tmp/hangs", true }, victim.pid)
	forge(t, nobody, theirDir, nil, leftover.pid)
	cmd := operator.command("reap", "--kill", "--unwrapped")
	o := finish(t, cmd)
	if leftover.answers() == nil {
		t.Error("what is left of another user lives")
	}
	if o.code != 2 || !strings.Contains(o.stderr, fmt.Sprint("not complete: user ", mallory)) {
		t.Errorf("exit code %d: %s", o.code, o.stderr)
	}
	peak(t, cmd, o)
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

// homeOf gives the user a home, in a password file of this host's own.
func homeOf(t *testing.T, users ...int) map[int]string {
	t.Helper()
	homes, passwd := map[int]string{}, ""
	base := t.TempDir()
	for _, dir := range []string{base, filepath.Dir(base)} {
		ok(t, os.Chmod(dir, 0o755))
	}
	for _, user := range users {
		dir := filepath.Join(base, fmt.Sprint(user))
		ownDir(t, user, dir)
		homes[user] = dir
		passwd += fmt.Sprintf("u%d:x:%d:%d::%s:/bin/sh\n", user, user, user, dir)
	}
	file := filepath.Join(base, "passwd")
	put(t, 0, file, []byte(passwd))
	ok(t, os.Chmod(file, 0o644))
	ok(t, unix.Mount(file, "/etc/passwd", "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount("/etc/passwd", unix.MNT_DETACH) })
	return homes
}

// configure writes the file of one gateway that names the command.
func configure(t *testing.T, user int, home string, command ...string) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"one": map[string]any{"command": command[0], "args": command[1:]},
	}})
	ok(t, err)
	put(t, user, filepath.Join(home, ".claude.json"), b)
}
