package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	if o := h.run("wrap", "--dry-run"); o.code != 0 || !strings.Contains(o.stdout, "+command = \"mcp-tether\" # that\n") || h.text(codex) != codexText {
		t.Errorf("dry run: %+v", o)
	}
	o := h.run("wrap", "--yes", "--flags", "--hibernate 10m --name 'a b'")
	want := strings.NewReplacer(`"npx"`, `"mcp-tether"`, `["-y"`, `["run", "--hibernate", "10m", "--name", "a b", "--", "npx", "-y"`).Replace(codexText)
	if o.code != 0 || h.text(codex) != want {
		t.Errorf("%+v\n%s\nwant\n%s", o, h.text(codex), want)
	}
	if h.text(codex+".mcp-tether-backup") != codexText || h.text(project) != `{"mcpServers":{"z":{"command":"npx"}}}` {
		t.Error("the text before is not kept, or a file that belongs to a project was changed")
	}
	if o := h.run("wrap", "--check"); o.code != 0 || o.stderr != "" {
		t.Errorf("wrapped: %+v", o)
	}
	before := h.text(codex)
	if o := h.run("wrap", "--yes"); o.code != 0 || h.text(codex) != before {
		t.Errorf("wrapped twice: %+v\n%s", o, h.text(codex))
	}
	if o := h.run("wrap", "--yes", "--flags", "--hibernate 1h"); o.code != 0 || !strings.Contains(h.text(codex), `["run", "--name", "a b", "--hibernate", "1h"`) || h.text(codex+".mcp-tether-backup") != codexText {
		t.Errorf("with other flags: %+v\n%s", o, h.text(codex))
	}
	if o := h.run("unwrap", "--yes", "codex"); o.code != 0 || h.text(codex) != codexText || h.text(claude) == claudeText {
		t.Errorf("one client unwrapped: %+v\n%s", o, h.text(codex))
	}
	if _, err := os.Lstat(codex + ".mcp-tether-backup"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the backup is left: %v", err)
	}
	if o := h.run("unwrap", "--yes"); o.code != 0 || h.text(claude) != claudeText {
		t.Errorf("unwrapped: %+v\n%s", o, h.text(claude))
	}
}

// Without a user to ask, servers sleep only where that was asked for. Servers that must stay awake never do.
func TestWrapPreset(t *testing.T) {
	t.Parallel()
	const browser = "[mcp_servers.browser]\ncommand = \"npx\"\nargs = [\"@playwright/mcp\"]\n"
	for args, asleep := range map[string]int{"wrap --yes": 0, "wrap --yes --preset": 1, "wrap --yes --preset --server browser": 0} {
		h := newWrapHome(t)
		codex := h.put(".codex/config.toml", codexText+browser)
		o := h.run(strings.Fields(args)...)
		if n := strings.Count(h.text(codex), "--hibernate"); o.code != 0 || n != asleep || !strings.Contains(h.text(codex), `["run", "--name", "browser", "--", "npx", "@playwright/mcp"]`) {
			t.Errorf("%s: %+v\n%s", args, o, h.text(codex))
		}
		if told := strings.Contains(o.stdout, "browser: stays awake while idle: it would lose its browser"); told != strings.Contains(args, "--preset") {
			t.Errorf("%s says\n%s", args, o.stdout)
		}
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
	h.put("odd", `{"tools":{"x":{"command":"srv"}}}`)
	for args, want := range map[string]string{
		"wrap nobody":                          "no such client: nobody",
		"wrap --yes zed codex":                 "zed: no configuration at " + h.dir + "/.config/zed/settings.json",
		"wrap --flags=--nope codex":            "no such flag: --nope",
		"wrap --flags=' codex":                 "a quotation mark is missing",
		"wrap --flags=--share-scope=all codex": `--flags: --share-scope "all" is none of gateway, user`,
		"wrap --preset --flags=--lazy codex":   "exclude each other",
		"wrap --format=yaml ./x":               "--format yaml is none of json, toml",
		"wrap --server=x ./none":               "./none: no such file",
		"wrap --yes --server=none codex":       `no file has a server "none"`,
		"wrap --check ./odd":                   "known form",
	} {
		if o := h.run(strings.Fields(args)...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// A full disk, or a directory that cannot be written to, costs nothing.
func TestWrapCannotWrite(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	codex := h.put(".codex/config.toml", codexText)
	cmd := exec.Command("/bin/sh", "-c", `ulimit -f 0; exec "$0" wrap --yes codex`, tether)
	cmd.Env = []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether)}
	if o := finish(t, cmd); o.code == 0 || h.text(codex) != codexText {
		t.Errorf("%+v\n%s", o, h.text(codex))
	}
	all, err := os.ReadDir(filepath.Dir(codex))
	if err != nil || len(all) != 1 {
		t.Errorf("left beside it: %v, %v", all, err)
	}
}

// A user is asked whether the servers of a client that keeps idle ones may sleep, and whether to change anything.
func TestWrapAsks(t *testing.T) {
	t.Parallel()
	wrapped := strings.NewReplacer(`"npx"`, `"mcp-tether"`, `["-y"`, `["run", "--name", "files", "--", "npx", "-y"`).Replace(codexText)
	asleep := strings.Replace(wrapped, `"--"`, `"--lazy", "--hibernate", "30m", "--"`, 1)
	for answers, want := range map[string]string{"n y": wrapped, "yes YES": asleep, " ": codexText} {
		h := newWrapHome(t)
		codex := h.put(".codex/config.toml", codexText)
		r, w, err := os.Pipe()
		ok(t, err)
		y := openTTY(t, []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether)}, w, tether, "wrap", "codex")
		preset, change, _ := strings.Cut(answers, " ")
		y.expect("hibernate when idle (--lazy --hibernate 30m)? [y/N] ")
		y.typed(preset + "\n")
		y.expect("Wrap files? [y]es, [n]o, [a]ll of Codex, [q]uit: ")
		y.typed(change + "\n")
		var exit *exec.ExitError
		if err := y.cmd.Wait(); (err == nil) != (want != codexText) || err != nil && !errors.As(err, &exit) {
			t.Errorf("%q: %v", answers, err)
		}
		if now := h.text(codex); now != want {
			t.Errorf("%q:\n%s", answers, now)
		}
		_ = r.Close()
	}
}

// A user answers for each server: yes, no, all of a client, or quit.
func TestWrapAsksForEach(t *testing.T) {
	t.Parallel()
	three := `{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"},"c":{"command":"x"}}}`
	for answers, want := range map[string]string{"n a": "bc", "y q": "a", "q": ""} {
		h := newWrapHome(t)
		file := h.put(".cursor/mcp.json", three)
		r, w, err := os.Pipe()
		ok(t, err)
		y := openTTY(t, []string{"HOME=" + h.dir, "PATH=" + filepath.Dir(tether)}, w, tether, "wrap")
		for i, answer := range strings.Fields(answers) {
			y.expect("Wrap " + "abc"[i:i+1] + "? [y]es, [n]o, [a]ll of Cursor, [q]uit: ")
			y.typed(answer + "\n")
		}
		if want != "" {
			y.expect("start again: Cursor")
		}
		if err := y.cmd.Wait(); (err == nil) != (want != "") {
			t.Errorf("%q: %v", answers, err)
		}
		for _, name := range []string{"a", "b", "c"} {
			if got := strings.Contains(h.text(file), `"--name", "`+name+`"`); got != strings.Contains(want, name) {
				t.Errorf("%q: %s wrapped %v\n%s", answers, name, got, h.text(file))
			}
		}
		_ = r.Close()
	}
}

// A client that runs is named with its process, and one that does not, without.
func TestWrapNamesWhatRuns(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	h.put(".qwen/settings.json", `{"mcpServers":{"x":{"command":"srv"}}}`)
	h.put(".kiro/settings/mcp.json", `{"mcpServers":{"x":{"command":"srv"}}}`)
	script := h.put("bin/qwen", "read -r line")
	r, w, err := os.Pipe()
	ok(t, err)
	cmd := exec.Command("/bin/sh", script)
	cmd.Stdin = r
	ok(t, cmd.Start())
	_ = r.Close()
	if o := h.run("wrap", "--yes"); !strings.Contains(o.stdout, "start again: Kiro, Qwen Code (runs now, process "+strconv.Itoa(cmd.Process.Pid)+")\n") {
		t.Errorf("%+v", o)
	}
	_ = w.Close()
	_ = cmd.Wait()
}

// Files of the project are named and left alone. In a git work tree no backup is left.
func TestWrapProject(t *testing.T) {
	t.Parallel()
	const text = `{"mcpServers":{"x":{"command":"srv"}}}`
	h := newWrapHome(t)
	ok(t, os.MkdirAll(filepath.Join(h.dir, "p/.git"), 0o700))
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
	if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) != 2 {
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
	if o := h.run("wrap", "--yes", "--absolute", "--flags", "--name x", file); o.code != 0 {
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
	cmd := exec.Command(x.Command, x.Args...)
	cmd.Env = []string{"A=" + x.Env["A"], "PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + h.dir}
	o := finish(t, cmd)
	words := strings.Fields(o.stdout)
	if o.code != 7 || len(words) != 3 || words[0] != "word" || words[1] != "b" || len(words[2]) != 16 {
		t.Errorf("%+v", o)
	}
}
