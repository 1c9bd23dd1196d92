package e2e

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// The official SDK's client in front of real servers that sleep between its calls: it must not see an error, ever.

// A patientClient is such a client, see npm/patient.mjs.
type patientClient struct {
	*sdkClient
	s *session
	// slept is how often the server had slept at the start of the cycle.
	slept int
}

// toldServer is the client's configuration.
type toldServer struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Roots   []string          `json:"roots,omitempty"`
	// Idle is the time of --hibernate, if not 1 s. server-everything asks for roots 350 ms after its start. One that
	// was put to sleep before that is not known to ask.
	Idle string `json:"-"`
	// Client is the script of the client, if not patient.mjs.
	Client string `json:"-"`
}

const everythingJS = "node_modules/.bin/mcp-server-everything"

// startPatient returns once the client has met its server.
func startPatient(t *testing.T, dir string, server toldServer, argv ...string) *patientClient {
	t.Helper()
	s := logOnly(t, filepath.Join(dir, "log.json"), dir)
	full := s.Wrap(quick("--hibernate="+cmp.Or(server.Idle, "1s")), argv...) // Not all of these servers end at the end of their input.
	server.Command, server.Args, server.Env = full[0], full[1:], realEnv(dir)
	return &patientClient{sdkClient: startSDKClient(t, dir, server), s: s}
}

// asleep waits until the server sleeps again. It may have slept more than once since the last time: a busy machine may take
// the idle time between two messages.
func (p *patientClient) asleep() {
	p.t.Helper()
	var r sleeper
	p.s.until("asleep", func() bool { r = p.s.sleeper(); return r.State == "asleep" && r.Sleeps > p.slept })
	p.slept = r.Sleeps
}

// woken counts the servers after the first. The session must be over.
func (p *patientClient) woken() int { return len(p.s.Events("server woken")) }

// bye closes the client and looks for anything left.
func (p *patientClient) bye() {
	p.t.Helper()
	family := findKin(p.dir, p.cmd.Process.Pid)
	p.close()
	if left := stage.Outlasting(testkit.Patience, family...); len(left) > 0 {
		p.t.Errorf("left behind: %v", left)
	}
	if left := findKin(p.dir); len(left) > 0 {
		p.t.Errorf("born late and left behind: %v", left)
	}
	checkNoRecords(p.t, p.dir)
}

// A server that is used and sleeps, again and again, asks its client for sampling, elicitation and roots as a new one does. The
// controls are that nothing of it is there between, and that the log tells of each sleep.
func TestHibernateRealServer(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	p := startPatient(t, dir, toldServer{Roots: []string{"file://" + dir}, Idle: "3s"}, "node", everythingJS)
	const cycles = 3
	for i := range cycles {
		p.asleep()
		if i == 0 {
			p.alone()
		}
		for _, c := range []struct {
			name      string
			arguments map[string]any
			want      string
		}{
			{"echo", map[string]any{"message": "hello"}, "hello"},
			{"trigger-sampling-request", map[string]any{"prompt": "p", "maxTokens": 5}, "sampled"},
			{"trigger-elicitation-request", map[string]any{}, "accept"},
			{"get-roots-list", map[string]any{}, dir},
		} {
			if text := p.call(c.name, c.arguments).Text; !strings.Contains(text, c.want) {
				t.Errorf("wake %d: %s: %q", i, c.name, text)
			}
		}
	}
	p.bye()
	if p.woken() < cycles || len(p.s.Events("server could not be woken")) > 0 {
		t.Errorf("%d wakes in %d cycles", p.woken(), cycles)
	}
}

// alone expects that no process but the client and the wrapper is there.
func (p *patientClient) alone() {
	p.t.Helper()
	for _, k := range findKin(p.dir, p.cmd.Process.Pid) {
		if k.Comm != "mcp-tether" {
			p.t.Errorf("beside the sleeping session there is %v", k)
		}
	}
}

// The official SDK 2.x without a handshake. Its client has a subscription open all the time, which outlives each sleep of the
// server, and tells the client to look at the list of tools again.
func TestHibernateRealModern(t *testing.T) {
	t.Parallel()
	dir := realDir(t)
	got := filepath.Join(dir, "got")
	p := startPatient(t, dir, toldServer{Client: "modern.mjs", Idle: "2s"}, "sh", "-c", `tee -a "$0" | node modern-server.mjs`, got)
	if v := p.order(map[string]any{"version": true}).Text; v != "2026-07-28" {
		t.Fatalf("they speak %s", v)
	}
	changed := 0
	const cycles = 3
	for range cycles {
		p.asleep()
		changed += len(p.call("pid", map[string]string{}).Updated)
	}
	p.bye()
	text, err := os.ReadFile(got)
	ok(t, err)
	if listens := strings.Count(string(text), `"subscriptions/listen"`); listens != p.woken()+1 || changed == 0 || p.woken() < cycles {
		t.Errorf("%d subscriptions, %d changes, %d wakes in %d cycles", listens, changed, p.woken(), cycles)
	}
}
