package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/cgroup"
	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/engine"
)

func only(t *testing.T, all []check, about string) check {
	t.Helper()
	for _, c := range all {
		if c.About == about {
			return c
		}
	}
	t.Fatalf("nothing about %s in %+v", about, all)
	return check{}
}

// inCgroupOfItsOwn moves the test into a cgroup where no other package's tests make any. It returns "" where it cannot.
func inCgroupOfItsOwn(t *testing.T) string {
	t.Helper()
	above, err := stage.WritableCgroup()
	if err != nil {
		return ""
	}
	dir := filepath.Join(above, fmt.Sprintf("mcp-tether-doctor-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	move := func(to string) {
		if err := os.WriteFile(filepath.Join(to, "cgroup.procs"), []byte("0"), 0); err != nil {
			t.Error(err)
		}
	}
	move(dir)
	t.Cleanup(func() {
		move(above)
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestDoctorLeavesNothing(t *testing.T) {
	own := inCgroupOfItsOwn(t)
	dir := t.TempDir()
	all := machine(dir)
	if c := only(t, all, "records"); c.State != stateOK || !strings.Contains(c.Found, dir) {
		t.Errorf("%+v", c)
	}
	if c := only(t, all, "cgroup"); own != "" && (c.State != stateOK || !strings.HasSuffix(c.Found, own)) {
		t.Errorf("%+v, want one below %s", c, own)
	}
	if left, _ := filepath.Glob(filepath.Join(own, cgroup.Prefix+"*")); own != "" && len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, c := range all {
		if (c.State == stateOK) != (c.Cure == "") && c.State != stateWarn {
			t.Errorf("%+v", c)
		}
	}
}

func TestRecordsInAnOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "mcp-tether"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "mcp-tether"), 0o777); err != nil {
		t.Fatal(err)
	}
	if c := only(t, machine(dir), "records"); c.State != stateFail || c.Cure == "" {
		t.Errorf("%+v", c)
	}
}

func TestDoctorMemory(t *testing.T) {
	for state, available := range map[string]string{stateOK: "2000000", stateWarn: "1000000"} {
		t.Setenv("HOST_PROC", t.TempDir())
		text := "MemTotal: 16000000 kB\nMemFree: 500000 kB\nMemAvailable: " + available + " kB\n"
		if err := os.WriteFile(os.Getenv("HOST_PROC")+"/meminfo", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := only(t, machine(t.TempDir()), "memory"); c.State != state || !strings.Contains(c.Found, "of 15.3G") {
			t.Errorf("%s kB available: %+v", available, c)
		}
	}
	t.Setenv("HOST_PROC", t.TempDir())
	if c := only(t, machine(t.TempDir()), "memory"); c.State != stateWarn {
		t.Errorf("nothing to read: %+v", c)
	}
}

func TestDoctorClients(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if c := examineClients(); len(c) != 1 || c[0].State != stateWarn {
		t.Errorf("nothing is here: %+v", c)
	}
	put := func(name, text string) string {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	put(".codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n[mcp_servers.b]\ncommand = \"mcp-tether\"\nargs = [\"run\", \"y\"]\n")
	put(".cursor/mcp.json", `{"mcpServers":{"c":{"command":"mcp-tether","args":["run","--","z"]}}}`)
	put(".config/zed/settings.json", `{"context_servers":{"e":{"command":"npx","args":["mcp-tether","run","z"]},"f":{"command":"mcp-tether","args":["run","z"]}}}`)
	put(".openclaw/openclaw.json", `{"mcp":{"servers":{"g":{"command":"mcp-tether","args":["npx","z"]},"h":{"command":"x","args":["/src/mcp-tether"]}}}}`)
	put(".claude.json", `{`)
	put(".claude/plugins/cache/m/p/1.0/.mcp.json", `{"q":{"command":"npx","args":["y"]}}`)
	put(".gemini/extensions/ext/gemini-extension.json", `{"name":"ext","mcpServers":{"p":{"command":"npx","args":["x"]}}}`)
	target := put("dot/settings.json", `{"mcpServers":{"d":{"command":"x"}}}`)
	if err := os.MkdirAll(filepath.Join(home, ".gemini"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(home, ".gemini/settings.json")); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := printChecks(&text, examineClients()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"warn  clients    Codex, " + home + "/.codex/config.toml: 1 of 2 servers not wrapped: a\n                 -> mcp-tether wrap codex\n",
		"ok    clients    Cursor, " + home + "/.cursor/mcp.json: 1 of 1 servers are wrapped\n",
		"ok    clients    Zed, " + home + "/.config/zed/settings.json: 2 of 2 servers are wrapped\n",
		"warn  clients    OpenClaw, " + home + "/.openclaw/openclaw.json: 1 of 2 servers not wrapped: g\n",
		"warn  clients    Claude Code, " + home + "/.claude.json: ",
		"warn  clients    Claude Code, " + home + "/.claude/plugins/cache/m/p/1.0/.mcp.json: 1 of 1 servers not wrapped: q\n",
		"warn  clients    Gemini CLI, " + home + "/.gemini/extensions/ext/gemini-extension.json: 1 of 1 servers not wrapped: p\n",
		"add them to Gemini CLI by hand: mcp-tether run --name p -- ",
		"warn  clients    Gemini CLI, " + home + "/.gemini/settings.json: 1 of 1 servers not wrapped: d\n                 -> mcp-tether wrap " + target + "\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

func TestEngineThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	defer l.Close()
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	if c := askEngine(); len(c) != 1 || c[0].State != stateWarn || !strings.Contains(c[0].Found, socket) {
		t.Errorf("%+v", c)
	}
	// A session asks this one first.
	t.Setenv("DOCKER_HOST", "unix:///nowhere")
	t.Setenv(engine.EnvURL, socket)
	if c := askEngine(); len(c) != 1 || c[0].State != stateWarn || !strings.Contains(c[0].Found, socket) {
		t.Errorf("%+v", c)
	}
}

func TestDoctorProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if c := program(); c.State != stateWarn || !strings.Contains(c.Cure, "wrap writes the whole path") {
		t.Errorf("%+v", c)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, filepath.Join(dir, "mcp-tether")); err != nil {
		t.Fatal(err)
	}
	if c := program(); c.State != stateOK {
		t.Errorf("%+v", c)
	}
	// The launcher of our npm package becomes another file. Any other file is another program.
	for file, state := range map[string]string{"lib/node_modules/mcp-tether/mcp-tether": stateOK, "lib/other/mcp-tether": stateWarn} {
		file, bin := filepath.Join(dir, file), t.TempDir()
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.Symlink(file, bin+"/mcp-tether")); err != nil {
			t.Fatal(err)
		}
		testkit.WriteProgram(t, file, []byte("#!/bin/sh\n"))
		t.Setenv("PATH", bin)
		if c := program(); c.State != state {
			t.Errorf("%+v", c)
		}
	}
}

func TestVerdict(t *testing.T) {
	leak := func(processes int, bytes uint64) check {
		return check{About: aboutLeaks, State: stateFail, Processes: processes, MemoryBytes: bytes}
	}
	client := func(state string, servers, bare int) check {
		return check{About: "clients", State: state, Servers: servers, Bare: bare}
	}
	failed := func(about string) check { return check{About: about, State: stateFail} }
	fine, suspect := check{About: aboutLeaks, State: stateOK}, check{About: aboutLeaks, State: stateWarn}
	for want, all := range map[string][]check{
		"nothing leaks; 14 of 14 servers are wrapped":               {fine, client(stateOK, 2, 0), client(stateOK, 12, 0)},
		"nothing leaks; 12 of 14 servers are wrapped":               {fine, client(stateOK, 10, 0), client(stateWarn, 4, 2)},
		"nothing leaks; no server was found in a configuration":     {fine, client(stateWarn, 0, 0)},
		"leaks: 3, with 123M of memory; 0 of 1 servers are wrapped": {leak(1, 100<<20), leak(2, 20<<20), leak(1, 3<<20), client(stateWarn, 1, 1)},
		"leaks: 1; 1 of 1 servers are wrapped":                      {leak(0, 0), suspect, client(stateOK, 1, 0)},
		"nothing is proven to leak; 2 of 2 servers are wrapped":     {suspect, client(stateOK, 2, 0)},
		"nothing leaks; records, limits failed; 2 of 2 servers are wrapped": {
			failed("records"), failed("limits"), failed("records"), {About: "kernel", State: stateWarn}, fine, client(stateOK, 2, 0)},
	} {
		if got := verdict(all); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		var b bytes.Buffer
		if err := printChecks(&b, all); err != nil || !strings.HasPrefix(b.String(), want+"\n") {
			t.Errorf("%q begins no text: %q, %v", want, b.String(), err)
		}
	}
}
