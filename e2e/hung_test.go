package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// File systems that do not answer, as those on a network that is down, and processes whose memory is on one. They cost
// what is on them, and nothing else.

// mountHung mounts a file system (fuse(4)) that has one file, "file", which can be opened and never be read. With dead set
// it never answers at all. After end, everything on it is an error.
func mountHung(t *testing.T, at string, dead bool) (end func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		testkit.Lacks(t, testkit.FUSE, true, "/dev/fuse: "+err.Error())
	}
	ok(t, os.MkdirAll(at, 0o755))
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("hung", at, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		testkit.Lacks(t, testkit.FUSE, true, "to mount fuse: "+err.Error())
	}
	end = sync.OnceFunc(func() {
		_ = unix.Close(fd)
		_ = unix.Unmount(at, unix.MNT_FORCE|unix.MNT_DETACH)
	})
	t.Cleanup(end)
	if !dead {
		go serveHung(fd)
	}
	return end
}

// serveHung answers until the file has been opened twice, the second time for direct access. Then it falls silent: no
// request to read is even taken (fixture/stuck.go).
func serveHung(fd int) {
	opened := 0
	ne := binary.NativeEndian
	attr := func(out []byte, ino uint64, mode uint32) {
		ne.PutUint64(out, ino)
		ne.PutUint64(out[8:], 4096)
		ne.PutUint32(out[60:], mode)
		ne.PutUint32(out[64:], 1)
	}
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil {
			return
		}
		opcode, unique, node := ne.Uint32(buf[4:]), ne.Uint64(buf[8:]), ne.Uint64(buf[16:])
		answer := make([]byte, 16, 256)
		body := func(size int) []byte {
			answer = answer[:16+size]
			return answer[16:]
		}
		mode := uint32(unix.S_IFREG | 0o644)
		if node == 1 {
			mode = unix.S_IFDIR | 0o755
		}
		_ = n
		switch opcode {
		case 26: // init
			b := body(64)
			ne.PutUint32(b, 7)
			ne.PutUint32(b[4:], 31)
			ne.PutUint32(b[20:], 4096)
		case 1: // lookup
			b := body(128)
			ne.PutUint64(b, 2)
			ne.PutUint64(b[16:], 3600)
			ne.PutUint64(b[24:], 3600)
			attr(b[40:], 2, unix.S_IFREG|0o644)
		case 3: // getattr
			b := body(104)
			ne.PutUint64(b, 3600)
			attr(b[16:], node, mode)
		case 14: // open; closing the file asks nothing (FOPEN_NOFLUSH)
			ne.PutUint32(body(16)[8:], 1<<5|uint32(opened))
			opened++
		default:
			ne.PutUint32(answer[4:], ^uint32(unix.ENOSYS)+1)
		}
		ne.PutUint32(answer, uint32(len(answer)))
		ne.PutUint64(answer[8:], unique)
		if _, err := unix.Write(fd, answer); err != nil {
			return
		}
		if opened == 2 {
			return
		}
	}
}

// startStuck starts a process of a user that keeps whoever reads its command line waiting.
func startStuck(t *testing.T, user int, at string) (pid int) {
	t.Helper()
	end := mountHung(t, at, false)
	cmd := exec.Command(fixture, "stuck", filepath.Join(at, "file"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); end(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	awaitStuck(t, cmd.Process.Pid)
	return cmd.Process.Pid
}

// awaitStuck waits until the command line of a process cannot be read any more: the control. Whoever reads it then waits in
// the kernel (state D), and waits still at the next look.
func awaitStuck(t *testing.T, pid int) {
	t.Helper()
	var r *cmdlineReader
	waits := false
	testkit.Until(t, "a process that keeps its readers waiting", func() bool {
		if r == nil || r.done.Load() {
			r, waits = readCmdline(pid), false
			return false
		}
		before := waits
		waits = r.state(t) == "D"
		return before && waits && !r.done.Load()
	})
}

// cmdlineReader is a thread that reads a process's command line.
type cmdlineReader struct {
	tid  int
	done atomic.Bool
}

func readCmdline(pid int) *cmdlineReader {
	r, tid := &cmdlineReader{}, make(chan int)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid <- unix.Gettid()
		_, _ = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		r.done.Store(true)
	}()
	r.tid = <-tid
	return r
}

// state is that of the thread, see proc_pid_stat(5).
func (r *cmdlineReader) state(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", r.tid))
	ok(t, err)
	_, rest, _ := strings.Cut(string(b), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// mostReap is the --timeout of a reap that meets something that does not answer. A reap that waits for it uses all of that up.
const mostReap = testkit.Patience

// gaveUp fails the test if a pass has used up its time.
func gaveUp(t *testing.T, o outcome) {
	t.Helper()
	if strings.Contains(o.stderr, "gave up after") {
		t.Errorf("it took all that it was given: %s", o.stderr)
	}
}

// A process whose command line cannot be read is unknown. It is named, and the exit code says so. What is left of the
// same user's other sessions is ended all the same. A finding that the unknown process is part of stays.
func TestReapAndStuckProcess(t *testing.T) {
	testkit.Long(t)
	for _, c := range []struct {
		owner int
		who   caller
	}{{0, operator}, {nobody, operator}} {
		t.Run(fmt.Sprintf("of %d, for %d", c.owner, c.who.uid), func(t *testing.T) {
			t.Parallel()
			if !onOwnHostAlone(t) {
				return
			}
			dir := dirOf(c.owner)
			stuck := startStuck(t, c.owner, "/tmp/hung")
			leftover := startInnocent(t, c.owner)
			outgrow(t)
			forge(t, c.owner, dir, nil, leftover.pid)
			forge(t, c.owner, dir, func(p *page) { p.ID = "00000000000000aa" }, stuck)
			metrics := filepath.Join(t.TempDir(), "m.prom")
			o := c.who.run(t, "reap", "--kill", "--timeout="+mostReap.String(), "--json", "--metrics-file="+metrics)
			r := parseSweep(t, 2, o)
			gaveUp(t, o)
			if leftover.answers() == nil {
				t.Errorf("%+v: what is left lives: %s", c, o.stdout)
			}
			if unix.Kill(stuck, 0) != nil {
				t.Errorf("%+v: what cannot be looked at was ended", c)
			}
			if len(r.Incomplete) == 0 || !strings.Contains(r.Incomplete[0], fmt.Sprintf("pid %d (fixture)", stuck)) {
				t.Errorf("%+v: incomplete: %q", c, r.Incomplete)
			}
			if b, _ := os.ReadFile(metrics); !strings.Contains(string(b), "\nmcp_tether_incomplete 1\n") {
				t.Errorf("%+v: metrics: %s", c, b)
			}
			if _, err := os.Stat(filepath.Join(dir, "00000000000000aa.json")); err != nil {
				t.Errorf("%+v: the record of what was left alone: %v", c, err)
			}
			_ = syscall.Kill(stuck, syscall.SIGKILL)
			_ = os.RemoveAll(dir)
		})
	}
}

// A living session with such a process is shown by its record, and the others as they are.
func TestPsAndStuckProcess(t *testing.T) {
	if !onOwnHostAlone(t) {
		return
	}
	stuck := startStuck(t, 0, "/tmp/hung")
	other := startInnocent(t, 0)
	for id, pid := range map[string]int{"00000000000000aa": os.Getpid(), "00000000000000bb": other.pid} {
		forge(t, 0, "/run/mcp-tether", func(p *page) { p.ID, p.Supervisor = id, markOf(t, pid) }, stuck)
		hold(t, "/run/mcp-tether/"+id+".json")
	}
	o := operator.run(t, "ps", "--json")
	var answer struct {
		Sessions []struct{ ID, Unknown string }
	}
	ok(t, json.Unmarshal([]byte(o.stdout), &answer))
	for _, l := range answer.Sessions {
		if (l.Unknown != "") != (l.ID == "00000000000000aa") {
			t.Errorf("%+v", l)
		}
	}
	if o.code != 2 || len(answer.Sessions) != 2 || !strings.Contains(o.stderr, "keeps its readers waiting") {
		t.Errorf("exit code %d, %s%s", o.code, o.stdout, o.stderr)
	}
}

// A home, a directory of records or an engine's socket on a file system that does not answer costs what is in it.
func TestReapAndHungFileSystem(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	homes := homeOf(t, 0, mallory, nobody)
	const gone = "/tmp/gone"
	mountHung(t, gone, true)
	for name, lay := range map[string]func() (c caller, undo func()){
		"configuration": func() (caller, func()) {
			file := filepath.Join(homes[0], ".claude.json")
			ok(t, os.Symlink(gone+"/claude.json", file))
			return caller{env: []string{"HOME=" + homes[0]}}, func() { ok(t, os.Remove(file)) }
		},
		"engine in a record": func() (caller, func()) {
			victim := startInnocent(t, 0)
			forge(t, 0, "/run/mcp-tether", func(p *page) { p.ID, p.Engine, p.EngineUsed = "00000000000000aa", "unix://"+gone+"/e.sock", true }, victim.pid)
			return operator, func() {
				if o := operator.run(t, "reap", "--forget=00000000000000aa"); o.code != 0 {
					t.Errorf("forget: exit code %d, %s", o.code, o.stderr)
				}
			}
		},
		"another user's engine": func() (caller, func()) {
			victim := startInnocent(t, mallory)
			forge(t, mallory, malloryDir, func(p *page) { p.Engine, p.EngineUsed = "unix://"+gone+"/e.sock", true }, victim.pid)
			return operator, func() { _ = os.RemoveAll(malloryDir) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			leftover := startInnocent(t, 0)
			outgrow(t)
			forge(t, 0, "/run/mcp-tether", nil, leftover.pid)
			c, undo := lay()
			o := c.run(t, "reap", "--kill", "--timeout="+mostReap.String(), "--json")
			gaveUp(t, o)
			if r := parseSweep(t, 2, o); len(r.Incomplete) == 0 {
				t.Errorf("nothing is said to be missing: %s%s", o.stdout, o.stderr)
			}
			if leftover.answers() == nil {
				t.Errorf("what is left lives: %s%s", o.stdout, o.stderr)
			}
			undo()
			if r := operator.reap(t, 0, "--kill"); len(r.Findings)+len(r.Incomplete) > 0 { // the control
				t.Errorf("without it: %v, %q", r.Findings, r.Incomplete)
			}
		})
	}
	// Without the records it is not known which processes are looked after: only what was never wrapped is judged.
	t.Run("records", func(t *testing.T) {
		s := dead(t)
		o := (caller{runtime: gone}).run(t, "reap", "--kill", "--json", "--timeout=30s")
		r := parseSweep(t, 2, o)
		if len(r.Findings) > 0 || len(r.Incomplete) == 0 || len(s.Members()) == 0 {
			t.Errorf("%s%s", o.stdout, o.stderr)
		}
		operator.reap(t, 0, "--kill")
		s.swept()
	})
}

// A pass that has ended something says so in time, whatever its history is on.
func TestReapAndHungHistory(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const gone = "/tmp/gone"
	mountHung(t, gone, true)
	leftover := startInnocent(t, 0)
	outgrow(t)
	forge(t, 0, "/run/mcp-tether", nil, leftover.pid)
	c := caller{env: []string{"HOME=/nonexistent", "XDG_STATE_HOME=" + gone}}
	if o := c.run(t, "reap", "--kill", "--containers=off", "--timeout=3s"); o.code != 0 || !strings.Contains(o.stdout, "ended") {
		t.Errorf("exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if leftover.answers() == nil {
		t.Error("what is left lives")
	}
}
