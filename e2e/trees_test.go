package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mcp-tether/internal/testkit"
)

// shape is a tree that must be gone after its session.
type shape struct {
	name     string
	root     string
	children []string
	launch   func(argv []string) []string   // what the wrapper is given to start the tree
	root0    bool                           // needs the superuser
	graces   func(flags ...string) []string // default: polite
	grace    string                         // after SIGTERM, if another than those have
	noted    string                         // what a member must have written down
}

var shapes = []shape{
	{name: "single", root: "serve"},
	{name: "launcher chain", root: "serve", children: []string{"plain/plain"}, launch: inShells(3)},
	{name: "shell without exec", root: "serve", launch: inShells(1)},
	{name: "process group", root: "serve", children: []string{"pgrp/plain"}},
	{name: "setsid", root: "serve", children: []string{"setsid"}},
	{name: "double fork", root: "serve", children: []string{"daemon/plain"}},
	{name: "closed fds", root: "serve", children: []string{"setsid,closefds,clearenv,chdir"}},
	{name: "daemon with closed fds", root: "serve", children: []string{"daemon,closefds,clearenv,chdir"}},
	{name: "ignores TERM", root: "serve,ignore-term", graces: resisting, children: []string{"daemon,ignore-term"}},
	{name: "ignores EOF", root: "serve,ignore-eof", graces: deaf, children: []string{"setsid"}},
	{name: "spins", root: "serve,spin,ignore-term", graces: quick, children: []string{"setsid,ignore-term"}},
	{name: "deep", root: "serve", children: []string{"chain=200"}},
	{name: "wide", root: "serve", children: []string{"plain*500"}},
	{name: "wide and deaf", root: "serve", graces: resisting, children: []string{"setsid,ignore-term*100"}},
	{name: "forking family", root: "serve", graces: resisting, children: []string{"setsid,family=8"}},
	{name: "stopped", root: "serve", graces: resisting, children: []string{"setsid,stop*3", "stop", "setsid,ignore-term,stop"}},
	{name: "answers TERM with a daemon", root: "serve", graces: resisting, children: []string{"setsid,respawn"}, grace: "3s", noted: "respawned"},
	{name: "own subreaper", root: "serve", children: []string{"setsid,subreaper/daemon*3"}},
	{name: "own PID namespace", root: "serve", graces: resisting, children: []string{"pidns/setsid*2"}, root0: true},
	{name: "vfork parents", root: "serve", children: []string{"vfork*3", "setsid,vfork"}},
	{name: "zombies", root: "serve", children: []string{"zombies=2000"}},
	{name: "orphans", root: "serve", children: []string{"orphans=2000"}},
	{name: "survivor holds stdout", root: "serve", children: []string{"stdout,daemon"}},
	{name: "other user", root: "serve", children: []string{"uid=65534,setsid", "uid=65534,daemon"}, root0: true},
}

// inShells starts the command below that many shells which do not exec, as npx and npm do.
func inShells(n int) func([]string) []string {
	return func(argv []string) []string {
		for range n {
			quoted := make([]string, len(argv))
			for i, a := range argv {
				quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
			}
			argv = []string{"/bin/sh", "-c", strings.Join(quoted, " ") + "; exit $?"}
		}
		return argv
	}
}

// ending is a way to end a session.
type ending struct {
	name   string
	end    func(*session)
	causes []string
	exit   func(shape) string // how the wrapper must end; nil when the gateway is not there to see it
}

var endings = []ending{
	{
		name: "gateway killed", end: func(s *session) { s.gw.kill() },
		causes: deathCauses,
	},
	{
		name: "stdin closed", end: (*session).closeStdin, causes: []string{"stdin-closed", "server-exited"},
		exit: shape.exitAfterEOF,
	},
	{
		name: "wrapper terminated", end: func(s *session) { s.signal(syscall.SIGTERM) }, causes: []string{"signal"},
		exit: shape.exitAfterTerm,
	},
}

func (sh shape) exitAfterTerm() string {
	if strings.Contains(sh.root, "ignore-term") {
		return "exit 137"
	}
	return "exit 143"
}

// flags lets a root die of SIGTERM however busy the machine is, where its children may use the grace up and its end is seen.
func (sh shape) flags(e ending) []string {
	if sh.graces == nil {
		return polite(stormKill)
	}
	if e.name == "wrapper terminated" && sh.exitAfterTerm() == "exit 143" {
		return sh.graces(stormKill, politeRoot)
	}
	return sh.graces(stormKill)
}

func (sh shape) exitAfterEOF() string {
	if strings.Contains(sh.root, "spin") || strings.Contains(sh.root, "ignore-eof") {
		return sh.exitAfterTerm()
	}
	return "exit 0"
}

func TestTrees(t *testing.T) {
	t.Parallel()
	for i, sh := range shapes {
		for j, cgroup := range []string{"auto", "off"} {
			for k, e := range endings {
				t.Run(sh.name+"/cgroup="+cgroup+"/"+e.name, func(t *testing.T) {
					sample(t, 6, i, 3*j, 2*k)
					testkit.Need(t, !sh.root0 || os.Geteuid() == 0, "root")
					if !storms(sh.children...) {
						t.Parallel()
					}
					storm(t, sh.children...)
					sh.test(t, cgroup, e)
				})
			}
		}
	}
}

func (sh shape) test(t *testing.T, cgroup string, e ending) {
	flags := append(sh.flags(e), "--cgroup="+cgroup)
	if sh.grace != "" {
		flags = append(flags, "--term-grace="+sh.grace)
	}
	s := startGateway(t).newSession()
	argv := node(s.dir, sh.root, sh.children...)
	if sh.launch != nil {
		argv = sh.launch(argv)
	}
	s.spawn(setup{flags: flags}, argv...)
	s.waitReady()
	e.end(s)
	exit := ""
	if e.exit != nil {
		exit = s.wait()
		wantExit(t, exit, e.exit(sh))
	}
	s.gone()
	c := s.endedWhole(e.causes...)
	if exit != "" && exit != "exit "+strconv.Itoa(*c.Exit) {
		t.Errorf("the log says exit %d, the wrapper ended with %q", *c.Exit, exit)
	}
	if !strings.Contains(s.notes(), sh.noted) {
		t.Errorf("no member noted %q", sh.noted)
	}
}

// The client of a server that has exited must not wait for what the server left behind.
func TestStdoutEndsWithServer(t *testing.T) {
	t.Parallel()
	for _, stdio := range []string{"pipe", "socketpair"} {
		t.Run(stdio, func(t *testing.T) {
			t.Parallel()
			s := begin(t, setup{flags: resisting(), stdio: stdio}, "serve", "stdout,daemon", "stdout,setsid,ignore-term")
			s.write(`{"method":"exit","code":5}` + "\n")
			if rest := s.readToEnd(); rest != "" {
				t.Errorf("stdout had %q", rest)
			}
			wantExit(t, s.wait(), "exit 5")
			s.gone()
			s.endedWhole("server-exited")
		})
	}
}

// Orphans that die while the session lives must not pile up as zombies.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	s := begin(t, setup{flags: polite()}, "serve", "orphans=1000", "setsid/orphans=1000")
	supervisor := s.supervisor()
	testkit.Until(t, "no zombies below the supervisor", func() bool { return zombies(supervisor) == 0 })
	s.closeStdin()
	wantExit(t, s.wait(), "exit 0")
	s.gone()
	s.endedWhole("stdin-closed", "server-exited")
}

// leavesOrphans is a helper that a shell starts before it executes mcp-tether: 50 children of it end as orphans, once a line
// has come.
const leavesOrphans = `read line; for n in 1 2 3 4 5; do for m in 1 2 3 4 5 6 7 8 9 10; do (sleep 0.05 &); done; done; echo >"$0/left"; read line`

// What a foreign child leaves falls to the anchor, which waits for it. The control is the foreign child itself: nobody waits
// for that one, and it stays.
func TestOrphansOfForeignChildrenAreReaped(t *testing.T) {
	t.Parallel()
	s := startGateway(t).newSession()
	gate := filepath.Join(s.dir, "gate")
	s.ok(syscall.Mkfifo(gate, 0o600))
	script := `/bin/sh -c '` + leavesOrphans + `' "$0" <"$0/gate" 9>&- >/dev/null 2>&1 & echo $! >"$0/foreign"; exec "$@"`
	argv := append([]string{"/bin/sh", "-c", script, s.dir}, s.wrap(polite(), node(s.dir, "serve")...)...)
	s.spawn(setup{bare: true}, argv...)
	w := openGate(t, gate)
	defer w.Close()
	s.waitReady()
	say := func() { _, err := w.WriteString("\n"); s.ok(err) }
	say()
	testkit.Until(t, "the orphans", func() bool { _, err := os.Stat(filepath.Join(s.dir, "left")); return err == nil })
	testkit.Until(t, "no child but the supervisor and the helper", func() bool { return len(childrenOf(s.pid)) == 2 })
	say()
	testkit.Until(t, "the end of the helper", func() bool { return describe(s.pidIn("foreign")).state == "Z" })
	if answer := s.ask(`{"id":9,"method":"ping"}`); !strings.Contains(answer, `"id":9`) {
		t.Errorf("answer %q", answer)
	}
	if n := zombies(s.pid); n != 1 {
		t.Errorf("%d zombies below the anchor, want the helper", n)
	}
	s.closeStdin()
	wantExit(t, s.wait(), "exit 0")
	s.gone()
}

func zombies(parent int) int {
	return len(slices.DeleteFunc(childrenOf(parent), func(pid int) bool { return describe(pid).state != "Z" }))
}
