package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// A real Chromium, started as xdg-open starts it when a server signs in, has a window and outlives the session with all of its
// processes. One that has what a program drives it with ends, also with a window.
func TestBrowserOfAPerson(t *testing.T) {
	testkit.Proof(t)
	testkit.Long(t)
	_, err := os.Stat("/usr/bin/chromium")
	testkit.Lacks(t, testkit.Chromium, err != nil, "Chromium")
	_, err = exec.LookPath("Xvfb")
	testkit.Lacks(t, testkit.Chromium, err != nil, "Xvfb (apt install xvfb)")
	display := startDisplay(t)
	for name, c := range map[string]struct {
		flags string
		kept  bool
	}{
		"a person's": {"", true}, "with a port": {"--remote-debugging-port=0", false}, "of a test driver": {"--enable-automation", false},
		"with a profile in /tmp": {"--user-data-dir=$HOME/profile", false}, "without a window": {"--headless=new --remote-debugging-port=0", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := realDir(t)
			s := logOnly(t, filepath.Join(dir, "log.json"), dir)
			argv := s.Wrap([]string{"--term-grace=20s"}, "/bin/sh", "-c", "chromium --no-sandbox --disable-gpu --no-first-run --no-proxy-server "+
				"--host-resolver-rules='MAP * ~NOTFOUND' --disable-background-networking "+c.flags+" 'data:text/html,<title>hello</title>' >/dev/null 2>&1 & cat")
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), "DISPLAY="+display, "XDG_STATE_HOME="+dir)
			for k, v := range realEnv(dir) {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			in, err := cmd.StdinPipe()
			if err == nil {
				err = cmd.Start()
			}
			ok(t, err)
			browser := func() (of []proc) {
				for _, p := range findKin(dir, cmd.Process.Pid) {
					if p.Says("^/usr/lib/chromium/chromium") {
						of = append(of, p)
					}
				}
				return of
			}
			var family []proc
			t.Cleanup(func() { endKin(t, append(family, findKin(dir, cmd.Process.Pid)...)) })
			stage.Until(t, "a page", func() bool {
				family = browser()
				for _, p := range family {
					if p.Says("--type=renderer") {
						return true
					}
				}
				return false
			})
			_ = in.Close()
			_ = cmd.Wait()
			ended := s.EndedWhole("stdin-closed", "server-exited")
			if !c.kept {
				if left := stage.Outlasting(leakPatience, family...); len(left) > 0 || len(ended.Kept) > 0 {
					t.Errorf("left %v, kept %v", left, ended.Kept)
				}
				return
			}
			if left := stage.Outlasting(leakPatience, family[0]); len(left) == 0 || len(ended.Kept) < 3 {
				t.Errorf("its first process has ended; kept %v", ended.Kept)
			}
		})
	}
}

// startDisplay starts an X server without a screen, and returns its name.
func startDisplay(t *testing.T) string {
	t.Helper()
	r, w, err := os.Pipe()
	ok(t, err)
	cmd := exec.Command("Xvfb", "-displayfd", "3", "-screen", "0", "800x600x16", "-nolisten", "tcp")
	cmd.ExtraFiles = []*os.File{w}
	err = cmd.Start()
	w.Close()
	ok(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	number, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb has no display: %v", err)
	}
	return ":" + strings.TrimSpace(number)
}
