package e2e

import (
	"encoding/json"
	"errors"
	"io/fs"
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

func TestWrapSome(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	claude := h.put(".claude.json", claudeText)
	h.put(".codex/config.toml", codexText)
	o := h.run("wrap", "--yes", "--json", "--absolute", "--server", "y", "--server", "files")
	var report struct {
		Files []struct {
			Path, Client, Backup string
			Changed              bool
			Servers              []struct {
				Name                    string
				Wrapped, Edited, Remote bool
			}
		}
	}
	ok(t, json.Unmarshal([]byte(o.stdout), &report))
	edited := map[string]bool{}
	for _, f := range report.Files {
		for _, s := range f.Servers {
			edited[s.Name] = s.Edited
		}
		if !f.Changed || f.Backup != f.Path+".mcp-tether-backup" {
			t.Errorf("%+v", f)
		}
	}
	if o.code != 0 || edited["x"] || !edited["y"] || !edited["files"] || edited["web"] {
		t.Errorf("%+v, %v", o, edited)
	}
	if !strings.Contains(h.text(claude), `"command": "`+tether+`"`) {
		t.Errorf("no path:\n%s", h.text(claude))
	}
	if o := h.run("wrap", "--yes", "--server", "none"); o.code != 2 || !strings.Contains(o.stderr, `no file has a server "none"`) {
		t.Errorf("%+v", o)
	}
}

// A name that no file has changes nothing, and the report says what was looked at.
func TestWrapOfNoServer(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	codex := h.put(".codex/config.toml", codexText)
	h.put(".cursor/mcp.json", `{`)
	o := h.run("wrap", "--yes", "--json", "--server", "files", "--server", "none", "--server", "nil")
	var report struct {
		Files []struct {
			Client, Error string
			Changed       bool
		}
	}
	if err := json.Unmarshal([]byte(o.stdout), &report); err != nil || len(report.Files) != 2 {
		t.Fatalf("%v: %+v", err, o)
	}
	for _, f := range report.Files {
		if f.Changed || (f.Error == "") != (f.Client == "codex") {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range []string{`no file has a server "none"`, `no file has a server "nil"`, ".cursor/mcp.json: line 1"} {
		if o.code != 2 || !strings.Contains(o.stderr, want) || h.text(codex) != codexText {
			t.Errorf("no %q in %+v", want, o)
		}
	}
}

// The difference shows tabs as spaces, and nothing that steers a terminal.
func TestWrapShowsTabs(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	h.put(".mcp.json", "{\"mcpServers\": {\n\t\"x\": {\n\t\t\"command\":\t\"np\u202ex\",\n\t\t\"args\": [\"-y\"]\n\t}\n}}\n")
	o := h.run("wrap", "--dry-run", "./.mcp.json")
	for _, want := range []string{"\n-        \"command\":    \"np?x\",\n+        \"command\":    \"mcp-tether\",\n", "\n+        \"args\": [\"run\", \"--name\", \"x\", \"--\", \"np?x\", \"-y\"]\n"} {
		if o.code != 0 || !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in %+v", want, o)
		}
	}
}

// --check judges the servers that --server names. One that cannot start is not wrapped.
func TestWrapChecksWhatIsNamed(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	h.put(".mcp.json", `{"mcpServers":{"files":{"command":"mcp-tether","args":["run","--","x"]},"other":{"command":"y"},"broken":{"command":"mcp-tether","args":["x"]}}}`)
	if o := h.run("wrap", "--check", "--server", "broken", "./.mcp.json"); o.code != 1 || !strings.Contains(o.stdout, "no server runs") {
		t.Errorf("one without run: %+v", o)
	}
	if o := h.run("wrap", "--check", "--server", "files", "./.mcp.json"); o.code != 0 {
		t.Errorf("the wrapped one: %+v", o)
	}
	if o := h.run("wrap", "--check", "--server", "other", "./.mcp.json"); o.code != 1 {
		t.Errorf("the other one: %+v", o)
	}
}

// With --absolute an entry has the name by which it is known, whatever the program's file is called.
func TestWrapAbsoluteName(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	file := h.put(".mcp.json", `{"mcpServers":{"z":{"command":"npx"}}}`)
	program := filepath.Join(h.dir, "bin/tether-1.2")
	ok(t, os.Mkdir(filepath.Dir(program), 0o700))
	copyProgram(t, tether, program)
	wrap := func() outcome {
		cmd := exec.Command(program, "wrap", "--yes", "--absolute", "./.mcp.json")
		cmd.Env, cmd.Dir = []string{"HOME=" + h.dir, "PATH=" + filepath.Join(h.dir, "bin")}, h.dir
		return finish(t, cmd)
	}
	if o := wrap(); o.code != 2 || !strings.Contains(o.stderr, "must be named mcp-tether") {
		t.Errorf("under another name: %+v", o)
	}
	link := filepath.Join(h.dir, "bin/mcp-tether")
	ok(t, os.Symlink("tether-1.2", link))
	if o := wrap(); o.code != 0 || !strings.Contains(h.text(file), `"command":"`+link+`"`) {
		t.Errorf("linked: %+v\n%s", o, h.text(file))
	}
}

// An entry with a PATH of its own has the path of the program, unless the name leads to it there.
func TestWrapWithAnotherPATH(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	const text = `{"mcpServers":{"x":{"command":"npx","env":{"PATH":"DIRS"}}}}`
	for dirs, want := range map[string]string{"/none:/bin/none": tether, "/none:" + filepath.Dir(tether): "mcp-tether", "": tether, "${HOME}/bin:.": tether} {
		before := strings.Replace(text, "DIRS", dirs, 1)
		file := h.put(".mcp.json", before)
		if o := h.run("wrap", "--yes", "./.mcp.json"); o.code != 0 || !strings.Contains(h.text(file), `"command":"`+want+`"`) {
			t.Errorf("%q: %+v\n%s", dirs, o, h.text(file))
		}
		if o := h.run("unwrap", "--yes", "./.mcp.json"); o.code != 0 || h.text(file) != before {
			t.Errorf("%q, unwrapped: %+v\n%s", dirs, o, h.text(file))
		}
	}
}

// A client's configuration that is kept elsewhere is still the client's.
func TestWrapOfLinkedConfiguration(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	kept := h.put("dotfiles/codex", codexText)
	ok(t, os.Mkdir(filepath.Join(h.dir, ".codex"), 0o700))
	ok(t, os.Symlink(kept, filepath.Join(h.dir, ".codex/config.toml")))
	if o := h.run("wrap", "--dry-run", "--format", "json", "./dotfiles/codex"); o.code != 2 {
		t.Errorf("as JSON: %+v", o)
	}
	if o := h.run("wrap", "--yes", "--preset", "./dotfiles/codex"); o.code != 0 || !strings.Contains(h.text(kept), `"--lazy", "--hibernate", "30m"`) {
		t.Errorf("%+v\n%s", o, h.text(kept))
	}
}

// What OpenClaw 2026.9.6 wrote with "openclaw mcp set every", but for the path of the server.
func TestWrapOpenClaw(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	wrote, err := os.ReadFile("testdata/clients/openclaw.json")
	ok(t, err)
	file := h.put(".openclaw/openclaw.json", string(wrote))
	o := h.run("wrap", "--yes", "--preset")
	var doc struct {
		MCP struct {
			Servers map[string]struct {
				Command string
				Args    []string
			}
		}
	}
	ok(t, json.Unmarshal([]byte(h.text(file)), &doc))
	s := doc.MCP.Servers["every"]
	if o.code != 0 || s.Command != "mcp-tether" || len(s.Args) != 7 || strings.Join(s.Args[:6], " ") != "run --name every -- /bin/sh -c" || !strings.Contains(o.stdout, "every: stays awake while idle: it would lose what it has in memory") {
		t.Errorf("%+v\n%s", o, h.text(file))
	}
	if o := h.run("unwrap", "--yes", "openclaw"); o.code != 0 || h.text(file) != string(wrote) {
		t.Errorf("%+v\n%s", o, h.text(file))
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
	for args, want := range map[string]string{
		"wrap nobody":                          "no such client: nobody",
		"wrap zed":                             "zed: no configuration at " + h.dir + "/.config/zed/settings.json",
		"wrap --flags=--nope codex":            "no such flag: --nope",
		"wrap --flags=npx codex":               "npx is no flag of run",
		"wrap --flags=' codex":                 "a quotation mark is missing",
		"wrap --flags=--name codex":            "--name has no value",
		"wrap --flags=--share-max=-1 codex":    "--flags: --share-max -1 is negative",
		"wrap --flags=--share-scope=all codex": `--flags: --share-scope "all" is none of gateway, user`,
		"wrap --format=yaml ./x":               "--format yaml is none of json, toml",
		"wrap ./none":                          "./none: ",
		"wrap --server=x ./none":               "./none: no such file",
		"wrap --server=x zed":                  "zed: no configuration at",
	} {
		if o := h.run(strings.Fields(args)...); o.code != 2 || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// A client without a configuration keeps no other from being wrapped.
func TestWrapWithoutOne(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	codex := h.put(".codex/config.toml", codexText)
	o := h.run("wrap", "--yes", "zed", "codex")
	if want := "zed: no configuration at " + h.dir + "/.config/zed/settings.json"; o.code != 2 || !strings.Contains(o.stderr, want) {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(h.text(codex), "mcp-tether") {
		t.Error("codex was not wrapped")
	}
	if o := h.run("unwrap", "--yes", "codex", codex, "codex"); o.code != 0 || h.text(codex) != codexText {
		t.Errorf("a file that is named again: %+v", o)
	}
	if o := h.run("wrap", "--check", "zed", "codex"); o.code != 2 || !strings.Contains(o.stderr, "zed: no configuration") {
		t.Errorf("%+v", o)
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
	for answers, want := range map[string]string{"n y": wrapped, "y y": asleep, "y n": codexText, "n n": codexText, " ": codexText, "yes YES": asleep} {
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
	for answers, want := range map[string]string{"y n y": "ac", "n a": "bc", "y q": "a", "n n yes": "c", "q": "", "a": "abc"} {
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

// Each client is found in its file by its name, and without one.
func TestWrapKnownClients(t *testing.T) {
	t.Parallel()
	const (
		named  = `{"mcpServers":{"x":{"command":"srv"}}}`
		joined = `{"mcp":{"x":{"type":"local","command":["srv","1"]}}}`
	)
	for file, c := range map[string]struct{ name, text string }{
		".codeium/windsurf/mcp_config.json":                                                              {"windsurf", named},
		".cline/data/settings/cline_mcp_settings.json":                                                   {"cline", named},
		".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json":          {"roo", named},
		".vscode-server/data/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json": {"cline", named},
		".lmstudio/mcp.json":                       {"lm-studio", named},
		".kiro/settings/mcp.json":                  {"kiro", named},
		".copilot/mcp-config.json":                 {"copilot", named},
		".junie/mcp/mcp.json":                      {"junie", named},
		".qwen/settings.json":                      {"qwen-code", named},
		".config/amp/settings.json":                {"amp", `{"amp.mcpServers":{"x":{"command":"srv"}}}`},
		".config/opencode/opencode.jsonc":          {"opencode", joined},
		".config/Code - Insiders/User/mcp.json":    {"vscode", `{"servers":{"x":{"command":"srv"}}}`},
		".vscode-server/data/User/mcp.json":        {"code", `{"servers":{"x":{"command":"srv"}}}`},
		".config/github-copilot/intellij/mcp.json": {"jetbrains", `{"servers":{"x":{"command":"srv"}}}`},
		".claude.json":                             {"claude-code", named},
	} {
		for _, args := range [][]string{nil, {c.name}} {
			h := newWrapHome(t)
			path := h.put(file, c.text)
			if o := h.run(append([]string{"wrap", "--yes"}, args...)...); o.code != 0 || !strings.Contains(h.text(path), `"mcp-tether"`) {
				t.Errorf("%s, by name %q: %+v", file, args, o)
			}
			if o := h.run(append([]string{"wrap", "--check"}, args...)...); o.code != 0 {
				t.Errorf("%s, checked: %+v", file, o)
			}
			if o := h.run(append([]string{"unwrap", "--yes"}, args...)...); o.code != 0 || h.text(path) != c.text {
				t.Errorf("%s, unwrapped: %+v\n%s", file, o, h.text(path))
			}
		}
	}
	h := newWrapHome(t)
	const yaml = "extensions:\n  x:\n    cmd: srv\n"
	goose := h.put(".config/goose/config.yaml", yaml)
	for args, code := range map[string]int{"wrap --yes": 0, "wrap --yes goose": 2, "wrap --check": 2} {
		if o := h.run(strings.Fields(args)...); o.code != code || !strings.Contains(o.stderr, "cmd: mcp-tether, args: [run,") || h.text(goose) != yaml {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// What --check could not read is never passed, and what it can read is.
func TestWrapCheckUnread(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]int{
		`{}`: 2, `{"servers":[]}`: 2, `{"tools":{"x":{"command":"srv"}}}`: 2,
		`{"mcp":{"servers":{"x":{"cmd":"srv"},"y":{"command":"mcp-tether","args":["run","z"]}}}}`: 2,
		`{"mcpServers":{"x":{"cmd":"srv"}}}`:                                                      2,
		`{"mcpServers":{"x":"srv","y":{"command":"mcp-tether","args":["run","srv"]}}}`:            2,
		`{"mcpServers":{"x":{"url":"http://x"},"y":{"command":"mcp-tether","args":["run","z"]}}}`: 0,
		`{"mcp":{"x":{"command":["mcp-tether","run","srv"]},"y":{"enabled":false}}}`:              0,
	} {
		h := newWrapHome(t)
		h.put("mcp.json", text)
		if o := h.run("wrap", "--check", "mcp.json"); o.code != code || (code == 0) != (o.stderr == "") {
			t.Errorf("%s: %+v", text, o)
		}
	}
	h := newWrapHome(t)
	if o := h.run("wrap", "--check"); o.code != 2 || !strings.Contains(o.stderr, "no servers found in a known form") {
		t.Errorf("nothing is here: %+v", o)
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
	if o := h.run("wrap", "--yes"); !strings.Contains(o.stdout, "start again: Kiro, Qwen Code (runs now, process "+decimalString(cmd.Process.Pid)+")\n") {
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

// Without a user to ask, servers sleep only where that was asked for. Servers that must stay awake never do, nor do
// those of other clients.
func TestWrapPreset(t *testing.T) {
	t.Parallel()
	const browser = "[mcp_servers.browser]\ncommand = \"npx\"\nargs = [\"@playwright/mcp\"]\n"
	for args, asleep := range map[string]int{"wrap --yes": 0, "wrap --yes --preset": 1, "wrap --yes --preset --server browser": 0} {
		h := newWrapHome(t)
		codex, claude := h.put(".codex/config.toml", codexText+browser), h.put(".claude.json", claudeText)
		o := h.run(strings.Fields(args)...)
		if n := strings.Count(h.text(codex)+h.text(claude), "--hibernate"); o.code != 0 || n != asleep || !strings.Contains(h.text(codex), `["run", "--name", "browser", "--", "npx", "@playwright/mcp"]`) {
			t.Errorf("%s: %+v\n%s", args, o, h.text(codex))
		}
		if told := strings.Contains(o.stdout, "browser: stays awake while idle: it would lose its browser"); told != strings.Contains(args, "--preset") {
			t.Errorf("%s says\n%s", args, o.stdout)
		}
		if o := h.run("unwrap", "--yes"); o.code != 0 || h.text(codex) != codexText+browser || h.text(claude) != claudeText {
			t.Errorf("%s, unwrapped: %+v", args, o)
		}
	}
	h := newWrapHome(t)
	codex := h.put(".codex/config.toml", codexText)
	if o := h.run("wrap", "--yes", "--preset", "--flags", "--name x"); o.code != 2 || !strings.Contains(o.stderr, "exclude each other") || h.text(codex) != codexText {
		t.Errorf("%+v", o)
	}
	// One that was wrapped before gets the preset as well.
	if o := h.run("wrap", "--yes"); o.code != 0 {
		t.Errorf("%+v", o)
	}
	if o := h.run("wrap", "--yes", "--preset", "codex"); o.code != 0 || !strings.Contains(h.text(codex), `["run", "--name", "files", "--lazy", "--hibernate", "30m", "--", "npx"`) {
		t.Errorf("%+v\n%s", o, h.text(codex))
	}
}

// The shells get the names of the servers that wrap would find.
func TestWrapCompletesServers(t *testing.T) {
	t.Parallel()
	h := newWrapHome(t)
	h.put(".codex/config.toml", "[mcp_servers.files]\ncommand = \"server-files\"\n")
	h.put(".gemini/settings.json", `{"mcpServers":{"fetch":{"command":"uvx","args":["fetch"]},"far":{"url":"https://example.com"}}}`)
	h.put(".cursor/mcp.json", `{`)
	for command, want := range map[string]string{"wrap": "fetch\tGemini CLI\n", "unwrap": "fetch\tGemini CLI\n", "stop": ""} {
		if o := h.run("__complete", command, "--server", "fe"); o.code != 0 || o.stdout != want {
			t.Errorf("%s: %+v", command, o)
		}
	}
	if o := h.run("__complete", "wrap", "--server", ""); o.stdout != "files\tCodex\nfetch\tGemini CLI\n" {
		t.Errorf("%+v", o)
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
