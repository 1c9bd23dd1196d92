package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// makeRelease makes a release of what is committed, and returns its directory.
func makeRelease(t *testing.T) (dist string) {
	t.Helper()
	dir := t.TempDir()
	dist, clone, key := filepath.Join(dir, "dist"), filepath.Join(dir, "clone"), filepath.Join(dir, "key")
	for _, argv := range [][]string{{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key}, {"git", "clone", "-q", "..", clone}, {filepath.Join(clone, "scripts/release"), "v9.8.7", dist, key}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dist
}

// What a release holds installs, from npm and as a package of Debian, and runs.
func TestReleaseInstalls(t *testing.T) {
	testkit.Proof(t)
	t.Parallel()
	dist := makeRelease(t)
	installsFromNPM(t, dist)
	installsFromDebian(t, dist)
}

// npmInstall installs the packages below a prefix and returns the command.
func npmInstall(t *testing.T, dist string, flags ...string) string {
	t.Helper()
	prefix := t.TempDir()
	args := append([]string{"install", "-g", "--prefix", prefix, "--cache", t.TempDir(), "--offline", "--no-audit", "--no-fund"}, flags...)
	cmd := exec.Command("npm", append(args, filepath.Join(dist, "mcp-tether-9.8.7.tgz"), filepath.Join(dist, "mcp-tether-linux-"+nodeArch(t)+"-9.8.7.tgz"))...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(prefix, "bin/mcp-tether")
}

func nodeArch(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("node", "-p", "process.arch").Output()
	ok(t, err)
	return strings.TrimSpace(string(out))
}

// installsFromNPM leaves out install scripts, so that the launcher stays.
func installsFromNPM(t *testing.T, dist string) {
	t.Helper()
	command := npmInstall(t, dist, "--ignore-scripts")
	if o := finish(t, exec.Command(command, "--version")); o.code != 0 || !strings.HasPrefix(o.stdout, "mcp-tether version v9.8.7 (") {
		t.Errorf("%+v", o)
	}
	if o := finish(t, exec.Command(command, "run", "--", "/bin/sh", "-c", "echo \"$1\"; kill -TERM $$", "x", "a  b")); o.code != 143 || o.stdout != "a  b\n" {
		t.Errorf("%+v", o)
	}
	nothingLeft(t, command, false)
	nothingLeft(t, npmInstall(t, dist), true)
}

// nothingLeft kills what a gateway spawned. With the binary in the launcher's place, that is the anchor itself.
func nothingLeft(t *testing.T, command string, direct bool) {
	t.Helper()
	r, w, err := os.Pipe()
	ok(t, err)
	in, gateway, err := os.Pipe()
	ok(t, err)
	defer gateway.Close()
	cmd := exec.Command(command, "run", "--", "/bin/sh", "-c", "(sleep 1000 &) ; echo up; cat")
	cmd.Stdin, cmd.Stdout = in, w
	ok(t, cmd.Start())
	ok(t, w.Close())
	ok(t, in.Close())
	ok(t, r.SetReadDeadline(time.Now().Add(testkit.Patience)))
	up := make([]byte, 3)
	if _, err := r.Read(up); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Readlink("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/exe")
	if err != nil || filepath.Base(exe) == "node" == direct {
		t.Errorf("the gateway's child is %s, %v", exe, err)
	}
	ok(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	// The pipe is at its end when the last process is gone that has it.
	if n, err := r.Read(up); n > 0 || os.IsTimeout(err) {
		t.Errorf("something is left: %d, %v", n, err)
	}
}

func installsFromDebian(t *testing.T, dist string) {
	t.Helper()
	t.Run("deb", func(t *testing.T) {
		arch := map[string]string{"x64": "amd64", "arm64": "arm64"}[nodeArch(t)]
		root := t.TempDir()
		if out, err := exec.Command("dpkg-deb", "-x", filepath.Join(dist, "mcp-tether_9.8.7_"+arch+".deb"), root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if o := finish(t, exec.Command(filepath.Join(root, "usr/bin/mcp-tether"), "run", "--", "/bin/sh", "-c", "exit 4")); o.code != 4 {
			t.Errorf("%+v", o)
		}
		prerm, err := exec.Command("dpkg-deb", "-I", filepath.Join(dist, "mcp-tether_9.8.7_"+arch+".deb"), "prerm").Output()
		if err != nil || !strings.Contains(string(prerm), " unwrap ") {
			t.Errorf("%v\n%s", err, prerm)
		}
		unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/mcp-tether-reap.service"))
		if err != nil || !strings.Contains(string(unit), "ExecStart=/usr/bin/mcp-tether reap ") {
			t.Errorf("%v\n%s", err, unit)
		}
		for _, file := range []string{"usr/share/man/man1/mcp-tether-run.1.gz", "usr/share/bash-completion/completions/mcp-tether", "usr/lib/systemd/user/mcp-tether-reap.timer", "usr/share/doc/mcp-tether/docs/reference.md", "usr/share/doc/mcp-tether/copyright"} {
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Error(err)
			}
		}
	})
}

// Before the program is removed, what still starts it is named, and nothing is changed off a terminal. An upgrade says nothing.
func TestRemovalNamesConfigurations(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	const wrapped = `{"mcpServers":{"mine":{"command":"mcp-tether","args":["run","--","srv"]}}}`
	file := h.put(".cursor/mcp.json", wrapped)
	h.put(".qwen/settings.json", `{"mcpServers":{"bare":{"command":"srv"}}}`)
	for word, told := range map[string]bool{"remove": true, "upgrade": false} {
		cmd := exec.Command("sh", "../scripts/packaging/prerm", word)
		cmd.Env = []string{"HOME=" + h.dir, "PATH=/usr/bin:/bin", "PROGRAM=" + tether}
		o := finish(t, cmd)
		if o.code != 0 || strings.Contains(o.stdout, "mine: to be unwrapped") != told || strings.Contains(o.stdout, "bare") || h.text(file) != wrapped {
			t.Errorf("%s: %+v", word, o)
		}
	}
}

// The shell offers commands, the flags of each, and what they take.
func TestBashCompletion(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"mcp-tether re":                "restart reap",
		"mcp-tether run --cgroup ":     "auto off require",
		"mcp-tether wrap --dry":        "--dry-run",
		"mcp-tether wrap codex clau":   "claude claude-desktop",
		"mcp-tether run --name x -- /": "/bin",
	} {
		script := `source <(mcp-tether completion bash); COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mcp_tether; echo ${COMPREPLY[@]}`
		cmd := exec.Command("bash", "-c", script, "x", words)
		cmd.Env = []string{"PATH=" + filepath.Dir(tether) + ":/usr/bin:/bin"}
		o := finish(t, cmd)
		got := strings.TrimSpace(o.stdout)
		if words == "mcp-tether run --name x -- /" {
			if !strings.Contains(" "+got+" ", " "+want+" ") {
				t.Errorf("%s: %q", words, got)
			}
		} else if got != want {
			t.Errorf("%s: %q, want %q (%s)", words, got, want, o.stderr)
		}
	}
}
