package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The known gateways' files say what a server is. They belong to users, and may be anything.

// homeOf gives the user a home, in a password file of this host's own.
func homeOf(t *testing.T, users ...int) map[int]string {
	t.Helper()
	homes, passwd := map[int]string{}, ""
	base := t.TempDir()
	for _, dir := range []string{base, filepath.Dir(base)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, user := range users {
		dir := filepath.Join(base, fmt.Sprint(user))
		ownDir(t, user, dir)
		homes[user] = dir
		passwd += fmt.Sprintf("u%d:x:%d:%d::%s:/bin/sh\n", user, user, user, dir)
	}
	file := filepath.Join(base, "passwd")
	put(t, 0, file, []byte(passwd))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(file, "/etc/passwd", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount("/etc/passwd", unix.MNT_DETACH) })
	return homes
}

// configure writes the file of one gateway that names the command.
func configure(t *testing.T, user int, home string, command ...string) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"one": map[string]any{"command": command[0], "args": command[1:]},
	}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, user, filepath.Join(home, ".claude.json"), b)
}

// A user's file speaks of that user's servers. For root it is the same from everybody's home.
func TestReapConfigOfAnotherUser(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	homes := homeOf(t, 0, nobody)
	s := bareServer(t, "pipe", 0)
	s.gw.kill()
	command := node(s.dir, "serve,ignore-eof", "setsid/plain", "plain")
	configure(t, nobody, homes[nobody], command...)
	root := caller{env: []string{"HOME=" + homes[0]}}
	for _, c := range []caller{root, operator, {uid: nobody, env: []string{"HOME=" + homes[nobody]}}} {
		if r := c.reap(t, 0, "--kill", "--unwrapped"); len(r.Findings) > 0 {
			t.Errorf("by another user's file found %v", r.Findings)
		}
	}
	if n := len(s.members()); n != 4 {
		t.Fatalf("%d processes are left, want all 4", n)
	}
	configure(t, 0, homes[0], command...)
	if r := root.reap(t, 1); r.classes() != "severed" || r.Findings[0].Name != "one" {
		t.Errorf("by its own user's file found %v", r.Findings)
	}
	theirs := bareServer(t, "pipe", nobody)
	theirs.gw.kill()
	configure(t, nobody, homes[nobody], node(theirs.dir, "serve,ignore-eof", "setsid/plain", "plain")...)
	root.reap(t, 0, "--kill", "--unwrapped")
	s.waitDead()
	theirs.waitDead()
}

// Files that cannot be read hold up nothing.
func TestReapOddConfigs(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	homes := homeOf(t, 0, nobody)
	odd := map[string]func(file string) error{
		"FIFO":      func(file string) error { return syscall.Mkfifo(file, 0o644) },
		"endless":   func(file string) error { return os.Symlink("/dev/zero", file) },
		"terminal":  func(file string) error { return os.Symlink("/dev/ptmx", file) },
		"sparse":    func(file string) error { return os.WriteFile(file, nil, 0o644) },
		"directory": func(file string) error { return os.Mkdir(file, 0o755) },
		"broken":    func(file string) error { return os.WriteFile(file, []byte(`{"mcpServers":{"x":`), 0o644) },
		"deep":      func(file string) error { return os.WriteFile(file, deep(), 0o644) },
		"odd types": func(file string) error {
			return os.WriteFile(file, []byte(`{"mcpServers":{"x":7,"y":{"command":[],"args":{}},"z":null},"projects":[3]}`), 0o644)
		},
	}
	for name, make := range odd {
		for user, home := range homes {
			t.Run(fmt.Sprintf("%s/uid=%d", name, user), func(t *testing.T) {
				var files []string
				for _, rel := range []string{".claude.json", ".codex/config.toml", ".cursor/mcp.json", ".gemini/settings.json"} {
					file := filepath.Join(home, rel)
					ownDir(t, user, filepath.Dir(file))
					if err := make(file); err != nil {
						t.Fatal(err)
					}
					if name == "sparse" {
						truncate(t, file, 1<<40)
					}
					files = append(files, file)
				}
				s := dead(t)
				o := (caller{env: []string{"HOME=" + homes[0]}}).run(t, "reap", "--kill", "--timeout=20s", "--term-grace=300ms")
				if o.code != 0 {
					t.Errorf("exit code %d: %.300s", o.code, o.stderr)
				}
				s.swept()
				for _, file := range files {
					if err := os.Remove(file); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// deep is JSON in JSON in JSON.
func deep() []byte {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = '['
	}
	return b
}
