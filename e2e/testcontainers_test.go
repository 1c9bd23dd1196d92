package e2e

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

// Testcontainers starts a container of its own, Ryuk, that mounts the engine's socket and removes what is left by programs
// that die. Its client derives from DOCKER_HOST where published ports are, and which socket Ryuk gets.

// ryukImage is what version 11.14 of the client for Node asks for. Its label is how other programs find a Ryuk to share.
const ryukImage, ryukLabel = "testcontainers/ryuk:0.14.0", "org.testcontainers.ryuk"

// testRyuk names Ryuk's own program, built for Linux and without cgo, to be used in place of the stand-in in ./ryuk.
const testRyuk = "MCP_TETHER_TEST_RYUK"

// A reached is an engine with a network, where sessions and test programs share its network namespace.
type reached struct {
	*engine
	image string
}

// bridgedFor returns an engine that one test at a time uses. What that leaves there is a fault.
func bridgedFor(t *testing.T) *reached {
	t.Helper()
	needDockerClient(t)
	_, err := os.Stat("npm/node_modules/testcontainers")
	testkit.Need(t, err == nil, "npm packages (npm ci in e2e/npm)")
	e := &reached{engine: oneEngine(t, &engines.bridged, "docker", "docker-bridge", "")}
	e.image = e.engine.image(t)
	if e.do(t, http.MethodGet, "/images/"+ryukImage+"/json", nil, nil) != http.StatusOK {
		e.importRyuk(t)
	}
	t.Cleanup(func() {
		for _, left := range e.everything(t) {
			t.Errorf("left in the engine: %s", left)
		}
		e.remove(t, e.marked(t, "")...)
	})
	return e
}

func (e *reached) importRyuk(t *testing.T) {
	t.Helper()
	program := os.Getenv(testRyuk)
	if program == "" {
		program = filepath.Join(t.TempDir(), "ryuk")
		ok(t, goBuild(program, "-ldflags", "-s -w", "./ryuk"))
	}
	text := readFile(t, program)
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	head := &tar.Header{Name: "ryuk", Mode: 0o755, Size: int64(len(text))}
	ok(t, errors.Join(w.WriteHeader(head), write(w, text), w.Close()))
	cmd := e.command("import", "-c", `ENTRYPOINT ["/ryuk"]`, "-c", "LABEL "+ryukLabel+"=true", "-", ryukImage)
	cmd.Stdin = &layer
	if o := finish(t, cmd); o.code != 0 {
		t.Fatalf("import the image: %s", o.stderr)
	}
}

// everything lists the containers and networks, but for the engine's own.
func (e *reached) everything(t *testing.T) (all []string) {
	t.Helper()
	for _, b := range e.marked(t, "") {
		all = append(all, "container "+b.String())
	}
	var networks []struct{ Name string }
	e.do(t, http.MethodGet, "/v1.40/networks", nil, &networks)
	for _, n := range networks {
		if !slices.Contains([]string{"bridge", "host", "none"}, n.Name) {
			all = append(all, "network "+n.Name)
		}
	}
	return all
}

// inside is the path of the engine's network namespace.
func (e *reached) inside(t *testing.T) string {
	t.Helper()
	pid, _, _ := strings.Cut(string(readFile(t, filepath.Join(e.dir, "pid"))), " ")
	return "/proc/" + pid + "/ns/net"
}

// listens calls a function that listens, where the engine's containers have their ports.
func (e *reached) listens(t *testing.T, over func(*testing.T, *engine, string) []string) []string {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	ok(t, err)
	defer home.Close()
	there, err := os.Open(e.inside(t))
	ok(t, err)
	defer there.Close()
	ok(t, unix.Setns(int(there.Fd()), unix.CLONE_NEWNET))
	defer func() { ok(t, unix.Setns(int(home.Fd()), unix.CLONE_NEWNET)) }()
	return over(t, e.engine, "")
}

// tested is what a program that uses Testcontainers has found.
type tested struct {
	ID, Host, Text, Socket string
	Ryuk                   []string
}

// program starts a server that uses Testcontainers, tethered or bare, and waits until its container is up.
func (e *reached) program(t *testing.T, with setup, mark string, words ...string) (*session, tested) {
	t.Helper()
	s := startGateway(t).newSession()
	with.env = append(append(boxEnviron(e.engine, s), "TMPDIR="+s.dir), with.env...)
	argv := append([]string{lookPath(t, "node"), absolute(t, "npm/testcontainers.mjs"), e.image, markLabel + "=" + mark}, words...)
	if !with.bare {
		argv = s.wrap(patient(with.flags...), argv...)
	}
	with.bare = true
	s.spawn(with, append([]string{lookPath(t, "nsenter"), "--net=" + e.inside(t), "--"}, argv...)...)
	var got tested
	if line := s.read(); json.Unmarshal([]byte(line), &got) != nil || got.Text != "here I am" {
		t.Fatalf("the program says %q: %s", line, readFile(t, s.stderr))
	}
	s.ids = s.records()
	return s, got
}

// mountOf tells what a container has as its engine's socket.
func (e *reached) mountOf(t *testing.T, id string) string {
	t.Helper()
	var out struct {
		Mounts []struct{ Source, Destination string }
	}
	e.do(t, http.MethodGet, "/v1.40/containers/"+id+"/json", nil, &out)
	for _, m := range out.Mounts {
		if m.Destination == "/var/run/docker.sock" {
			return m.Source
		}
	}
	return ""
}

// bystander is a container of another program's Testcontainers, with another Ryuk or none.
func (e *reached) bystander(t *testing.T) (id string) {
	t.Helper()
	o := e.docker(t, "run", "-d", "--network=none", "--label=org.testcontainers=true", "--label=org.testcontainers.session-id=theirs", e.image, "greets", "7000")
	if o.code != 0 {
		t.Fatal(o.stderr)
	}
	return strings.TrimSpace(o.stdout)
}

func TestTestcontainers(t *testing.T) {
	e := bridgedFor(t)
	t.Parallel()
	t.Run("ends", e.endTestcontainers)
	t.Run("bare", e.leaveTestcontainers)
	t.Run("shares", e.shareRyuk)
	t.Run("reuses", e.reuseContainer)
}

// The ways in which a session of Testcontainers ends, with the engine here and elsewhere. All is as without us, until then.
func (e *reached) endTestcontainers(t *testing.T) {
	theirs := e.bystander(t)
	before, _ := e.state(t, theirs)
	ends := append([]boxEnding{{"stdin", func(s *session) { s.closeStdin() }}}, boxEndings...)
	for i, end := range ends {
		over, where := func(*testing.T, *engine, string) []string { return nil }, "socket"
		switch i % 3 {
		case 1:
			over, where = overTCP, "tcp"
		case 2:
			over, where = overTLS, "tls"
		}
		t.Run(where+"/"+end.name, func(t *testing.T) {
			mark := e.mark(t)
			s, got := e.program(t, setup{env: e.listens(t, over)}, mark)
			host, socket := "127.0.0.1", "/var/run/docker.sock"
			if where == "socket" {
				host, socket = "localhost", filepath.Join(s.runtime, "mcp-tether", s.id()+".sock")
			}
			if got.Host != host || got.Socket != socket || len(got.Ryuk) != 1 {
				t.Fatalf("found %+v, want host %s, socket %s and one Ryuk", got, host, socket)
			}
			// It has started, so it has reached its engine; only then does the client go on.
			if at := e.mountOf(t, got.Ryuk[0]); filepath.Base(at) != filepath.Base(socket) {
				t.Errorf("Ryuk has %s, want %s", at, socket)
			}
			end.end(s)
			s.gone()
			if left := e.everything(t); len(left) != 1 {
				t.Errorf("left: %v, want another's container only", left)
			}
		})
	}
	if now, _ := e.state(t, theirs); now != before {
		t.Errorf("another's container was %+v, and is %+v", before, now)
	}
	e.docker(t, "rm", "-f", theirs)
}

// The control: without us, and without Ryuk, the container and its network stay. What the program found is the same.
func (e *reached) leaveTestcontainers(t *testing.T) {
	for where, over := range map[string]func(*testing.T, *engine, string) []string{"tcp": overTCP, "tls": overTLS} {
		mark := e.mark(t)
		s, got := e.program(t, setup{bare: true, env: append(e.listens(t, over), "TESTCONTAINERS_RYUK_DISABLED=true")}, mark)
		if got.Host != "127.0.0.1" || got.Socket != "/var/run/docker.sock" {
			t.Errorf("%s: bare, it found %+v", where, got)
		}
		s.gw.kill()
		s.endAll()
		left := e.everything(t)
		if len(left) != 2 {
			t.Errorf("%s: left: %v, want a container and a network, or the tethered ones prove nothing", where, left)
		}
		e.remove(t, e.marked(t, mark)...)
		e.docker(t, "network", "prune", "--force")
	}
}

// The client for Node uses a Ryuk that it finds, whoever has started it. One that is not the session's stays, with what
// else it looks after. Of two sessions that share one, each keeps its own container until it ends.
func (e *reached) shareRyuk(t *testing.T) {
	for _, bare := range []bool{true, false} {
		t.Run(fmt.Sprintf("bare %v", bare), func(t *testing.T) {
			first, theirs := e.program(t, setup{bare: bare}, e.mark(t))
			second, ours := e.program(t, setup{}, e.mark(t))
			if !slices.Equal(theirs.Ryuk, ours.Ryuk) {
				t.Fatalf("Ryuks: %v and %v, so this proves nothing", theirs.Ryuk, ours.Ryuk)
			}
			ends, stays, staying := second, theirs, first
			if !bare {
				ends, stays, staying = first, ours, second
			}
			ends.closeStdin()
			ends.gone()
			if now, there := e.state(t, stays.ID); !there || !now.Running {
				t.Errorf("the other program's container: %+v", now)
			}
			if now, there := e.state(t, theirs.Ryuk[0]); there != bare || now.Running != bare {
				t.Errorf("Ryuk: %+v", now)
			}
			if bare {
				staying.gw.kill()
				staying.endAll()
				e.remove(t, e.marked(t, "")...)
				e.docker(t, "network", "prune", "--force")
				return
			}
			staying.closeStdin()
			staying.gone()
			if left := e.everything(t); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A container that is there to be reused, and is another's, stays as the session has left it: running.
func (e *reached) reuseContainer(t *testing.T) {
	mark := e.mark(t)
	reuse := setup{bare: true, env: []string{"TESTCONTAINERS_REUSE_ENABLE=true"}}
	first, theirs := e.program(t, reuse, mark, "reuse")
	first.gw.kill()
	first.endAll()
	reuse.bare = false
	for _, runs := range []bool{true, false} {
		if !runs {
			e.docker(t, "kill", theirs.ID)
		}
		before, _ := e.state(t, theirs.ID)
		s, ours := e.program(t, reuse, mark, "reuse")
		if ours.ID != theirs.ID {
			t.Fatalf("container %s, want %s, or this proves nothing", ours.ID, theirs.ID)
		}
		s.closeStdin()
		s.gone()
		now, there := e.state(t, theirs.ID)
		if !there || !now.Running || runs && now != before {
			t.Errorf("ran before: %v: it was %+v, and is %+v", runs, before, now)
		}
	}
	e.remove(t, e.marked(t, mark)...)
}

// When both processes are killed Ryuk has lost its socket, and a sweep ends it with all others.
func TestReapEndsTestcontainers(t *testing.T) {
	testkit.Long(t)
	if !onOwnHost(t) {
		return
	}
	e := bridgedFor(t)
	s, got := e.program(t, setup{}, e.mark(t))
	killPair(t, s.pid)
	if left := e.everything(t); len(left) != 3 {
		t.Fatalf("left: %v, want a container, its Ryuk %v and a network", left, got.Ryuk)
	}
	sweep := caller{env: append(e.environ(), "XDG_RUNTIME_DIR="+s.runtime)}
	r := sweep.reap(t, 0, "--kill", "--kill-timeout=25s")
	if left := e.everything(t); len(left) > 0 {
		t.Errorf("left: %v\n%s", left, r.stdout)
	}
	s.waitDead()
	s.gw.kill()
}
