package clients

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// configured is a file with one server; quotes are not known here.
func configured(name, line string) []File {
	f := strings.Fields(line)
	return []File{{AnyUser: true, Servers: []Server{{Name: name, Command: f[0], Args: f[1:]}}}}
}

func TestMatch(t *testing.T) {
	const scoped = "npx -y @scope/server-x@1.2.3 /data"
	for _, c := range []struct{ configured, running string }{
		{scoped, "npx -y @scope/server-x@1.2.3 /data"},
		{scoped, "npm exec @scope/server-x@1.2.3 /data"},
		{scoped, "node /usr/bin/npx -y @scope/server-x@1.2.3 /data"},
		{scoped, "node /home/u/.npm/_npx/abc/node_modules/.bin/mcp-server-x /data"},
		{scoped, "node /home/u/.npm/_npx/abc/node_modules/.bin/server-x /data"},
		{scoped, "node /home/u/.npm/_npx/abc/node_modules/@scope/server-x/dist/index.js /data"},
		{scoped, "mcp-server-x /data"},
		{"npx @scope/server-x", "npx @scope/server-x@latest"},
		{"npx --package=@scope/server-x server-x", "node /n/node_modules/.bin/server-x"},
		{"npx -p @scope/tools server-x", "node /n/node_modules/.bin/server-x"},
		{"npx unscoped-mcp@0.1.0", "node /n/node_modules/.bin/unscoped-mcp"},
		{"npm exec -y @scope/server-x", "node /n/node_modules/.bin/mcp-server-x"},
		{"npm x -- @scope/server-x", "npm exec @scope/server-x"},
		{"pnpm dlx @scope/server-x@2", "node /n/node_modules/@scope/server-x/dist/cli.js"},
		{"yarn dlx @scope/server-x", "node /n/node_modules/.bin/server-x"},
		{"bunx @scope/server-x@1", "bun /tmp/bunx-0/node_modules/@scope/server-x/index.js"},
		{"bun x @scope/server-x", "bunx @scope/server-x"},
		{"uvx mcp-server-git==1.0 --repository /r", "uvx mcp-server-git==1.0 --repository /r"},
		{"uvx mcp-server-git@latest", "/home/u/.cache/uv/x/bin/python /home/u/.cache/uv/x/bin/mcp-server-git"},
		{"uv tool run mcp-server-git", "uv tool run mcp-server-git"},
		{"uvx --from git+https://h/r mcp-server-git", "python3 /c/bin/mcp-server-git"},
		{"/opt/fs-server --root /srv", "/opt/fs-server --root /srv"},
		{"fs-server --root /srv", "/usr/local/bin/fs-server --root /srv"},
		{"/opt/server.py --flag", "/usr/bin/python3 /opt/server.py --flag"},
		{"node /srv/a/server.js", "node /srv/a/server.js"},
		{"docker run -i --rm mcp/files", "docker run -i --rm mcp/files"},
		{"python3 -m mcp_server_time", "/usr/bin/python3 -m mcp_server_time"},
	} {
		name, ok := NewMatcher(configured("x", c.configured), nil).Match(Running{Args: strings.Fields(c.running)})
		if !ok || name != "x" {
			t.Errorf("configured %q, runs %q: not recognised", c.configured, c.running)
		}
	}
}

// A word of a command line may hold spaces, and anyone may start a process with such a word.
func TestMatchWordWithSpaces(t *testing.T) {
	for _, verb := range []string{"tool run", "tool run x", "x y"} {
		for _, runner := range []string{"uv", "npm", "pipx"} {
			files := append(configured("x", "npx -y server-x"), File{AnyUser: true, Servers: []Server{{Name: "y", Command: runner, Args: []string{verb}}}})
			if name, ok := NewMatcher(files, nil).Match(Running{Args: []string{runner, verb}}); !ok || name != "y" {
				t.Errorf("%s %q: %q, %v; want the one that is configured so", runner, verb, name, ok)
			}
			if _, ok := NewMatcher(configured("x", "npx -y server-x"), nil).Match(Running{Args: []string{runner, verb}}); ok {
				t.Errorf("%s %q was taken for another server", runner, verb)
			}
		}
	}
}

// npm shows itself as one word.
func TestMatchTitle(t *testing.T) {
	m := NewMatcher(configured("x", "npx -y @scope/server-x"), nil)
	for _, title := range []string{"npm exec @scope/server-x", "npm exec @scope/server-x@1.2.3 /data"} {
		if _, ok := m.Match(Running{Args: []string{title}}); !ok {
			t.Errorf("%q: not recognised", title)
		}
	}
}

// A program that looks at a server, or only sounds like one, is no server.
func TestMatchNoServer(t *testing.T) {
	const scoped = "npx -y @scope/server-x@1.2.3 /data"
	for _, c := range []struct{ configured, running string }{
		{scoped, "vim /n/node_modules/@scope/server-x/dist/index.js"},
		{scoped, "grep -r @scope/server-x /home/u"},
		{scoped, "npm view @scope/server-x"},
		{scoped, "tail -f /var/log/server-x"},
		{scoped, "vim server-x"},
		{scoped, "node /home/u/other.js server-x"},
		{scoped, "npx @scope/server-xy"},
		{scoped, "codex"},
		{"uvx mcp-server-git", "git clone mcp-server-git"},
		{"uvx mcp-server-git", "python3 /home/u/mcp-server-github"},
		{"/usr/local/bin/mcp-foo", "vim /usr/local/bin/mcp-foo"},
		{"node /srv/a/server.js", "node /srv/b/server.js"},
		{"node /srv/a/server.js", "vim node /srv/a/server.js.bak"},
		{"node", "node /srv/gateway.js"},
		{"npx", "npx @other/thing"},
		// Runners of a local script: the script is no package.
		{"npx tsx /srv/a/server.ts", "node /n/node_modules/.bin/tsx /srv/b/api.ts"},
		{"npx tsx /srv/a/server.ts", "npx tsx /srv/b/api.ts"},
		{"uv run --directory /srv/a server.py", "python3 /srv/b/server.py"},
		{"uv --directory /srv/a run server.py", "vim server.py"},
		{"uv run --with mcp mcp run /srv/a/server.py", "codex mcp serve"},
		{"bun run /srv/a/index.ts", "docker run -it debian"},
		{"npm run mcp", "cargo run"},
		{"yarn --cwd /srv/a start", "npm start"},
	} {
		if _, ok := NewMatcher(configured("x", c.configured), nil).Match(Running{Args: strings.Fields(c.running)}); ok {
			t.Errorf("configured %q: %q was taken for it", c.configured, c.running)
		}
	}
}

// A user's configuration says nothing about other users' processes; a file named on the command line does.
func TestMatchOwner(t *testing.T) {
	files := configured("x", "/opt/own --stdio")
	files[0].UID = 1000
	args := []string{"/opt/own", "--stdio"}
	for _, c := range []struct {
		anyUser bool
		uid     int
		want    bool
	}{{false, 1000, true}, {false, 0, false}, {false, 1001, false}, {true, 0, true}, {true, 1001, true}} {
		files[0].AnyUser = c.anyUser
		if _, ok := NewMatcher(files, nil).Match(Running{UID: c.uid, Args: args}); ok != c.want {
			t.Errorf("any user %v, uid %d: %v", c.anyUser, c.uid, ok)
		}
	}
}

func TestMatchPattern(t *testing.T) {
	m := NewMatcher(nil, regexp.MustCompile(`mcp-server-\w+`))
	if name, ok := m.Match(Running{Args: []string{"node", "/x/mcp-server-git", "--flag"}}); !ok || name != "mcp-server-git" {
		t.Errorf("%q, %v", name, ok)
	}
	for _, args := range [][]string{nil, {}, {""}, {"node", "server-git"}} {
		if _, ok := m.Match(Running{Args: args}); ok {
			t.Errorf("%q matches", args)
		}
	}
	if _, ok := NewMatcher(nil, nil).Match(Running{Args: []string{"anything"}}); ok {
		t.Error("nothing is configured, and something matches")
	}
}

// Anybody may write anything into a configuration or a command line.
func TestMatchOddLines(t *testing.T) {
	odd := [][]string{nil, {""}, {"", ""}, {" "}, {"sh"}, {"sh", ""}, {"-"}, {"@"}, {"a@"}, {"/"}, {"node"}, {"node", "/"}}
	var servers []Server
	for _, o := range odd {
		if len(o) > 0 {
			servers = append(servers, Server{Name: "odd", Command: o[0], Args: o[1:]})
		}
	}
	for _, runner := range []string{"npx", "uvx", "uv", "npm", "bun"} {
		for _, o := range odd {
			servers = append(servers, Server{Name: "odd", Command: runner, Args: o})
		}
	}
	m := NewMatcher([]File{{Servers: servers}}, nil)
	for _, o := range odd {
		m.Match(Running{Args: o})
	}
	for _, args := range [][]string{{"bash"}, {"vim", "notes"}, {"/sbin/init"}, {"codex", "--yolo"}, {"", "x"}} {
		if _, ok := m.Match(Running{Args: args}); ok {
			t.Errorf("%q matches a server without a name", args)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("npx", "-y @a/b@1", "node /x/node_modules/.bin/b")
	f.Add("sh", "-c x", "sh")
	f.Fuzz(func(_ *testing.T, command, args, running string) {
		m := NewMatcher([]File{{Servers: []Server{{Name: "x", Command: command, Args: strings.Split(args, " ")}}}}, nil)
		m.Match(Running{Args: strings.Split(running, " ")})
		m.Match(Running{Args: []string{running}})
	})
}

// A script is recognised by its name and arguments, whether the runner is left or only the process that it started. npm
// pads its title with zero bytes.
func TestMatchScripts(t *testing.T) {
	for _, c := range []struct {
		configured, seen []string
		want             bool
	}{
		{[]string{"uv", "run", "server.py", "--directory", "/data"}, []string{"python3", "server.py", "--directory", "/data"}, true},
		{[]string{"uv", "run", "server.py", "-v"}, []string{"/srv/x/.venv/bin/python3", "server.py"}, false},
		{[]string{"uv", "run", "server.py"}, []string{"/usr/bin/vim", "server.py"}, false},
		{[]string{"npx", "tsx", "x.ts"}, []string{"npm exec tsx x.ts"}, true},
		{[]string{"npx", "tsx", "x.ts"}, []string{"node", "--import", "file:///n/tsx/loader.mjs", "x.ts"}, true},
		{[]string{"npm", "run", "start"}, []string{"npm run start", "", "", ""}, true},
		{[]string{"/opt/My Server"}, []string{"/opt/My Server"}, true},
		{[]string{"uv", "run", "server.py"}, []string{""}, false},
	} {
		m := NewMatcher([]File{{AnyUser: true, Servers: []Server{{Name: "s", Command: c.configured[0], Args: c.configured[1:]}}}}, nil)
		if _, got := m.Match(Running{Args: c.seen}); got != c.want {
			t.Errorf("configured %q, seen %q: %v", c.configured, c.seen, got)
		}
	}
}

// Where a runner is told the directory, the same script of another one is no server, nor one whose directory cannot be read. A
// relative directory says nothing. The runner's own command line needs no directory. Seen to take any server.py for the configured one.
func TestMatchScriptOfADirectory(t *testing.T) {
	dirs := []string{"/srv/a", "/srv/b", "/", ""}
	for _, c := range []struct {
		configured, seen string
		in               []string
	}{
		{"uv --directory /srv/a run server.py", "python3 server.py", dirs[:1]},
		{"uv --directory=/srv/a/./ run server.py", "/srv/a/.venv/bin/python3 server.py", dirs[:1]},
		{"uv run --project /p --directory /srv/a server.py", "python3 server.py", dirs[:1]},
		{"uv --directory /srv/a run --project /p python server.py", "python3 server.py", dirs[:1]},
		{"npm --prefix /srv/a exec tsx src/x.ts", "node --import /n/tsx/loader.mjs src/x.ts", dirs[:1]},
		{"bun --cwd /srv/a run x.ts", "bun x.ts", dirs[:1]},
		{"uv --directory . run server.py", "python3 server.py", nil},
		{"uv --directory /srv/a run /srv/server.py", "python3 /srv/server.py", dirs},
		{"uv --directory /srv/a run server.py", "uv --directory /srv/a run server.py", dirs},
	} {
		m := NewMatcher(configured("x", c.configured), nil)
		for _, dir := range dirs {
			p := Running{Args: strings.Fields(c.seen), Dir: func() string { return dir }}
			if _, got := m.Match(p); got != slices.Contains(c.in, dir) {
				t.Errorf("configured %q, seen %q in %q: %v", c.configured, c.seen, dir, got)
			}
		}
	}
}

// A script of a project is known by its name and the project's directory, where both are configured.
func TestMatchScriptOfAProject(t *testing.T) {
	for line, want := range map[string]string{
		"npm --prefix /srv/x run start": "start /srv/x", "npm run start --prefix=/srv/x/": "start /srv/x", "pnpm -C /srv/x start": "start /srv/x",
		"/usr/bin/npm --prefix /srv/x run-script mcp -- --port 1": "mcp /srv/x", "pnpm --dir /srv/x run a:b": "a:b /srv/x",
		"npm run start": "", "npm --prefix x run start": "", "npm --prefix /srv/x install": "", "npm --prefix /srv/x run": "", "node --prefix /srv/x run start": "",
		"npm --prefix": "",
	} {
		words := strings.Fields(line)
		m := NewMatcher([]File{{UID: 1000, Servers: []Server{{Name: "it", Command: words[0], Args: words[1:]}}}}, nil)
		script, project, _ := strings.Cut(want, " ")
		if name, ok := m.Match(Running{UID: 1000, Script: script, Project: project}); ok != (want != "") || ok && name != "it" {
			t.Errorf("%s: %q, %v", line, name, ok)
		}
		for _, other := range []Running{
			{UID: 1000, Script: script, Project: "/srv/y"}, {UID: 1000, Script: "build", Project: project}, {UID: 1001, Script: script, Project: project},
		} {
			if _, ok := m.Match(other); ok {
				t.Errorf("%s is taken for %v", line, other)
			}
		}
	}
}
