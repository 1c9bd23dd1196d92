package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wrapHome is a home directory with the configurations of several clients.
type wrapHome struct {
	t   *testing.T
	dir string
}

func newWrapHome(t *testing.T) wrapHome { return wrapHome{t, t.TempDir()} }

func (h wrapHome) put(name, text string) string {
	h.t.Helper()
	file := filepath.Join(h.dir, name)
	ok(h.t, os.MkdirAll(filepath.Dir(file), 0o700))
	ok(h.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (h wrapHome) text(file string) string {
	h.t.Helper()
	b, err := os.ReadFile(file)
	ok(h.t, err)
	return string(b)
}

func (h wrapHome) run(args ...string) outcome {
	h.t.Helper()
	cmd := exec.Command(tether, args...)
	cmd.Env, cmd.Dir = []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether) + ":/usr/bin:/bin"}, h.dir
	return finish(h.t, cmd)
}

const (
	codexText  = "# mine\n[mcp_servers.files]\ncommand = \"npx\" # that\nargs = [\"-y\", \"x\"]\n\n[mcp_servers.web]\nurl = \"https://x\"\n"
	claudeText = "{\n  \"numStartups\": 12345678901234567890,\n  \"mcpServers\": {\n    \"x\": { \"command\": \"srv\", \"env\": { \"TOKEN\": \"secret\" } }\n  },\n  \"projects\": { \"/p\": { \"mcpServers\": { \"y\": { \"command\": \"npx\", \"args\": [] } } } }\n}"
)

func TestWrapAndUnwrap(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	codex, claude := h.put(".codex/config.toml", codexText), h.put(".claude.json", claudeText)
	project := h.put("p/.mcp.json", `{"mcpServers":{"z":{"command":"npx"}}}`)
	if o := h.run("wrap", "--check"); o.code != 1 {
		t.Errorf("not wrapped: %+v", o)
	}
	if o := h.run("wrap"); o.code != 1 || !strings.Contains(o.stderr, "--yes") || h.text(codex) != codexText {
		t.Errorf("without an answer: %+v", o)
	}
	if o := h.run("wrap", "--dry-run"); o.code != 0 || !strings.Contains(o.stdout, "  - npx -y x\n  + mcp-tether run --name files -- npx -y x\n") || h.text(codex) != codexText {
		t.Errorf("dry run: %+v", o)
	}
	o := h.run("wrap", "--yes", "--", "--hibernate", "10m", "--name", "a b")
	want := strings.NewReplacer(`"npx"`, `"mcp-tether"`, `["-y"`, `["run", "--hibernate", "10m", "--name", "a b", "--", "npx", "-y"`).Replace(codexText)
	if o.code != 0 || h.text(codex) != want {
		t.Errorf("%+v\n%s\nwant\n%s", o, h.text(codex), want)
	}
	if h.text(project) != `{"mcpServers":{"z":{"command":"npx"}}}` {
		t.Error("a file that belongs to a project was changed")
	}
	if o := h.run("wrap", "--check"); o.code != 0 || o.stderr != "" {
		t.Errorf("wrapped: %+v", o)
	}
	before := h.text(codex)
	if o := h.run("wrap", "--yes"); o.code != 0 || h.text(codex) != before {
		t.Errorf("wrapped twice: %+v\n%s", o, h.text(codex))
	}
	if o := h.run("wrap", "--yes", "--", "--hibernate", "1h"); o.code != 0 || !strings.Contains(h.text(codex), `["run", "--name", "a b", "--hibernate", "1h"`) {
		t.Errorf("with other flags: %+v\n%s", o, h.text(codex))
	}
	ok(t, os.Symlink(".codex", filepath.Join(h.dir, "same")))
	if o := h.run("unwrap", "--yes", "codex", "same/config.toml"); o.code != 0 || h.text(codex) != codexText || h.text(claude) == claudeText {
		t.Errorf("one client unwrapped: %+v\n%s", o, h.text(codex))
	}
	if all, err := os.ReadDir(filepath.Dir(codex)); err != nil || len(all) != 1 {
		t.Errorf("left beside it: %v, %v", all, err)
	}
	if o := h.run("unwrap", "--yes"); o.code != 0 || h.text(claude) != claudeText {
		t.Errorf("unwrapped: %+v\n%s", o, h.text(claude))
	}
}

// An organisation's list comes first, for a client and for a project: wrap, --check and doctor say which file and which rule.
func TestWrapAndLists(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	const deny = `{"deniedMcpServers":[{"serverCommand":["node","/srv/x.js","--bad"]}]}`
	const allow = `{"allowedMcpServers":[{"serverCommand":["node","/srv/x.js"]}]}`
	const servers = `{"mcpServers":{"good":{"command":"node","args":["/srv/x.js"]},"bad":{"command":"node","args":["/srv/x.js","--bad"]}}}`
	const list, codexList = "/etc/claude-code/managed-settings.json", "/etc/codex/requirements.toml"
	own := t.TempDir()
	if out, err := exec.Command("sh", "-c", `cp -a /etc/. "$0" && mkdir -p "$0/claude-code" "$0/codex" && mount --bind "$0" /etc`, own).CombinedOutput(); err != nil {
		t.Fatalf("no /etc of the test's own: %v, %s", err, out)
	}
	defer func() { _ = exec.Command("umount", "-l", "/etc").Run() }()
	h := newWrapHome(t)
	claude, project := h.put(".claude.json", servers), h.put(".mcp.json", servers)
	codex := h.put(".codex/config.toml", "[mcp_servers.docs]\ncommand = \"docs-mcp\"\nargs = [\"--stdio\"]\n")
	ok(t, os.WriteFile(list, []byte(deny), 0o644))
	for _, args := range [][]string{{"wrap", "--yes", "claude", "./.mcp.json"}, {"wrap", "--check", "claude", "./.mcp.json"}} {
		o := h.run(args...)
		if o.code != 0 || strings.Count(o.stdout, "bad: left alone: an organisation's list: "+list+" denies it") != 2 {
			t.Errorf("%v: %+v", args, o)
		}
	}
	for _, file := range []string{claude, project} {
		if text := h.text(file); !strings.Contains(text, `"bad":{"command":"node","args":["/srv/x.js","--bad"]}`) || !strings.Contains(text, `"--name", "good"`) {
			t.Errorf("%s holds %s", file, text)
		}
	}
	if o := h.run("doctor"); strings.Count(o.stdout, list+" denies it") != 2 {
		t.Errorf("%+v", o)
	}
	if o := h.run("unwrap", "--yes", "claude"); o.code != 0 || h.text(claude) != servers {
		t.Errorf("%+v", o)
	}
	ok(t, os.WriteFile(list, []byte(allow), 0o644))
	ok(t, os.WriteFile(codexList, []byte("[mcp_servers.docs]\nidentity = { command = \"docs-mcp\" }\n"), 0o644))
	before := h.text(codex)
	for _, args := range [][]string{{"wrap", "--yes", "claude", "codex"}, {"wrap", "--check", "claude", "codex"}} {
		o := h.run(args...)
		if o.code != 0 || h.text(claude) != servers || h.text(codex) != before ||
			!strings.Contains(o.stdout, `add to allowedMcpServers: {"serverCommand":["mcp-tether","run","--name","good","--","node","/srv/x.js"]}`) ||
			!strings.Contains(o.stdout, `add to mcp_servers: [mcp_servers."docs"] identity = { command = "mcp-tether" }`) {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := h.run("doctor"); !strings.Contains(o.stdout, codexList+" allows it bare, and wrapped it would be off") {
		t.Errorf("%+v", o)
	}
}

// Where the name is not found, the program's path is written.
func TestWrapByPath(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	file := h.put(".cursor/mcp.json", `{"mcpServers":{"x":{"command":"srv"}}}`)
	cmd := exec.Command(tether, "wrap", "--yes")
	cmd.Env = []string{"HOME=" + h.dir, "PATH=/usr/bin:/bin"}
	if o := finish(t, cmd); o.code != 0 || !strings.Contains(h.text(file), `"command":"`+tether+`"`) {
		t.Errorf("%+v\n%s", o, h.text(file))
	}
}

// A terminal has colours, unless its user wants none.
func TestWrapInColour(t *testing.T) {
	t.Parallel()
	for _, none := range []bool{false, true} {
		h := newWrapHome(t)
		h.put(".cursor/mcp.json", `{"mcpServers":{"x":{"command":"srv"}}}`)
		env := []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether), "TERM=xterm"}
		if none {
			env = append(env, "NO_COLOR=1")
		}
		r, w, err := os.Pipe()
		ok(t, err)
		y := openTTY(t, env, w, tether, "wrap")
		if none {
			y.expect("\n  + mcp-tether run")
		} else {
			y.expect("\x1b[32m  + mcp-tether run")
		}
		y.expect("Wrap 1 server of Cursor? [y/N] ")
		y.typed("n\n")
		_ = y.cmd.Wait()
		_ = r.Close()
	}
}

// What cannot be changed gets an error, stays as it was, and keeps no other file from being changed.
func TestWrapRefuses(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	broken := h.put(".cursor/mcp.json", `{"mcpServers":{"x":{"command":"srv"`)
	target := h.put("dotfiles/settings.json", `{"mcpServers":{"x":{"command":"srv"}}}`)
	ok(t, os.MkdirAll(filepath.Join(h.dir, ".gemini"), 0o700))
	link := filepath.Join(h.dir, ".gemini/settings.json")
	ok(t, os.Symlink(target, link))
	codex := h.put(".codex/config.toml", codexText)
	o := h.run("wrap", "--yes")
	if o.code != 2 || !strings.Contains(o.stderr, "line 1: syntax error") || !strings.Contains(o.stderr, "it is a link") {
		t.Errorf("%+v", o)
	}
	if h.text(broken) != `{"mcpServers":{"x":{"command":"srv"` || h.text(target) != `{"mcpServers":{"x":{"command":"srv"}}}` {
		t.Error("a file was changed")
	}
	if !strings.Contains(h.text(codex), "mcp-tether") {
		t.Error("one broken file kept another from being changed")
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", st, err)
	}
	h.put("x.yaml", "mcpServers: {}")
	h.put("odd", `{"tools":{"x":{"command":"srv"}}}`)
	for args, want := range map[string]string{
		"wrap nobody":                     "no such client: nobody",
		"wrap --yes zed codex":            "zed: no configuration at " + h.dir + "/.config/zed/settings.json",
		"wrap codex -- --nope":            "no such flag: --nope",
		"wrap codex -- --share-scope=all": `behind --: --share-scope "all" is none of gateway, user`,
		"wrap codex -- --lazy server":     "server is no flag of run",
		"wrap codex --yes":                "--yes: flags of wrap come before CLIENT and FILE",
		"wrap --yes ./x.yaml":             "YAML or XML, which is not rewritten",
		"wrap --server=x ./none":          "./none: no such file",
		"wrap --yes --server=none codex":  `no file has a server "none"`,
		"wrap --check ./odd":              "known form",
	} {
		if o := h.run(strings.Fields(args)...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// A user is asked once for each file.
func TestWrapAsks(t *testing.T) {
	t.Parallel()
	const three = `{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"},"c":{"command":"x"}}}`
	wrapped := strings.NewReplacer(`"npx"`, `"mcp-tether"`, `["-y"`, `["run", "--name", "files", "--", "npx", "-y"`).Replace(codexText)
	for answers, want := range map[string]string{"y n": wrapped, "YES y": wrapped, " ": codexText} {
		h := newWrapHome(t)
		codex, cursor := h.put(".codex/config.toml", codexText), h.put(".cursor/mcp.json", three)
		r, w, err := os.Pipe()
		ok(t, err)
		y := openTTY(t, []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether)}, w, tether, "wrap")
		first, second, _ := strings.Cut(answers, " ")
		y.expect("Wrap 1 server of Codex? [y/N] ")
		y.typed(first + "\n")
		y.expect("Wrap 3 servers of Cursor? [y/N] ")
		y.typed(second + "\n")
		if want != codexText {
			y.expect("start again: Codex")
		}
		var exit *exec.ExitError
		if err := y.cmd.Wait(); (err == nil) != (want != codexText) || err != nil && !errors.As(err, &exit) {
			t.Errorf("%q: %v", answers, err)
		}
		if now := h.text(codex); now != want {
			t.Errorf("%q:\n%s", answers, now)
		}
		if n := strings.Count(h.text(cursor), "mcp-tether"); n != map[string]int{"n": 0, "y": 3, "": 0}[second] {
			t.Errorf("%q:\n%s", answers, h.text(cursor))
		}
		_ = r.Close()
	}
}

// --server chooses among the servers of a file.
func TestWrapServer(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	file := h.put(".cursor/mcp.json", `{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"},"c":{"command":"x"}}}`)
	if o := h.run("wrap", "--yes", "--server=a", "--server=c", "cursor"); o.code != 0 || !strings.Contains(o.stdout, "start again: Cursor") {
		t.Errorf("%+v", o)
	}
	for _, name := range []string{"a", "b", "c"} {
		if got := strings.Contains(h.text(file), `"--name", "`+name+`"`); got != (name != "b") {
			t.Errorf("%s wrapped %v\n%s", name, got, h.text(file))
		}
	}
}

// A server that goes by its parent is wrapped with a warning, and no other.
func TestWrapWarns(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	file := h.put("mcp.json", `{"mcpServers":{"omx":{"command":"npx","args":["-y","oh-my-codex@1"]},"x":{"command":"npx","args":["x"]}}}`)
	const warning = "it goes by its parent"
	if o := h.run("wrap", "--dry-run", file); o.code != 0 || strings.Count(o.stdout, "omx: to be wrapped\n    "+warning) != 1 || strings.Count(o.stdout, warning) != 1 {
		t.Errorf("wrap: %+v", o)
	}
	if o := h.run("wrap", "--yes", file); o.code != 0 {
		t.Errorf("wrap: %+v", o)
	}
	for _, words := range [][]string{{"wrap", file}, {"unwrap", "--dry-run", file}, {"unwrap", "--yes", file}} {
		if o := h.run(words...); o.code != 0 || strings.Contains(o.stdout, warning) {
			t.Errorf("%q warns: %+v", words, o)
		}
	}
}

// Files of the project are named and left alone.
func TestWrapProject(t *testing.T) {
	t.Parallel()
	const text = `{"mcpServers":{"x":{"command":"srv"}}}`
	h := newWrapHome(t)
	file := h.put("p/.mcp.json", text)
	run := func(args ...string) outcome {
		cmd := exec.Command(tether, args...)
		cmd.Env, cmd.Dir = []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether)}, filepath.Join(h.dir, "p")
		return finish(t, cmd)
	}
	for _, args := range [][]string{{"wrap", "--yes"}, {"doctor"}} {
		if o := run(args...); !strings.Contains(o.stdout+o.stderr, "mcp-tether wrap .mcp.json") || h.text(file) != text {
			t.Errorf("%v: %+v", args, o)
		}
	}
	if o := run("wrap", "--yes", ".mcp.json"); o.code != 0 || h.text(file) == text {
		t.Errorf("by name: %+v", o)
	}
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 1 {
		t.Errorf("left: %v, %v", all, err)
	}
	if o := run("unwrap", "--yes", ".mcp.json"); o.code != 0 || h.text(file) != text {
		t.Errorf("unwrapped: %+v", o)
	}
}

// A client starts what the file says now: the server runs as before, in a session.
func TestWrappedEntryRuns(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	file := h.put("mcp.json", `{"mcpServers":{"x":{"command":"/bin/sh","args":["-c","echo \"$0 $A $MCP_TETHER_SESSION\"; exit 7","word"],"env":{"A":"b"}}}}`)
	if o := h.run("wrap", "--yes", file, "--", "--name", "x"); o.code != 0 {
		t.Fatalf("%+v", o)
	}
	var doc struct {
		McpServers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		}
	}
	ok(t, json.Unmarshal([]byte(h.text(file)), &doc))
	x := doc.McpServers["x"]
	cmd := exec.Command(filepath.Join(filepath.Dir(tether), x.Command), x.Args...)
	cmd.Env = []string{"A=" + x.Env["A"], "PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + h.dir}
	o := finish(t, cmd)
	words := strings.Fields(o.stdout)
	if o.code != 7 || len(words) != 3 || words[0] != "word" || words[1] != "b" || len(words[2]) != 16 {
		t.Errorf("%+v", o)
	}
}
