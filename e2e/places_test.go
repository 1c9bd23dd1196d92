package e2e

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// Whatever launches the server, and wherever the gateway puts that, it says and ends as bare, and nothing else is signalled.

// spot is a place where a gateway puts what it starts.
type spot struct {
	name string
	// group: it leads a process group of its own; session: or a terminal session. Otherwise others are in its group.
	group, session bool
	// terminal: that session has a controlling terminal; keyboard: which is standard input and output as well.
	terminal, keyboard bool
	// sockets are standard input and output, instead of pipes.
	sockets bool
	// words stand before the command.
	words []string
}

// A shell in a terminal that starts the command: in its own group, or as a job, which has the terminal or has not. It says so if it
// has outlived the command.
const outlives = `; code=$?; echo "the shell lives"; exit $code`

var (
	inShell  = []string{"/bin/sh", "-c", `"$@"` + outlives, "sh"}
	asJob    = []string{"bash", "--norc", "-ic", `"$@"` + outlives, "bash"}
	asJobOff = []string{"bash", "-c", `set -m; "$@" <&0 & wait $!` + outlives, "bash"}
)

var spots = []spot{
	{name: "group of others"},
	{name: "own group", group: true},
	{name: "own session", session: true},
	{name: "sockets", sockets: true},
	{name: "ignored signals", words: []string{"FIXTURE", "under", "ignore=1,13,17", "--", "/usr/bin/env"}},
	{name: "leads a terminal", session: true, terminal: true},
	{name: "group of a shell", session: true, terminal: true, words: inShell},
	{name: "background job", session: true, terminal: true, words: asJobOff},
	{name: "at a terminal", session: true, terminal: true, keyboard: true},
	{name: "job", session: true, terminal: true, keyboard: true, words: asJob},
}

// answers is a server: it reads a line, answers, and ends with 7.
var answers = []string{"/bin/sh", "-c", `read -r line; echo "got $line"; exit 7`}

// tells is one that says where it finds itself.
const tells = `read -r pid name state parent group session tty front rest </proc/$$/stat; read -r line
echo "leads group $((pid == group)), session $((pid == session)); has a terminal $((tty != 0)), is in front $((group == front))"`

// by are the ways to launch it.
var by = []struct {
	name string
	argv []string
}{
	{"itself", answers},
	{"place", []string{"/bin/sh", "-c", tells}},
	{"sh -c", []string{"/bin/sh", "-c", quote(answers) + "; exit $?"}},
	{"npx", inShells(3)(answers)},
	{"kill own group", []string{"bash", "-c", quote(answers) + "; kill -- -$$ 2>/dev/null; echo no group; exit 5"}},
	{"kill 0", []string{"/bin/sh", "-c", quote(answers) + "; kill 0; exit 5"}},
	{"setsid", append([]string{"setsid"}, answers...)},
	{"setsid -w", append([]string{"setsid", "-w"}, answers...)},
	{"setsid -f", append([]string{"setsid", "-f"}, answers...)},
	{"nohup", append([]string{"nohup"}, answers...)},
	{"script", []string{"script", "-qec", quote(answers), "/dev/null"}},
	{"bash -ic", []string{"bash", "--norc", "-ic", quote(answers)}},
	{"flock", append([]string{"flock", "DIR/lock"}, answers...)},
	{"unshare", append([]string{"unshare", "-r", "--pid", "--fork"}, answers...)},
	{"env -i", append([]string{"env", "-i"}, answers...)},
	{"timeout", append([]string{"timeout", "60"}, answers...)},
}

// differs are the results that cannot be the bare ones (docs/guarantees.md). Behind each is that of the wrapper.
var differs = map[string]string{
	// The terminal session is the supervisor's. It has a terminal only where that is standard input.
	"own session/place":       "leads group 1, session 0; has a terminal 0, is in front 0; exit 0",
	"leads a terminal/place":  "leads group 1, session 0; has a terminal 0, is in front 0; exit 0",
	"group of a shell/place":  "leads group 0, session 0; has a terminal 0, is in front 0; the shell lives; exit 0",
	"background job/place":    "leads group 1, session 0; has a terminal 0, is in front 0; the shell lives; exit 0",
	"background job/bash -ic": "got x; the shell lives; exit 7", // Bare it is stopped, as it wants the terminal.
	// On a terminal the group is the job's, which the anchor leads.
	"at a terminal/place":          "leads group 0, session 0; has a terminal 1, is in front 1; exit 0",
	"at a terminal/setsid":         "got x; exit 7",
	"at a terminal/kill own group": "got x; no group; exit 5",
	"at a terminal/timeout":        "lives on",
	"job/place":                    "leads group 0, session 0; has a terminal 1, is in front 1; the shell lives; exit 0",
	"job/setsid":                   "got x; the shell lives; exit 7",
	"job/kill own group":           "got x; no group; the shell lives; exit 5",
	"job/timeout":                  "lives on",
	// A group is never shared with anything else.
	"group of others/kill 0":  "got x; exit 143",
	"sockets/kill 0":          "got x; exit 143",
	"ignored signals/kill 0":  "got x; exit 143",
	"group of a shell/kill 0": "got x; the shell lives; exit 143",
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, p := range spots {
		for _, l := range by {
			if p.name == "ignored signals" && l.name == "script" {
				continue // Without SIGCHLD it never ends.
			}
			t.Run(p.name+"/"+l.name, func(t *testing.T) {
				sample(t, 2)
				lookPath(t, "bash")
				lookPath(t, l.argv[0])
				t.Parallel()
				other, known := differs[p.name+"/"+l.name]
				bare, wrapped := p.play(t, l.argv, true, false), p.play(t, l.argv, false, strings.HasSuffix(other, "lives on"))
				if same := wrapped == bare; same == known || known && wrapped != other {
					t.Errorf("\nbare    %q\nwrapped %q\nknown   %q", bare, wrapped, other)
				}
			})
		}
	}
}

// play starts a command there, says a line to it, and returns what it said, how it ended, and whether others were hit.
func (p spot) play(t *testing.T, argv []string, bare, livesOn bool) string {
	t.Helper()
	s := startGateway(t).newSession()
	if !bare {
		argv = s.Wrap(quick(), argv...)
	}
	argv = slices.Concat(p.words, argv)
	for i := range argv {
		argv[i] = strings.NewReplacer("FIXTURE", fixture, "DIR", s.Dir).Replace(argv[i])
	}
	others, unhurt := otherGroup(t)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), "XDG_RUNTIME_DIR="+s.Runtime, "TERM=dumb", "HISTFILE=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !p.session, Setsid: p.session, Setctty: p.terminal}
	if !p.group && !p.session {
		cmd.SysProcAttr.Pgid = others
	}
	say, hear := p.connect(t, cmd)
	defer say.Close()
	defer hear.Close()
	_, _ = say.WriteString("x\n") // Who reads it may be dead.
	limit := testkit.Patience
	if livesOn {
		limit = 2 * time.Second
	}
	ok(t, hear.SetReadDeadline(time.Now().Add(limit)))
	said, err := io.ReadAll(hear)
	words := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(said), "\r", "")), "\n")
	words = slices.DeleteFunc(words, func(w string) bool { return w == "x" || w == "" }) // The terminal's echo, or not.
	slices.Sort(words)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return strings.Join(append(words, "lives on"), "; ")
	}
	_ = cmd.Wait()
	code := exitCode(cmd.ProcessState)
	if code == 0 {
		// A launcher that forks: what it leaves may say something still, or not.
		words = slices.DeleteFunc(words, func(w string) bool { return w == "got x" })
	}
	words = append(words, "exit "+strconv.Itoa(code))
	if !unhurt() {
		words = append(words, "others are dead")
	}
	return strings.Join(words, "; ")
}

// exitCode is that of a shell.
func exitCode(state *os.ProcessState) int {
	if ws := state.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// otherGroup is a process group of the gateway's. unhurt tells whether no signal has ended it.
func otherGroup(t *testing.T) (group int, unhurt func() bool) {
	t.Helper()
	cmd := exec.Command("cat")
	hold, err := cmd.StdinPipe()
	ok(t, err)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ok(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = hold.Close() })
	return cmd.Process.Pid, func() bool {
		_ = hold.Close()
		return cmd.Wait() == nil
	}
}

// connect starts the command with streams of the place's kind, and returns the other ends.
func (p spot) connect(t *testing.T, cmd *exec.Cmd) (say, hear *os.File) {
	t.Helper()
	kind := "pipe"
	if p.sockets {
		kind = "socketpair"
	}
	in, say := stream(t, kind, "", false)
	out, hear := stream(t, kind, "", true)
	cmd.Stdin, cmd.Stdout = in, out
	given := []*os.File{in, out}
	if p.terminal {
		master, slave := openPair(t)
		t.Cleanup(func() { _ = master.Close() })
		given = append(given, slave)
		cmd.ExtraFiles, cmd.SysProcAttr.Ctty = []*os.File{slave}, 3
		if p.keyboard {
			cmd.Stdin, cmd.Stdout, cmd.ExtraFiles, cmd.SysProcAttr.Ctty = slave, slave, nil, 0
			say, hear = master, master
		}
	}
	ok(t, cmd.Start())
	for _, f := range given {
		_ = f.Close()
	}
	return say, hear
}

// The gateway's pid is in the environment. The control is the parent, which bare is the gateway.
func TestGatewayIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shells int
		flags  []string
	}{
		"itself": {}, "behind shells": {shells: 2},
		"front": {flags: []string{"--keep-stderr", "--stdout-guard=false"}}, "front, behind a shell": {1, []string{"--keep-stderr", "--stdout-guard=false"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startGateway(t).newSession()
			argv := s.Wrap(quick(c.flags...), "/bin/sh", "-c", `read -r line; echo "${MCP_TETHER_GATEWAY%%:*} $PPID"`)
			s.Spawn(setup{Bare: true}, inShells(c.shells)(argv)...)
			gateway, parent, _ := strings.Cut(strings.TrimSpace(s.Ask("x")), " ")
			if want := strconv.Itoa(s.gw.PID); gateway != want || parent == want || parent == "" {
				t.Errorf("gateway %q, parent %q; the gateway is %s", gateway, parent, want)
			}
			wantExit(t, s.Wait(), "exit 0")
		})
	}
}

// A shared server has several gateways. What it is told of is its host.
func TestGatewayOfASharedServer(t *testing.T) {
	t.Parallel()
	s := share(t)
	s.client()
	mark := "MCP_TETHER_GATEWAY=" + strconv.Itoa(s.host()) + ":"
	if env := stage.Describe(s.server()).Environ(); !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, mark) }) {
		t.Errorf("no %s in %q", mark, env)
	}
}
