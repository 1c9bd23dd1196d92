package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// newcomer is a user with a fresh clone, a home and a terminal of 80x24, who is not root.
type newcomer struct {
	t                 *testing.T
	dir, home, socket string
	uid, said         int // said counts its commands
}

// asNewcomer runs a command as the newcomer. Root's build cache lies where others may not look: the newcomer has it in a mount
// namespace, below a layer of its own, and would else compile the standard library.
const asNewcomer = `caches=$1 uid=$2 build=$3 modules=$4; shift 4
mkdir "$caches/layer" && mount -t tmpfs none "$caches/layer" && cd "$caches/layer" && mkdir upper work build modules
mount -t overlay -o "lowerdir=$build,upperdir=$PWD/upper,workdir=$PWD/work" none build 2>/dev/null
mount --bind "$modules" modules && chown "$uid" build build/?? 2>/dev/null
export GOCACHE="$PWD/build" GOMODCACHE="$PWD/modules" GOPROXY=off
exec setpriv --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all "$@"`

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	for _, program := range []string{"tmux", "make", "tar", "setpriv"} {
		_, err := exec.LookPath(program)
		testkit.Lacks(t, testkit.Tools, err != nil, program)
	}
	dir := t.TempDir()
	n := &newcomer{t: t, dir: dir, home: filepath.Join(dir, "home"), socket: filepath.Join(dir, "tmux"), uid: os.Geteuid()}
	for _, d := range []string{n.home, filepath.Join(dir, "clone"), filepath.Join(dir, "run")} {
		ok(t, os.Mkdir(d, 0o700))
	}
	clone := `cd .. && { git -c safe.directory="$PWD" ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -type f ! -path '*/node_modules/*' ! -path './bin/*' -print0; } |
		xargs -0 tar -c --ignore-failed-read | tar -x -C "$1"`
	if o := finish(t, exec.Command("sh", "-c", clone, "clone", filepath.Join(dir, "clone"))); o.code != 0 {
		t.Fatalf("clone: %+v", o)
	}
	env := []string{"HOME=" + n.home, "PATH=" + n.home + "/.local/bin:" + filepath.Dir(lookPath(t, "go")) + ":/usr/local/bin:/usr/bin:/bin", "TERM=screen", "LANG=C.UTF-8", "SHELL=/bin/sh", "PS1=$ ", "TMUX_TMPDIR=" + dir,
		"XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "GOFLAGS=-buildvcs=false"}
	start := []string{"tmux", "-u", "-S", n.socket, "-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "-c", filepath.Join(dir, "clone"), "sh"}
	if n.uid == 0 {
		n.uid = ownUser(t) // whose ps shows no session of another test
		ok(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)))
		ok(t, exec.Command("chown", "-R", fmt.Sprint(n.uid, ":", n.uid), n.home, filepath.Join(dir, "clone"), filepath.Join(dir, "run")).Run())
		// The socket of its terminal.
		n.socket = filepath.Join(dir, "run", "tmux")
		start[3] = n.socket
		start = append([]string{"unshare", "--mount", "sh", "-c", asNewcomer, "newcomer", dir, fmt.Sprint(n.uid), goEnv(t, "GOCACHE"), goEnv(t, "GOMODCACHE")}, start...)
	} else {
		env = append(env, "GOCACHE="+goEnv(t, "GOCACHE"), "GOMODCACHE="+goEnv(t, "GOMODCACHE"))
	}
	cmd := exec.Command(start[0], start[1:]...)
	cmd.Env = env
	if o := finish(t, cmd); o.code != 0 {
		t.Fatalf("start the terminal: %+v", o)
	}
	t.Cleanup(func() { _ = n.tmux("kill-server").Run() })
	return n
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	ok(t, err)
	return strings.TrimSpace(string(out))
}

func (n *newcomer) tmux(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", n.socket}, args...)...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(n.uid), Gid: uint32(n.uid)}}
	}
	return cmd
}

// presses goes in as from the keyboard.
func (n *newcomer) presses(keys string) {
	n.t.Helper()
	ok(n.t, n.tmux("send-keys", "-t", ":0", "-l", keys).Run())
}

// types is presses, and then Enter.
func (n *newcomer) types(text string) {
	n.t.Helper()
	n.presses(text)
	ok(n.t, n.tmux("send-keys", "-t", ":0", "Enter").Run())
}

// screen is what the terminal shows, without empty lines at its end.
func (n *newcomer) screen(flags ...string) string {
	out, _ := n.tmux(append([]string{"capture-pane", "-p", "-t", ":0"}, flags...)...).Output()
	return strings.TrimRight(string(out), "\n ")
}

// sees waits until all of this is on the screen.
func (n *newcomer) sees(texts ...string) string {
	n.t.Helper()
	var screen string
	defer func() {
		if n.t.Failed() {
			n.t.Logf("the screen:\n%s", screen)
		}
	}()
	testkit.Until(n.t, fmt.Sprintf("%q on the screen", texts), func() bool {
		screen = n.screen()
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
	return screen
}

// says runs a command on an empty screen, and returns what it shows when it has ended with the exit code. No line of it is longer
// than the terminal is wide: a terminal's own breaks go when lines are joined.
func (n *newcomer) says(code int, command string, texts ...string) string {
	n.t.Helper()
	n.said++
	n.types(fmt.Sprintf(`clear; %s; echo "exit $? of %d."`, command, n.said))
	screen := n.sees(append(texts, fmt.Sprintf("exit %d of %d.", code, n.said))...)
	if joined := n.screen("-J"); strings.Count(joined, "\n") != strings.Count(screen, "\n") {
		n.t.Errorf("%s: lines are longer than 80 columns:\n%s", command, joined)
	}
	return screen
}

// files are the files below the home with their texts. Where the go command counts for itself is none of ours.
func (n *newcomer) files() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	ok(n.t, filepath.WalkDir(n.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(path, n.home+"/.config/go/") {
			return err
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, n.home+"/")] = string(text)
		return err
	}))
	return all
}

// processes are those of its servers: each has this in its command line.
func (n *newcomer) processes(mark string) []proc { return stage.Saying("^sleep\x00" + mark) }

// The first five minutes of a new user, who is not root: install, wrap two clients but for one server, ps, stop, history, uninstall,
// and nothing is left.
func TestFirstFiveMinutes(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	n := newNewcomer(t)
	mark := fmt.Sprintf("1000.%d", os.Getpid())
	// Each server has a helper that detaches itself.
	server := `"-c", "setsid sleep ` + mark + ` & exec cat"`
	codex := "[mcp_servers.files]\ncommand = \"sh\" # mine\nargs = [" + server + "]\n\n[mcp_servers.bare]\ncommand = \"sh\"\nargs = [" + server + "]\n"
	cursor := "{\n  \"mcpServers\": { \"web\": {\"command\": \"sh\", \"args\": [" + server + "]} }\n}"
	for file, text := range map[string]string{".codex/config.toml": codex, ".cursor/mcp.json": cursor} {
		dir := filepath.Join(n.home, filepath.Dir(file))
		ok(t, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(n.home, file), []byte(text), 0o600)))
	}
	if os.Geteuid() == 0 {
		ok(t, exec.Command("chown", "-R", fmt.Sprint(n.uid, ":", n.uid), n.home).Run())
	}
	before := n.files()

	n.types("make install PREFIX=~/.local && echo inst''alled")
	n.sees("installed")
	n.says(0, "mcp-tether version", "mcp-tether version ")
	n.types("clear; mcp-tether wrap --server files --server web")
	for _, client := range []string{"Codex", "Cursor"} {
		n.sees("Wrap 1 server of " + client + "?")
		n.types("y")
	}
	n.sees("start again:", "Codex", "Cursor")
	const wrapped = `"run", "--name", "files", "--", "sh", `
	if now := n.files(); !strings.Contains(now[".codex/config.toml"], "command = \"mcp-tether\" # mine\nargs = ["+wrapped) || strings.Count(now[".codex/config.toml"], "mcp-tether") != 1 ||
		!strings.Contains(now[".cursor/mcp.json"], `"mcp-tether"`) {
		t.Errorf("after wrap: %q", now)
	}

	// The clients start what their configurations name, the declined one bare.
	sh := " sh -c 'setsid sleep " + mark + " & exec cat'"
	gateway := "PATH=$HOME/.local/bin:$PATH; sleep " + mark + " | mcp-tether run --name files --" + sh + " & sleep " + mark + " | mcp-tether run --name web --" + sh + " & sleep " + mark + " |" + sh + " & wait"
	ok(t, n.tmux("new-window", "-d", "sh", "-c", gateway).Run())
	testkit.Until(t, "three servers with their helpers", func() bool { return len(n.processes(mark)) == 6 })
	n.says(0, "mcp-tether ps", "SESSION ", "files ", "web ", "running ")
	n.says(0, "mcp-tether stop --name files", "ended ", " files")
	if screen := n.says(0, "mcp-tether ps $(mcp-tether ps -q)", "NAME ", "web", "sleep "+mark); strings.Contains(screen, "files") {
		t.Errorf("after stop:\n%s", screen)
	}
	n.says(0, "mcp-tether history", "files", "WHY")
	n.types("clear; mcp-tether ps --watch")
	n.sees("> ", " web ", "q: quit")
	n.presses("s")
	n.sees(" web? y/n")
	n.presses("y")
	n.sees("ended ", " web")
	n.presses("q")
	n.sees("$") // What is typed before is read as keys.
	n.says(0, "mcp-tether ps", "no living sessions")

	// The gateway goes. Only the helper of the declined server stays, and shows that helpers are seen here.
	ok(t, n.tmux("kill-window", "-t", ":1").Run())
	testkit.Until(t, "the end of all but one", func() bool { return len(n.processes(mark)) == 1 })
	for _, p := range n.processes(mark) {
		ok(t, p.Signal(unix.SIGKILL))
	}
	n.types("clear; make uninstall PREFIX=~/.local && echo uninst''alled")
	for _, client := range []string{"Codex", "Cursor"} {
		n.sees("Unwrap 1 server of " + client + "?")
		n.types("y")
	}
	n.sees("start again:", "uninstalled")
	n.says(0, "rm -r ~/.local/state/mcp-tether") // as README says
	n.says(127, "mcp-tether ps")
	after := n.files()
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s has changed:\n%s", name, after[name])
		}
		delete(after, name)
	}
	for name := range after {
		t.Errorf("left: %s", name)
	}
	if left := n.processes(mark); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(n.dir, "run/mcp-tether/*.json")); len(left) > 0 {
		t.Errorf("records left: %v", left)
	}
}
