package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A gateway that lives, and starts a set of servers for each conversation without ending one: 492 of four kinds, as
// was reported. Nobody can know from outside which of them it still needs, so none is ended.
const (
	surplusKinds = 4
	surplusSets  = 123
)

func TestSurplusIsReportedOnly(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	g := startGateway(t)
	config, commands := smallServers(t, g.dir)
	pids := map[int]bool{}
	for n := range surplusSets {
		for kind, command := range commands {
			name := fmt.Sprintf("%d-%d", kind, n)
			pid := g.call("spawn", name, "stderr=/dev/null", "--", command, "-u")
			pids[number(t, pid)] = true
		}
	}
	for kind := range commands { // the last ones are up
		g.call("write", fmt.Sprintf("%d-%d", kind, surplusSets-1), "ping\n")
		g.call("read", fmt.Sprintf("%d-%d", kind, surplusSets-1))
	}
	outgrow(t)
	for _, args := range [][]string{nil, {"--kill", "--unwrapped"}} {
		wantSurplus(t, operator.reap(t, 1, append(args, "--config="+config)...), pids)
	}
	text := operator.run(t, "reap", "--config="+config)
	lines := regexp.MustCompile(`(?m)^surplus +\d+ +123 +\S+ +\d+(\.\d)?[KMG] .*$`).FindAllString(text.stdout, -1)
	if len(lines) != surplusKinds || !strings.Contains(text.stdout, "mcp-tether run --") {
		t.Errorf("want four lines with count and memory, and advice:\n%s", text.stdout)
	}
	for pid := range pids {
		if describe(pid).ppid != g.pid {
			t.Fatalf("server %d is gone", pid)
		}
	}
}

func wantSurplus(t *testing.T, r sweep, pids map[int]bool) {
	t.Helper()
	if len(r.Findings) != surplusKinds {
		t.Fatalf("%d findings, want %d: %v", len(r.Findings), surplusKinds, r.Findings)
	}
	for _, f := range r.Findings {
		if f.Class != "surplus" || f.Count != surplusSets || f.Advice == "" || f.Result != "listed" || *f.MemoryBytes == 0 {
			t.Errorf("count %d, %d bytes, advice %q: %v", f.Count, *f.MemoryBytes, f.Advice, f)
		}
		for _, m := range f.Members {
			if !pids[m.PID] {
				t.Errorf("%v names %d", f, m.PID)
			}
		}
	}
}

// smallServers are cat(1) by four names, and a configuration that names them.
func smallServers(t *testing.T, dir string) (config string, commands []string) {
	t.Helper()
	type server struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	servers := map[string]server{}
	for kind := range surplusKinds {
		name := "server-" + strconv.Itoa(kind)
		path := filepath.Join(dir, name)
		if err := os.Symlink("/bin/cat", path); err != nil {
			t.Fatal(err)
		}
		commands = append(commands, path)
		servers[name] = server{path, []string{"-u"}}
	}
	b, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return config, commands
}

// Living sessions, wrapped as they should be, are reported as surplus too when one gateway has many of a kind.
func TestSurplusOfSessions(t *testing.T) {
	if !onOwnHost(t) {
		return
	}
	g := startGateway(t)
	var all []*session
	for range 4 {
		s := g.newSession()
		s.shareRuntime()
		s.spawn(setup{flags: polite()}, node(g.dir, "serve")...)
		all = append(all, s)
	}
	for _, s := range all {
		s.waitReady()
		s.ids = []string{s.ownRecord()}
	}
	if r := operator.reap(t, 0, "--kill", "--surplus=4"); len(r.Findings) > 0 {
		t.Errorf("found %v", r.Findings)
	}
	r := operator.reap(t, 1, "--kill", "--surplus=3")
	if r.classes() != "surplus" || r.Findings[0].Count != 4 || r.Findings[0].Gateway.PID != g.pid || r.Findings[0].Gateway.State != "alive" {
		t.Errorf("found %v, want one surplus of 4 under %d", r.Findings, g.pid)
	}
	for _, s := range all {
		if !s.whole(3) {
			t.Errorf("session %s was touched", s.name)
		}
	}
	endNicely(g, all...)
}
