package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// makeRelease makes a release of what is committed, and returns its directory and the clone that it was made from.
func makeRelease(t *testing.T, key string) (dist, clone string) {
	t.Helper()
	dir := t.TempDir()
	dist, clone = filepath.Join(dir, "dist"), filepath.Join(dir, "clone")
	for _, argv := range [][]string{{"git", "clone", "-q", "..", clone}, {filepath.Join(clone, "scripts/release"), "v9.8.7", dist, key}} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dist, clone
}

// newKey makes a key and a file by which it may sign releases.
func newKey(t *testing.T) (key, signers string) {
	t.Helper()
	key = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	ok(t, err)
	signers = filepath.Join(filepath.Dir(key), "signers")
	ok(t, os.WriteFile(signers, append([]byte("release "), public...), 0o600))
	return key, signers
}

// A release that is signed, and built again from its commit, is the same byte for byte. What is changed is found: by the sums, by
// the signature, and by the second build where the releaser has signed what the commit does not give.
func TestReleaseIsVerified(t *testing.T) {
	testkit.Long(t)
	key, signers := newKey(t)
	_, strangers := newKey(t)
	dist, clone := makeRelease(t, key)
	verify := func(signers string) outcome {
		return finish(t, exec.Command(filepath.Join(clone, "scripts/verify"), dist, signers))
	}
	refused := func(signers, why string) {
		t.Helper()
		if o := verify(signers); o.code != 1 || !strings.Contains(o.stderr, why) {
			t.Errorf("%+v, want %q", o, why)
		}
	}
	refused(strangers, "not signed by such a key")
	extra := filepath.Join(dist, "extra.tgz")
	ok(t, os.WriteFile(extra, nil, 0o600))
	refused(signers, "does not name extra.tgz")
	ok(t, os.Remove(extra))
	const bill = "mcp-tether-9.8.7-linux-arm64.cdx.json"
	f, err := os.OpenFile(filepath.Join(dist, bill), os.O_APPEND|os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteString("\n")
	ok(t, errors.Join(err, f.Close()))
	refused(signers, "not the one that SHA256SUMS names")
	resign := exec.Command("sh", "-ec", `rm SHA256SUMS*; sha256sum -- * >"$1/sums"; mv "$1/sums" SHA256SUMS; ssh-keygen -q -Y sign -f "$2" -n mcp-tether SHA256SUMS`, "x", t.TempDir(), key)
	resign.Dir = dist
	if out, err := resign.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o := verify(signers)
	if want := "differs: SHA256SUMS\ndiffers: " + bill + "\n"; o.code != 1 || !strings.HasSuffix(o.stdout, "again\n"+want) {
		t.Errorf("%+v\nwant at its end %s", o, want)
	}
	namesAll(t, dist)
	installsFromNPM(t, dist)
	installsFromDebian(t, dist)
}

// namesAll checks that the provenance is about every file that the sums are about, but for itself.
func namesAll(t *testing.T, dist string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dist, "mcp-tether-9.8.7.intoto.json"))
	ok(t, err)
	var statement struct {
		Subject []struct{ Name string }
	}
	ok(t, json.Unmarshal(text, &statement))
	if len(statement.Subject) != 9 {
		t.Errorf("%+v", statement)
	}
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

func installsFromNPM(t *testing.T, dist string) {
	t.Helper()
	for name, flags := range map[string][]string{"with scripts": nil, "without scripts": {"--ignore-scripts"}} {
		t.Run("npm "+name, func(t *testing.T) {
			command := npmInstall(t, dist, flags...)
			o := finish(t, exec.Command(command, "--version"))
			if o.code != 0 || !strings.HasPrefix(o.stdout, "mcp-tether version v9.8.7 (") {
				t.Errorf("%+v", o)
			}
			if o := finish(t, exec.Command(command, "run", "--", "/bin/sh", "-c", "echo \"$1\"; kill -TERM $$", "x", "a  b")); o.code != 143 || o.stdout != "a  b\n" {
				t.Errorf("%+v", o)
			}
			nothingLeft(t, command, name == "with scripts")
			wrapsWithNPM(t, command)
		})
	}
}

// wrapsWithNPM writes the path of the program that npm has installed, and doctor has nothing against that program.
func wrapsWithNPM(t *testing.T, command string) {
	t.Helper()
	h := newWrapHome(t)
	file := h.put(".mcp.json", `{"mcpServers":{"z":{"command":"npx"}}}`)
	for _, args := range [][]string{{"wrap", "--yes", "--absolute", "./.mcp.json"}, {"doctor"}} {
		cmd := exec.Command(command, args...)
		cmd.Env, cmd.Dir = []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(command) + ":" + os.Getenv("PATH")}, h.dir
		o := finish(t, cmd)
		if args[0] == "wrap" && (o.code != 0 || !strings.Contains(h.text(file), `{"args":["run", "--name", "z", "npx"], "command":"`) || !strings.Contains(h.text(file), `/mcp-tether"}`)) {
			t.Errorf("%+v\n%s", o, h.text(file))
		}
		if args[0] == "doctor" && strings.Contains(o.stdout, "remove one of the two") {
			t.Errorf("%+v", o)
		}
	}
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
	if err := r.SetReadDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
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
		"mcp-tether re":                "reap",
		"mcp-tether run --hib":         "--hibernate --hibernate-anyway",
		"mcp-tether run --cgroup ":     "auto off require",
		"mcp-tether run --share-asks ": "certain in-call",
		"mcp-tether run --name ":       "",
		"mcp-tether completion ":       "bash zsh fish",
		"mcp-tether help st":           "stop",
		"mcp-tether wrap --dry":        "--dry-run",
		"mcp-tether wrap codex clau":   "claude claude-desktop",
		"mcp-tether ps --un":           "",
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

// systemd takes the units: every directive is one that it knows, and what they name is there.
func TestUnitsAreUnderstood(t *testing.T) {
	_, err := exec.LookPath("systemd-analyze")
	testkit.Need(t, err == nil, "systemd-analyze")
	dir := t.TempDir()
	files, err := filepath.Glob("../scripts/packaging/*/*.[st]*")
	ok(t, err)
	var units []string
	for _, f := range files {
		if !slices.Contains([]string{".service", ".timer", ".socket"}, filepath.Ext(f)) {
			continue
		}
		text, err := os.ReadFile(f)
		ok(t, err)
		// Programs that are not installed here.
		fixed := strings.NewReplacer("/usr/bin/mcp-tether", tether, "/usr/local/bin/my-gateway", "/bin/true", "User=agent", "User=root", "Documentation=", "#").Replace(string(text))
		unit := filepath.Join(dir, filepath.Base(f))
		ok(t, os.WriteFile(unit, []byte(fixed), 0o644))
		if name := filepath.Base(f); !strings.Contains(name, "@.") {
			units = append(units, unit)
		}
	}
	if len(units) != 4 {
		t.Errorf("units: %v", units)
	}
	verify := func(units []string) outcome {
		cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...)
		cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":/usr/lib/systemd/system", "SYSTEMD_LOG_LEVEL=warning")
		return finish(t, cmd)
	}
	o := verify(units)
	for line := range strings.SplitSeq(o.stderr, "\n") {
		if strings.Contains(line, dir) || strings.Contains(line, "mcp-tether") || strings.Contains(line, "everything") {
			t.Error(line)
		}
	}
	// The control.
	bad := filepath.Join(dir, "bad.service")
	ok(t, os.WriteFile(bad, []byte("[Service]\nExecStart=/nonexistent/x\nNoSuchThing=1\n"), 0o644))
	if o := verify([]string{bad}); !strings.Contains(o.stderr, "NoSuchThing") {
		t.Errorf("a unit with a mistake: %+v", o)
	}
}
