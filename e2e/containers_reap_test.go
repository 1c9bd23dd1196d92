package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcp-tether/internal/testkit"
)

// What both processes of a session have left in an engine is found by a sweep. Each test has a host and an engine of its
// own.

// boxedDead is a session with four containers, or with as many as got there in time, whose wrappers were both killed.
func boxedDead(t *testing.T, e *engine, mark string, after time.Duration) *session {
	t.Helper()
	s := startGateway(t).newSession()
	s.shareRuntime()
	s.spawn(setup{flags: patient(), env: boxEnviron(e, s)}, fourRuns(t, e, mark)...)
	if after == 0 {
		e.awaitRunning(t, mark, 4)
	} else {
		pause(after)
	}
	s.ids = []string{s.boxRecord()}
	killPair(t, s.pid)
	return s
}

// boxRecord waits for the record of a session among others'. Nothing but the record knows the server's pid.
func (s *session) boxRecord() string {
	s.t.Helper()
	found := ""
	testkit.Until(s.t, fmt.Sprintf("a record that names anchor %d", s.pid), func() bool {
		for _, id := range s.records() {
			if s.recordNow(id).Anchor.PID == s.pid {
				found = id
			}
		}
		return found != ""
	})
	return found
}

// sweeper calls reap as the engine's user does.
func (e *engine) sweeper() caller { return caller{env: e.environ()} }

func TestReapEndsContainersOfTheDead(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e, from := engineFor(t), newSeed(t)
	others := newOthers(t, e)
	for n := range rounds(25) {
		// In every other round the kill comes while the containers start.
		after := time.Duration(0)
		if n%2 == 1 {
			after = from.between(30*time.Millisecond, 300*time.Millisecond)
		}
		mark := e.mark(t)
		s := boxedDead(t, e, mark, after)
		up := len(e.marked(t, mark))
		r := e.sweeper().reap(t, 0, "--kill", "--kill-timeout=25s")
		if left := e.marked(t, mark); len(left) > 0 {
			t.Fatalf("round %d, after %v: containers left: %v\n%s", n, after, left, r.stdout)
		}
		if after == 0 && up != 4 {
			t.Errorf("round %d: %d containers, want 4", n, up)
		}
		s.waitDead()
		if got := s.records(); !slices.Equal(got, others.living.ids) {
			t.Errorf("round %d: records %v, want that of the living session only", n, got)
		}
		s.gw.kill()
	}
	others.untouched(t)
}

// The control: nothing but the sweep ends them.
func TestReapWithoutKillOnlyListsContainers(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := engineFor(t)
	mark := e.mark(t)
	s := boxedDead(t, e, mark, 0)
	for _, args := range [][]string{nil, {"--kill", "--no-containers"}} {
		r := e.sweeper().reap(t, 1, args...)
		if left := e.marked(t, mark); len(left) != 4 {
			t.Fatalf("%q: containers: %v, want four", args, left)
		}
		if args != nil {
			continue
		}
		if r.classes() != "record" || len(r.Findings[0].Containers) != 4 {
			t.Errorf("found %v, want a record with four containers", r.stdout)
		}
		for _, c := range r.Findings[0].Containers {
			if c.ID == "" || c.Kind != "container" || c.State != "running" || c.Engine != e.host || c.Result != "listed" {
				t.Errorf("found %+v", c)
			}
		}
	}
	e.sweeper().reap(t, 0, "--kill", "--kill-timeout=25s")
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v", left)
	}
	s.swept()
}

// The record is gone as well: the labels alone tell whose they were.
func TestReapByLabelAlone(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := engineFor(t)
	mark := e.mark(t)
	s := boxedDead(t, e, mark, 0)
	files, _ := filepath.Glob(filepath.Join(s.runtime, "mcp-tether", "*"))
	for _, f := range files {
		s.ok(os.Remove(f))
	}
	s.endAll()
	r := e.sweeper().reap(t, 0, "--kill", "--kill-timeout=25s")
	if left := e.marked(t, mark); len(left) > 0 {
		t.Errorf("containers left: %v\n%s", left, r.stdout)
	}
	if r.classes() != "container" && r.classes() != "cgroup container" {
		t.Errorf("found %q, want containers:\n%s", r.classes(), r.stdout)
	}
}

// The user's own servers are started from the same image. They are shown when nobody seems to use them, and never touched.
func TestReapShowsUnlabelledLookAlikes(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := engineFor(t)
	mark := e.mark(t)
	home := homeOf(t, 0)[0]
	configure(t, 0, home, "docker", "run", "-i", "--rm", "--network", "none", e.image(t), "boxed")
	c := e.sweeper()
	c.env = append(c.env, "HOME="+home)
	id := e.bystander(t, mark, "ignore-eof")
	outlast(t, e, id)
	for _, args := range [][]string{nil, {"--kill"}, {"--kill", "--unwrapped"}} {
		r := c.reap(t, 1, args...)
		if r.classes() != "suspect" || len(r.Findings[0].Containers) != 1 || r.Findings[0].Containers[0].ID != id {
			t.Errorf("%q found %s, want one suspect", args, r.stdout)
		}
	}
	if now, _ := e.state(t, id); !now.Running {
		t.Error("it was ended")
	}
}

// bystander starts a container without a session.
func (e *engine) bystander(t *testing.T, mark string, words ...string) string {
	t.Helper()
	args := append([]string{"run", "-d", "-i", "--network", "none", "--label", markLabel + "=" + mark, e.image(t), "boxed"}, words...)
	o := e.docker(t, args...)
	if o.code != 0 {
		t.Fatalf("start a container: %s", o.stderr)
	}
	return strings.TrimSpace(o.stdout)
}

// outlast returns when a container is too old to be taken for newborn: the engine's list has whole seconds.
func outlast(t *testing.T, e *engine, id string) {
	t.Helper()
	var about struct{ Created time.Time }
	e.do(t, http.MethodGet, "/v1.40/containers/"+id+"/json", nil, &about)
	pause(time.Until(about.Created.Add(2 * time.Second))) // the clock itself is what is waited for
}

// others are what a sweep must leave alone: a container without a session, and one of a session that lives.
type others struct {
	e      *engine
	mark   string
	before map[string]running
	living *session
}

func newOthers(t *testing.T, e *engine) *others {
	t.Helper()
	o := &others{e: e, mark: e.mark(t), before: map[string]running{}}
	e.bystander(t, o.mark, "ignore-eof", "seconds=600")
	o.living = startGateway(t).newSession()
	o.living.shareRuntime()
	in := order{e: e, dir: o.living.dir, image: e.image(t), mark: o.mark, words: []string{"ignore-eof", "seconds=600"}}
	o.living.spawn(setup{env: boxEnviron(e, o.living)}, launch("i").argv(t, in)...)
	o.living.waitBox()
	o.living.ids = []string{o.living.boxRecord()}
	e.awaitRunning(t, o.mark, 2)
	for _, c := range e.marked(t, o.mark) {
		o.before[c.ID], _ = e.state(t, c.ID)
	}
	return o
}

func (o *others) untouched(t *testing.T) {
	t.Helper()
	for id, before := range o.before {
		if now, _ := o.e.state(t, id); now != before || !now.Running {
			t.Errorf("a container of others was touched: %+v, and now %+v", before, now)
		}
	}
	if len(o.before) != 2 {
		t.Errorf("%d containers of others, want 2", len(o.before))
	}
	o.living.gw.kill()
	o.living.waitDead()
}

// A container with the label that keeps it goes on, however its session ends and whoever looks for what is left: nothing
// says that it is left. The one beside it ends.
func TestKeptContainerStays(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		for _, killed := range []bool{false, true} {
			mark := e.mark(t)
			s := startGateway(t).newSession()
			s.shareRuntime()
			argv := func(words ...string) []string {
				return order{e: e, image: e.image(t), mark: mark, with: words, words: []string{"ignore-eof"}}.dockerRun(t, "-d")
			}
			server := quote(argv("--label=mcp-tether.keep=1")) + "; " + quote(argv("--label=mcp-tether.keep=0")) + "; exec cat"
			s.spawn(setup{flags: patient(), env: boxEnviron(e, s)}, "/bin/sh", "-c", server)
			e.awaitRunning(t, mark, 2)
			s.ids = []string{s.boxRecord()}
			if killed {
				killPair(t, s.pid)
				e.sweeper().reap(t, 0, "--kill", "--kill-timeout=25s")
			} else {
				s.gw.kill()
			}
			s.swept()
			left := e.marked(t, mark)
			if len(left) != 1 || left[0].State != "running" || left[0].Labels["mcp-tether.keep"] != "1" {
				t.Errorf("%s, killed: %v: left: %v, want the kept one", e.kind, killed, left)
			}
			if r := e.sweeper().reap(t, 0); len(r.Findings) > 0 {
				t.Errorf("%s: reap finds %v", e.kind, r.Findings)
			}
		}
	}
}

// An image that was committed from a session's container has its labels, and so have the containers that the user makes
// of it. These belong to the user alone.
func TestCommittedCopiesAreSpared(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := engineFor(t)
	mark := e.mark(t)
	s := startGateway(t).newSession()
	s.shareRuntime()
	o := order{e: e, dir: s.dir, image: e.image(t), mark: mark, words: []string{"ignore-eof"}}
	s.spawn(setup{flags: patient(), env: boxEnviron(e, s)}, launch("i").argv(t, o)...)
	s.waitBox()
	s.ids = []string{s.boxRecord()}
	own := e.awaitRunning(t, mark, 1)[0]
	copied := mark + ":copy"
	if c := e.docker(t, "commit", own.ID, copied); c.code != 0 {
		t.Fatalf("commit: %s", c.stderr)
	}
	t.Cleanup(func() { e.docker(t, "rmi", "-f", copied) })
	early := runCopy(t, e, copied)
	killPair(t, s.pid)
	late := runCopy(t, e, copied)
	r := e.sweeper().reap(t, -1, "--kill", "--kill-timeout=25s")
	for _, id := range []string{early, late} {
		if now, there := e.state(t, id); !there || !now.Running {
			t.Errorf("a container of the copy was touched\n%s", r.stdout)
		}
	}
	if _, there := e.state(t, own.ID); there {
		t.Errorf("the session's container is left\n%s", r.stdout)
	}
	s.endAll()
}

// runCopy starts a container of an image that has labels of its own, and expects our label on it.
func runCopy(t *testing.T, e *engine, image string) string {
	t.Helper()
	o := e.docker(t, "run", "-d", "-i", "--network", "none", image)
	id := strings.TrimSpace(o.stdout)
	var about struct {
		Config struct{ Labels map[string]string }
	}
	e.do(t, http.MethodGet, "/v1.40/containers/"+id+"/json", nil, &about)
	if o.code != 0 || about.Config.Labels["mcp-tether.session"] == "" {
		t.Fatalf("the copy has no label of ours, so this proves nothing: %s%v", o.stderr, about)
	}
	return id
}

// Behind a shared engine there are sessions of other machines and pid namespaces, of which nothing can be known here.
func TestForeignContainersAreReportedOnly(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := engineFor(t)
	mark := e.mark(t)
	s := boxedDead(t, e, mark, 0)
	labels := sessionLabels(t, e, e.marked(t, mark)[0].ID)
	e.sweeper().reap(t, 0, "--kill", "--kill-timeout=25s")
	s.swept()
	var ids []string
	for _, change := range foreigners(labels) {
		ids = append(ids, e.forge(t, mark, change))
	}
	r := e.sweeper().reap(t, 1, "--kill", "--kill-timeout=25s")
	for i, id := range ids {
		if now, there := e.state(t, id); !there || !now.Running {
			t.Errorf("foreigner %d was touched\n%s", i, r.stdout)
		}
		f, ok := r.naming(id)
		if !ok || f.Class != "suspect" || !strings.Contains(strings.Join(f.Evidence, " "), "foreign") {
			t.Errorf("foreigner %d: %v, want a suspect that is called foreign\n%s", i, f, r.stdout)
		}
	}
}

// naming returns the finding that has the container.
func (r sweep) naming(id string) (finding, bool) {
	for _, f := range r.Findings {
		if slices.ContainsFunc(f.Containers, func(c foundContainer) bool { return c.ID == id }) {
			return f, true
		}
	}
	return finding{}, false
}

// sessionLabels are those that the proxy added.
func sessionLabels(t *testing.T, e *engine, id string) map[string]string {
	t.Helper()
	var about struct {
		Config struct{ Labels map[string]string }
	}
	e.do(t, http.MethodGet, "/v1.40/containers/"+id+"/json", nil, &about)
	out := map[string]string{}
	for k, v := range about.Config.Labels {
		if strings.HasPrefix(k, "mcp-tether.") {
			out[k] = v
		}
	}
	if len(out) < 5 {
		t.Fatalf("labels: %v", about.Config.Labels)
	}
	return out
}

// foreigners are the labels of a dead session, but for one thing: another pid namespace, and another machine.
func foreigners(dead map[string]string) []map[string]string {
	const supervisor, anchor, gateway = "mcp-tether.supervisor", "mcp-tether.anchor", "mcp-tether.gateway"
	elsewhere, machine := map[string]string{}, map[string]string{}
	for k, v := range dead {
		elsewhere[k], machine[k] = v, v
		if k == supervisor || k == anchor || k == gateway {
			parts := strings.Split(v, ":") // pid:start:boot:pidns
			elsewhere[k] = strings.Join(append(parts[:len(parts)-1:len(parts)-1], "4026531000"), ":")
			machine[k] = strings.Replace(v, parts[2], "00000000-1111-2222-3333-444444444444", 1)
		}
	}
	elsewhere["mcp-tether.session"] = strings.Repeat("a", len(dead["mcp-tether.session"]))
	machine["mcp-tether.session"] = strings.Repeat("b", len(dead["mcp-tether.session"]))
	machine["mcp-tether.machine"] = strings.Repeat("c", 32)
	return []map[string]string{elsewhere, machine}
}

// forge starts a container with labels that were never a session's here.
func (e *engine) forge(t *testing.T, mark string, labels map[string]string) string {
	t.Helper()
	args := []string{"run", "-d", "-i", "--network", "none", "--label", markLabel + "=" + mark}
	for k, v := range labels {
		if k == "mcp-tether.created" {
			v = time.Now().UTC().Format(time.RFC3339Nano)
		}
		args = append(args, "--label", k+"="+v)
	}
	o := e.docker(t, append(args, e.image(t), "boxed", "ignore-eof")...)
	if o.code != 0 {
		t.Fatalf("forge: %s", o.stderr)
	}
	return strings.TrimSpace(o.stdout)
}

// What was there before the session is not touched, whatever the session has done with it.
func TestContainersThatWereThereBefore(t *testing.T) {
	for _, e := range []*engine{engineFor(t), podmanFor(t)} {
		mark := e.mark(t)
		do := func(host, id, verb string) {
			clientOf(t, host).raw(lastMessage("POST", "/v1.40/containers/"+id+"/"+verb, ""))
		}
		s, host := proxied(t, setup{env: []string{"DOCKER_HOST=" + e.host}})
		was := map[string]running{}
		for _, x := range []struct{ by, first, then string }{
			{e.host, "stop?t=0", "start"}, {host, "stop?t=0", "start"}, {host, "pause", "unpause"}, {e.host, "kill", "restart"}, {host, "start", "restart?t=0"},
		} {
			id := e.bystander(t, mark, "ignore-eof")
			do(x.by, id, x.first)
			do(host, id, x.then)
			was[id], _ = e.state(t, id)
			if was[id].Status != "running" {
				t.Fatalf("%s: after %s it is %s, so this proves nothing", e.kind, x.then, was[id].Status)
			}
		}
		s.end()
		for id := range was {
			if now, _ := e.state(t, id); now != was[id] {
				t.Errorf("%s: it was %+v, and is %+v", e.kind, was[id], now)
			}
		}
	}
}
