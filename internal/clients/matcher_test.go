package clients

import (
	"regexp"
	"strings"
	"testing"
)

// server is a configured server of any user; quotes are not known here.
func server(line string) []Server {
	return []Server{{Name: "x", Args: strings.Fields(line), UID: AnyUser}}
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
		name, ok := NewMatcher(server(c.configured), nil).Match(Running{Args: strings.Fields(c.running)})
		if !ok || name != "x" {
			t.Errorf("configured %q, runs %q: not recognised", c.configured, c.running)
		}
	}
}

// A word of a command line may hold spaces, and anyone may start a process with such a word.
func TestMatchWordWithSpaces(t *testing.T) {
	for _, verb := range []string{"tool run", "tool run x", "x y"} {
		for _, runner := range []string{"uv", "npm", "pipx"} {
			servers := append(server("npx -y server-x"), Server{Name: "y", Args: []string{runner, verb}, UID: AnyUser})
			if name, ok := NewMatcher(servers, nil).Match(Running{Args: []string{runner, verb}}); !ok || name != "y" {
				t.Errorf("%s %q: %q, %v; want the one that is configured so", runner, verb, name, ok)
			}
			if _, ok := NewMatcher(server("npx -y server-x"), nil).Match(Running{Args: []string{runner, verb}}); ok {
				t.Errorf("%s %q was taken for another server", runner, verb)
			}
		}
	}
}

// npm shows itself as one word.
func TestMatchTitle(t *testing.T) {
	m := NewMatcher(server("npx -y @scope/server-x"), nil)
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
		if _, ok := NewMatcher(server(c.configured), nil).Match(Running{Args: strings.Fields(c.running)}); ok {
			t.Errorf("configured %q: %q was taken for it", c.configured, c.running)
		}
	}
}

// A user's configuration says nothing about other users' processes; a file named on the command line does.
func TestMatchOwner(t *testing.T) {
	servers := server("/opt/own --stdio")
	args := []string{"/opt/own", "--stdio"}
	for _, c := range []struct {
		of, uid int
		want    bool
	}{{1000, 1000, true}, {1000, 0, false}, {1000, 1001, false}, {AnyUser, 0, true}, {AnyUser, 1001, true}} {
		servers[0].UID = c.of
		if _, ok := NewMatcher(servers, nil).Match(Running{UID: c.uid, Args: args}); ok != c.want {
			t.Errorf("of %d, uid %d: %v", c.of, c.uid, ok)
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
			servers = append(servers, Server{Name: "odd", Args: o})
		}
	}
	for _, runner := range []string{"npx", "uvx", "uv", "npm", "bun"} {
		for _, o := range odd {
			servers = append(servers, Server{Name: "odd", Args: append([]string{runner}, o...)})
		}
	}
	m := NewMatcher(servers, nil)
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
		m := NewMatcher([]Server{{Name: "x", Args: append([]string{command}, strings.Split(args, " ")...)}}, nil)
		m.Match(Running{Args: strings.Split(running, " ")})
		m.Match(Running{Args: []string{running}})
	})
}
