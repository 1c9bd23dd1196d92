package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Reap that finds nothing says what it has looked at, but not where nobody reads it.
func TestReapSaysWhatItLookedAt(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	r, w, err := os.Pipe()
	ok(t, err)
	defer r.Close()
	dir := t.TempDir()
	y := openTTY(t, []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir}, w, tether, "reap", "--containers=off", "--session", "0123456789abcdef")
	y.expect("nothing found in ")
	_ = y.cmd.Wait()
	if o := operator.run(t, "reap", "--containers=off", "--session", "0123456789abcdef"); o.stdout != "" || o.stderr != "" {
		t.Errorf("off a terminal: %+v", o)
	}
}

// Doctor tells the limit that a server would get. The Go runtime has raised the one of doctor itself.
func TestDoctorTellsTheLimitOfServers(t *testing.T) {
	t.Parallel()
	for limit, low := range map[string]bool{"48": true, "256": false} {
		dir := t.TempDir()
		cmd := exec.Command("/bin/sh", "-c", "ulimit -Sn "+limit+` && exec "$0" doctor`, tether)
		cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PATH=" + os.Getenv("PATH")}
		if o := finish(t, cmd); strings.Contains(o.stdout, "only "+limit+" open files are allowed") != low {
			t.Errorf("%s: %+v", limit, o)
		}
	}
}

// Doctor tells where no process can adopt orphans.
func TestDoctorTellsThatNobodyAdoptsOrphans(t *testing.T) {
	t.Parallel()
	for _, steps := range [][]string{nil, {"refuse=subreaper:EINVAL"}} {
		dir := t.TempDir()
		argv := inWorld([]string{tether, "doctor"}, steps...)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "PATH=" + os.Getenv("PATH")}
		if o := finish(t, cmd); strings.Contains(o.stdout, "orphans of a server") != (steps != nil) {
			t.Errorf("%v: %+v", steps, o)
		}
	}
}

// What leaks is found by doctor, with the cure, and the cure helps.
func TestDoctorFindsALeak(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	if o := operator.run(t, "doctor"); o.code != 0 || !strings.Contains(o.stdout, "nothing that outlived its session") {
		t.Errorf("nothing leaks: %+v", o)
	}
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.Spawn(setup{Flags: deaf()}, node(s.Dir, "serve,ignore-eof", "daemon")...)
	s.WaitReady()
	killPair(t, s.PID)
	s.gw.Kill()
	outgrow(t)
	o := operator.run(t, "doctor", "--json")
	var report struct {
		Verdict string
		Checks  []struct{ About, State, Found, Cure string }
	}
	ok(t, json.Unmarshal([]byte(o.stdout), &report))
	found := false
	for _, c := range report.Checks {
		found = found || c.About == "leaks" && c.State == "fail" && c.Cure == "mcp-tether reap --kill"
	}
	if o.code != 1 || !found || !strings.HasPrefix(report.Verdict, "leaks: 1, with ") {
		t.Errorf("%+v", o)
	}
	if o := operator.run(t, "doctor"); !strings.HasPrefix(o.stdout, "leaks: 1, with ") {
		t.Errorf("the first line: %+v", o)
	}
	operator.run(t, "reap", "--kill")
	s.WaitDead()
	if o := operator.run(t, "doctor"); o.code != 0 || !strings.HasPrefix(o.stdout, "nothing leaks; ") {
		t.Errorf("after the cure: %+v", o)
	}
}
