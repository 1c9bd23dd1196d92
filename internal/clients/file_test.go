package clients

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
)

// write puts files below a new directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "$DIR", dir)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lines gives servers as "name: command arg arg", without our own prefix.
func lines(all []Server) []string {
	out := []string{}
	for _, s := range all {
		out = append(out, s.Name+": "+strings.Join(s.Args, " "))
	}
	return out
}

const codexTOML = `
model = "o"
[mcp_servers.files]
command = "npx"
args = ["-y", "@scope/files"]   # a comment
env = { "TOKEN" = "t" }
[mcp_servers."with space"]
command = "/opt/server"
[mcp_servers.remote]
url = "https://example.org/mcp"
[projects."/home/u"]
trust_level = "trusted"
`

func TestKnown(t *testing.T) {
	home := write(t, map[string]string{
		".codex/config.toml": codexTOML,
		".claude.json": `{"mcpServers": {"user": {"command": "uvx", "args": ["mcp-server-git"]}},
			"projects": {"$DIR/p": {"mcpServers": {"local": {"command": "local-server"}}, "history": [1, "a", {"b": []}]}, "relative": {}}}`,
		"p/.mcp.json":                                              `{"mcpServers": {"project": {"type": "stdio", "command": "project-server", "args": []}}}`,
		".codex/work.config.toml":                                  "[mcp_servers.profile]\ncommand = \"of-work\"\n",
		".config/Claude/claude_desktop_config.json":                `{"mcpServers": {"desktop": {"command": "d"}}}`,
		".openclaw/openclaw.json":                                  `{"mcp": {"servers": {"claw": {"command": "c", "args": ["x"]}}}}`,
		".gemini/settings.json":                                    `{"theme": "x", "mcpServers": {"gemini": {"command": "g", "timeout": 1}}}`,
		".gemini/extensions/e/gemini-extension.json":               `{"name": "e", "mcpServers": {"extension": {"command": "e"}}}`,
		".cursor/mcp.json":                                         `{"mcpServers": {"cursor": {"command": "npx", "args": ["cursor-mcp"]}}}`,
		".config/Code/User/profiles/-7a1b/mcp.json":                `{"servers": {"of-profile": {"command": "vp"}}}`,
		".config/VSCodium/User/mcp.json":                           `{"servers": {"codium": {"command": "vc"}}}`,
		".var/app/com.visualstudio.code/config/Code/User/mcp.json": `{"servers": {"flat": {"command": "vf"}}}`,
		".vibe/config.toml":                                        "[[mcp_servers]]\nname = \"first\"\ncommand = \"v1\"\n[[mcp_servers]]\nname = \"second\"\ncommand = \"v2\"\nargs = [\"x\"]\n[mcp_servers.env]\ncommand = \"none\"\n",
		".config/Code/User/mcp.json": `{
			// VS Code writes comments
			"inputs": [{"id": "key", "type": "promptString",},],
			"servers": {"code": {"command": "v", "args": ["//no comment", "/* neither */", "a,]"],}, /* gone */ },
		}`,
	})
	var warnings []error
	got := lines(Known(home, func(err error) { warnings = append(warnings, err) }))
	want := []string{
		"files: npx -y @scope/files", "with space: /opt/server", "user: uvx mcp-server-git", "local: local-server",
		"project: project-server", "desktop: d", "profile: of-work", "of-profile: vp", "codium: vc", "flat: vf", "extension: e", "first: v1", "second: v2 x", "claw: c x", "gemini: g", "cursor: npx cursor-mcp",
		"code: v //no comment /* neither */ a,]",
	}
	for _, w := range want {
		found := false
		for i, g := range got {
			if g == w {
				got, found = append(got[:i], got[i+1:]...), true
				break
			}
		}
		if !found {
			t.Errorf("%q is missing", w)
		}
	}
	if len(got) > 0 || len(warnings) > 0 {
		t.Errorf("also got %q, warnings %v", got, warnings)
	}
}

// Our own prefix is no part of what runs.
func TestUnwrapped(t *testing.T) {
	for args, want := range map[string]string{
		`["run", "--", "npx", "-y", "a"]`:               "x: npx -y a",
		`["run", "--name", "n", "--", "b", "--", "c"]`:  "x: b -- c",
		`["run", "--keep=x", "--", "server"]`:           "x: server",
		`["run", "--"]`:                                 "x: mcp-tether run --",
		`["reap"]`:                                      "x: mcp-tether reap",
		`["run", "npx", "-y", "@scope/without-dashes"]`: "x: npx -y @scope/without-dashes",
	} {
		dir := write(t, map[string]string{"c.json": `{"mcpServers": {"x": {"command": "/usr/local/bin/mcp-tether", "args": ` + args + `}}}`})
		servers, err := Named(dir + "/c.json")
		if got := lines(servers); err != nil || len(got) != 1 || strings.ReplaceAll(got[0], "/usr/local/bin/", "") != want {
			t.Errorf("%s: %q, %v; want %q", args, got, err, want)
		}
	}
}

func TestOddShapes(t *testing.T) {
	for text, want := range map[string][]string{
		`{}`:                                                            {},
		`{"mcpServers": null}`:                                          {},
		`{"mcpServers": []}`:                                            {},
		`{"mcpServers": {"a": null}}`:                                   {},
		`{"mcpServers": {"a": "text"}}`:                                 {},
		`{"mcpServers": {"a": {"command": 7}}}`:                         {},
		`{"mcpServers": {"a": {"command": ""}}}`:                        {},
		`{"mcpServers": {"a": {"url": "http://h"}}}`:                    {},
		`{"mcpServers": {"a": {"command": "c", "args": "text"}}}`:       {"a: c"},
		`{"mcpServers": {"a": {"command": "c", "args": [1, "x", {}]}}}`: {"a: c x"},
		`{"mcp": {"a": {"command": ["c", "x"]}, "b": {"command": []}}}`: {"a: c x"},
		`{"mcp": {"servers": {"url": {"command": "c"}, "command": {"command": "d"}}}}`:                 {"url: c", "command: d"},
		`{"mcp": {"servers": {"a": {"command": "c"}}}}`:                                                {"a: c"},
		`{"amp.mcpServers": {"a": {"command": "c"}}}`:                                                  {"a: c"},
		`{"projects": {"/p": {"mcpServers": {"a": {"command": "c"}}}}}`:                                {"a: c"},
		"\ufeff" + `{"mcpServers": {"a": {"command": "c"}}}`:                                           {"a: c"},
		strings.Repeat(`{"n":`, 12) + `{"servers":{"deep":{"command":"c"}}}` + strings.Repeat("}", 12): {},
	} {
		dir := write(t, map[string]string{"c.json": text})
		servers, err := Named(dir + "/c.json")
		if got := lines(servers); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.60s: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"empty.json": "", "open.json": `{"mcpServers": {`, "text.json": "hello", "list.json": `[1]`, "number.json": "7",
		"nul.json": "\x00\x00", "comment.json": "/* never closed", "string.json": `{"a": "`, "bad.toml": "[mcp_servers.x\n",
		"deep.json": strings.Repeat("[", 100_000),
	} {
		dir := write(t, map[string]string{name: text})
		servers, err := Named(filepath.Join(dir, name))
		if err == nil || len(servers) > 0 {
			t.Errorf("%s: %v, %v", name, servers, err)
			continue
		}
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
	}
	if _, err := Named("/nonexistent/c.json"); err == nil {
		t.Error("a missing file was read")
	}
	if _, err := Named(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}

// What clients follow is followed: a variable that names the directory of the files.
func TestKnownFollowsVariables(t *testing.T) {
	home := write(t, map[string]string{
		".codex/config.toml": "[mcp_servers.old]\ncommand = \"old\"\n", "codex/config.toml": "[mcp_servers.new]\ncommand = \"new\"\n",
		"codex/p.config.toml": "[mcp_servers.profile]\ncommand = \"p\"\n", "claude/.claude.json": `{"mcpServers": {"c": {"command": "c"}}}`,
		"claude/plugins/cache/m/p/1/.mcp.json": `{"mcpServers": {"plugin": {"command": "q"}}}`,
	})
	t.Setenv("CODEX_HOME", home+"/codex")
	t.Setenv("CLAUDE_CONFIG_DIR", home+"/claude")
	got := lines(Known(home, func(err error) { t.Error(err) }))
	if want := []string{"new: new", "profile: p", "c: c", "plugin: q"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// One gateway's broken file does not hide another's.
func TestKnownWarns(t *testing.T) {
	home := write(t, map[string]string{".claude.json": "{", ".cursor/mcp.json": `{"mcpServers": {"a": {"command": "c"}}}`})
	var warnings []error
	got := Known(home, func(err error) { warnings = append(warnings, err) })
	if len(got) != 1 || len(warnings) != 1 || !strings.Contains(warnings[0].Error(), ".claude.json") {
		t.Errorf("%v, %v", got, warnings)
	}
}

// A file that grows with use, and one that was made to be slow, cost no more than reading them.
func TestLarge(t *testing.T) {
	history := strings.Repeat(`{"display": "what was typed, with [brackets] and {braces}", "list": [], },`, 40_000)
	for name, text := range map[string]string{
		"brackets": `{"mcpServers": {"a": {"command": "c"}}, "history": [` + history + `]}`,
		"comments": `{"mcpServers": {"a": {"command": "c"}}` + strings.Repeat("/**/", 700_000) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"c.json": text})
			done := make(chan []Server, 1)
			go func() {
				servers, _ := Named(dir + "/c.json")
				done <- servers
			}()
			select {
			case servers := <-done:
				if len(servers) != 1 {
					t.Errorf("%v", servers)
				}
			case <-time.After(testkit.Patience):
				t.Errorf("%d bytes took more than %v", len(text), testkit.Patience)
			}
		})
	}
}

// Any user may put anything where root's pass looks for a configuration.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	fifo, socket, device := filepath.Join(dir, "fifo.json"), filepath.Join(dir, "socket.json"), filepath.Join(dir, "device.json")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", device); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{fifo, socket, device} {
		failed := make(chan error, 1)
		go func() {
			_, err := Named(file)
			failed <- err
		}()
		select {
		case err := <-failed:
			if err == nil {
				t.Errorf("%s was read", file)
			}
		case <-time.After(testkit.Patience):
			t.Errorf("%s holds up the pass", filepath.Base(file))
			if w, err := unix.Open(file, unix.O_RDWR|unix.O_NONBLOCK, 0); err == nil { // let it go
				t.Log(<-failed)
				unix.Close(w)
			}
		}
	}
}

// Files through a symbolic link are read: people keep their settings in other places.
func TestSymlink(t *testing.T) {
	dir := write(t, map[string]string{"real.json": `{"mcpServers": {"a": {"command": "c"}}}`})
	if err := os.Symlink("real.json", dir+"/link.json"); err != nil {
		t.Fatal(err)
	}
	if servers, err := Named(dir + "/link.json"); err != nil || len(servers) != 1 {
		t.Errorf("%v, %v", servers, err)
	}
}

// A configuration that is not ours to read is none of our business.
func TestKnownUnreadable(t *testing.T) {
	testkit.Need(t, testkit.User)
	home := write(t, map[string]string{".claude.json": "{}"})
	if err := os.Chmod(home+"/.claude.json", 0); err != nil {
		t.Fatal(err)
	}
	Known(home, func(err error) { t.Error(err) })
}
