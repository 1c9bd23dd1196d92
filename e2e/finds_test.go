package e2e

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A server finds what it would find without us, and so does the gateway at the other end of its streams. One program is
// run bare and wrapped, and what it reports is compared. What is inherited besides is in inherit_test.go.

// way is how the wrapper is run; bare when it is not.
type way struct {
	name  string
	flags []string
	uid   int
	bare  bool
}

// plain is how the wrapper is run as it comes; lowly, with as little as it can have.
var (
	plain = way{name: "as it comes"}
	lowly = way{name: "plain user, no cgroup", uid: nobody, flags: []string{"--cgroup=off"}}
)

// bareWay is the control of another way: the same user, without us.
func (w way) bareWay() way { return way{name: "bare", uid: w.uid, bare: true} }

// stream makes both ends: what the server gets, and what the gateway keeps.
func stream(t *testing.T, kind, dir string, output bool) (theirs, ours *os.File) {
	t.Helper()
	switch kind {
	case "pipe":
		r, w, err := os.Pipe()
		ok(t, err)
		if output {
			return w, r
		}
		return r, w
	case "socketpair":
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		ok(t, err)
		// Ours goes to the poller, which knows deadlines.
		ok(t, unix.SetNonblock(p[1], true))
		return os.NewFile(uintptr(p[0]), "theirs"), os.NewFile(uintptr(p[1]), "ours")
	case "terminal":
		master, slave := openPair(t)
		return slave, master
	}
	f, err := os.CreateTemp(dir, "stream")
	ok(t, err)
	ok(t, f.Chmod(0o666))
	ours, err = os.Open(f.Name())
	ok(t, err)
	return f, ours
}

// started is a server with the test as its gateway.
type started struct {
	cmd *exec.Cmd
	s   *session
}

// startAs starts a command with these streams and further descriptors, which are closed here then.
func startAs(t *testing.T, w way, streams [3]*os.File, extra []*os.File, argv ...string) started {
	t.Helper()
	g := startGatewayAs(t, w.uid)
	s := g.newSession()
	if !w.bare {
		argv = s.Wrap(quick(w.flags...), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.ExtraFiles = streams[0], extra
	if streams[1] != nil {
		cmd.Stdout, cmd.Stderr = streams[1], streams[2]
	}
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+s.Runtime)
	if w.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
	for _, f := range streams {
		// As if the gateway were that user's. Nothing that has a name is changed.
		if f != nil && w.uid != 0 && strings.HasPrefix(f.Name(), "|") {
			ok(t, f.Chown(w.uid, w.uid))
		}
	}
	ok(t, cmd.Start())
	for _, f := range slices.Concat(streams[:], extra) {
		if f != nil {
			_ = f.Close()
		}
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return started{cmd, s}
}

// closer is a server that closes descriptor 3 after one line, and ends after another line.
var closer = []string{"/bin/sh", "-c", `read -r a; exec 3>&-; read -r b; exit 0`}

// What the server closes is closed: its reader sees the end, and the server lives on.
func TestServerClosesDescriptors(t *testing.T) {
	t.Parallel()
	in, ask := stream(t, "pipe", "", false)
	defer ask.Close()
	theirs, ours := stream(t, "socketpair", "", true)
	defer ours.Close()
	run := startAs(t, plain, [3]*os.File{in}, []*os.File{theirs}, closer...)
	_, err := ask.WriteString("a\n")
	ok(t, err)
	ok(t, ours.SetReadDeadline(time.Now().Add(testkit.Patience)))
	_, err = io.Copy(io.Discard, ours)
	ok(t, err)
	_, err = ask.WriteString("b\n")
	ok(t, err)
	if err := run.cmd.Wait(); err != nil {
		t.Errorf("the server did not live until it was told to end: %v", err)
	}
}

// odd is an environment that package os would not give back: duplicates, an empty entry, some without a name or "=".
var odd = []string{"B=1", "A=first", "A=second", "", "NOTHING", "=no name", "EMPTY=", "C=a=b=c", "A=third", "\xff\xfe=\x01", "Z", ""}

// The environment is the same to the last byte, but for our variables.
func TestEnvironmentByteForByte(t *testing.T) {
	t.Parallel()
	for _, w := range []way{plain, lowly} {
		t.Run(w.name, func(t *testing.T) {
			testkit.Lacks(t, testkit.Root, !(w.uid == 0 || os.Geteuid() == 0), "root")
			t.Parallel()
			want, got := environOf(t, w.bareWay()), environOf(t, w)
			kept := slices.DeleteFunc(bytes.SplitAfter(got, []byte{0}), func(e []byte) bool {
				return bytes.HasPrefix(e, []byte("MCP_TETHER_SESSION=")) || bytes.HasPrefix(e, []byte("MCP_TETHER_GATEWAY="))
			})
			if rest := bytes.Join(kept, nil); !bytes.Equal(rest, want) {
				t.Errorf("it is\n%q\nbare it is\n%q", rest, want)
			}
			if len(got) == len(want) {
				t.Error("no mark of ours")
			}
		})
	}
}

// environOf starts a program without package os in between, and reads its environment from its own output.
func environOf(t *testing.T, w way) []byte {
	t.Helper()
	s := startGatewayAs(t, w.uid).newSession()
	argv := []string{"/bin/cat", "/proc/self/environ"}
	if !w.bare {
		argv = s.Wrap(quick(w.flags...), argv...)
	}
	r, out, err := os.Pipe()
	ok(t, err)
	defer r.Close()
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	ok(t, err)
	defer unix.Close(null)
	var as *syscall.Credential
	if w.uid != 0 {
		as = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}
	}
	// The runtime directory is not named: the record goes where it goes without one.
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: odd, Files: []uintptr{uintptr(null), out.Fd(), 2}, Sys: &syscall.SysProcAttr{Credential: as},
	})
	ok(t, err)
	ok(t, out.Close())
	all, err := io.ReadAll(r)
	ok(t, err)
	_, err = syscall.Wait4(pid, nil, 0, nil)
	ok(t, err)
	return all
}

// One Ctrl-C is one interrupt, with and without us.
func TestTerminalInterruptsOnce(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	const server = "$FIXTURE signals 9>$LIFE"
	for name, line := range map[string]string{"bare": server, "wrapped": "$TETHER " + server} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y, s := newShell(t)
			y.typed(line + "\n")
			y.ready()
			y.typed(ctrlC)
			y.expect("got 2\r")
			y.resize(40, 100)
			if found, err := y.look(testkit.Patience, "got 28\r", "got 2\r"); !found || strings.Contains(y.unread, "got 28\r") {
				t.Errorf("after one interrupt: %q, %v", y.unread, err)
			}
			y.hangUp()
			s.EndAll()
		})
	}
}

// gatewayScript is a shell as a gateway: it starts a server, and outlives its terminal.
const gatewayScript = `#!/bin/sh
mkfifo "$DIR/in"
echo $$ >"$DIR/script"
"$@" <"$DIR/in" >"$DIR/out" 9>"$LIFE" &
exec 5>"$DIR/in"
wait
`

// A script that was started under nohup is a gateway of its own: its servers live on when its terminal is closed.
func TestNohupOutlivesItsTerminal(t *testing.T) {
	t.Parallel()
	y, s := newShell(t)
	script := filepath.Join(s.Dir, "gateway.sh")
	testkit.WriteProgram(t, script, []byte(gatewayScript))
	y.typed("export DIR LIFE; nohup sh " + script + " $TETHER $FIXTURE node $DIR - 0 serve daemon >/dev/null 2>&1 &\n")
	s.WaitRecord()
	testkit.Until(t, "a server that is up", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.Dir, "out"))
		return bytes.Contains(b, []byte("ready"))
	})
	pid := s.pidIn("script")
	y.hangUp()
	_ = y.cmd.Wait()
	quiet(time.Second)
	if len(s.Events("session ended")) > 0 || !s.Alive() {
		t.Error("the session ended with the terminal")
	}
	// The control: with the script it ends.
	s.ok(syscall.Kill(pid, syscall.SIGKILL))
	s.Gone()
	s.EndedWhole("gateway-gone", "stdin-closed", "server-exited")
}

// A shell that was started for us is seen through: the terminal is the gateway, though the shell lives on.
func TestShellForUsIsSeenThrough(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	line := strings.Join(s.Wrap(deaf(), node(s.Dir, "serve,ignore-eof", "daemon")...), "' '")
	// The shell keeps standard input open and does not wait in vain for the wrapper: nothing but the gateway's end tells.
	s.Spawn(setup{Bare: true, Keys: own}, "/bin/sh", "-c", "trap '' HUP TERM; exec 7<&0; '"+line+"'; sleep 100")
	s.WaitReady()
	s.WaitRecord()
	s.gw.Kill()
	stage.AwaitExit(t, s.Server)
	testkit.Until(t, "a session that has ended", func() bool { return len(s.Records()) == 0 })
	s.EndAll()
}
