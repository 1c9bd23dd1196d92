package front

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcp-tether/e2e/testkit"
)

// place is a working directory with a home, in which a server can be found.
func place(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir+"/home")
	t.Setenv("PATH", dir+"/bin")
	for _, name := range []string{"npm_config_cache", "UV_CACHE_DIR", "UV_TOOL_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME"} {
		t.Setenv(name, "")
	}
	for _, sub := range []string{"bin", "home"} {
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"server", "node", "npx", "uvx", "bunx"} {
		testkit.WriteProgram(t, "bin/"+program, []byte("#!/bin/sh\n"))
	}
	put(t, "script.js", "one")
	return dir
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Whatever changes what a server may publish changes its identity. Where it cannot be seen, there is none.
func TestIdentity(t *testing.T) {
	const npm, local = "home/.npm/_npx/0123/node_modules/@a/b/package.json", "node_modules/@a/b/package.json"
	for name, c := range map[string]struct {
		command string
		before  func(t *testing.T) // what is there already
		change  func(t *testing.T)
		same    bool
		unknown bool // before the change
	}{
		"nothing":               {command: "server a", change: func(*testing.T) {}, same: true},
		"another file":          {command: "server a", change: func(t *testing.T) { put(t, "other", "x") }, same: true},
		"program replaced":      {command: "server a", change: func(t *testing.T) { ok(t, os.Rename("bin/node", "bin/server")) }},
		"program touched":       {command: "server a", change: func(t *testing.T) { touch(t, "bin/server") }},
		"program before it":     {command: "server a", change: func(t *testing.T) { t.Setenv("PATH", t.TempDir()+":"+os.Getenv("PATH")) }},
		"variable":              {command: "server a", change: func(t *testing.T) { t.Setenv("SOME_VARIABLE", "x") }},
		"working directory":     {command: "server a", change: func(t *testing.T) { t.Chdir(t.TempDir()) }},
		"script":                {command: "node script.js", change: func(t *testing.T) { put(t, "script.js", "another") }},
		"script, same size":     {command: "node --flag script.js", change: func(t *testing.T) { touch(t, "script.js") }},
		"no such program":       {command: "none", change: func(*testing.T) {}, unknown: true, same: true},
		"npx, not fetched":      {command: "npx -y @a/b@1", change: func(t *testing.T) { put(t, npm, "1") }, unknown: true},
		"npx, another version":  {command: "npx -y @a/b@latest", before: func(t *testing.T) { put(t, npm, "1") }, change: func(t *testing.T) { put(t, npm, "2.0") }},
		"npx, another cache":    {command: "npx -y @a/b", before: func(t *testing.T) { put(t, npm, "1") }, change: func(t *testing.T) { put(t, strings.Replace(npm, "0123", "4567", 1), "1") }},
		"npx, in the project":   {command: "npx @a/b", before: func(t *testing.T) { put(t, local, "1") }, change: func(t *testing.T) { put(t, local, "2.0") }},
		"npx, another package":  {command: "npx -y @a/b", before: func(t *testing.T) { put(t, npm, "1") }, change: func(t *testing.T) { put(t, strings.Replace(npm, "@a/b", "c", 1), "1") }, same: true},
		"uvx, not fetched":      {command: "uvx mcp_Server", change: func(*testing.T) {}, unknown: true, same: true},
		"uvx, one more version": {command: "uvx mcp_Server[x]==1", before: func(t *testing.T) { put(t, "home/.cache/uv/wheels-v5/pypi/mcp-server/1.http", "") }, change: func(t *testing.T) { put(t, "home/.cache/uv/wheels-v5/pypi/mcp-server/2.http", "") }},
		"a runner not known":    {command: "bunx x", change: func(*testing.T) {}, unknown: true, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			if c.before != nil {
				c.before(t)
			}
			command := strings.Fields(c.command)
			before, found := identity(command)
			if found == c.unknown || (before == "") != c.unknown {
				t.Errorf("found %t, %q", found, before)
			}
			c.change(t)
			after, _ := identity(command)
			if (after == before) != c.same {
				t.Errorf("in %s before\n%s\nand after\n%s", dir, before, after)
			}
		})
	}
}

func touch(t *testing.T, name string) {
	t.Helper()
	now := time.Now().Add(time.Hour)
	ok(t, os.Chtimes(name, now, now))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
