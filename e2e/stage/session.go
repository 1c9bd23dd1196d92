package stage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Setup says how a session is started.
type Setup struct {
	Bare   bool     // without the wrapper: the negative control
	Flags  []string // of the wrapper, beside the log flags
	Stdio  string   // pipe (default) or socketpair
	Stderr string   // "pipe": held unread by the gateway; default: a file that is shown on failure
	Env    []string // K=V, beside the caller's own
	Keys   []string // further key=value words of the gateway's spawn, see e2e/fixture/gateway.go
}

// Session is one server below a gateway, with all that one may wait for. It has a runtime directory of its own.
type Session struct {
	T       T
	Gateway *Gateway
	Name    string
	Dir     string // shared with the fixture
	Runtime string // XDG_RUNTIME_DIR
	Log     string
	Stderr  string
	Life    *Lifeline
	Flock   string
	PID     int      // what the gateway spawned: the wrapper, or bare the server
	Server  int      // the server's own pid, known after WaitReady
	IDs     []string // of the sessions on disk, as far as they were seen
	shared  bool     // the runtime directory is that of others as well
	over    bool     // nobody is left, and nobody can come
}

// Tree starts a fixture tree as a further server of the gateway.
func (g *Gateway) Tree(with Setup, root string, children ...string) *Session {
	g.T.Helper()
	s := g.NewSession()
	s.Spawn(with, s.Node(root, children...)...)
	return s
}

// NewSession prepares a session for a command of the caller's choice, to be started by Spawn.
func (g *Gateway) NewSession() *Session {
	g.T.Helper()
	g.count++
	dir := filepath.Join(g.Dir, strconv.Itoa(g.count))
	s := &Session{
		T: g.T, Gateway: g, Name: strconv.Itoa(g.count), Dir: dir, Runtime: filepath.Join(dir, "run"),
		Log: filepath.Join(dir, "log"), Stderr: filepath.Join(dir, "stderr"), Flock: filepath.Join(dir, "flock"),
	}
	g.ok(os.Mkdir(dir, 0o777)) //nolint:gosec // members of a tree may be other users
	g.ok(os.Mkdir(s.Runtime, 0o700))
	g.ok(os.Chmod(dir, 0o777)) //nolint:gosec // whatever the umask
	if g.UID != 0 {
		g.ok(os.Chown(s.Runtime, g.UID, g.UID))
	}
	s.Life = NewLifeline(g.T, filepath.Join(dir, "lifeline"))
	g.T.Cleanup(s.cleanup)
	return s
}

// Share has the session use a runtime directory that others use as well. It is for a session that has not been spawned.
func (s *Session) Share(runtime string) { s.Runtime, s.shared = runtime, true }

// Twin prepares a further session in the places of this one, with its log, its record and its lifeline.
func (s *Session) Twin() *Session {
	s.Gateway.count++
	twin := *s
	twin.Name, twin.IDs = strconv.Itoa(s.Gateway.count), nil
	return &twin
}

// Node is the command line of a fixture tree: a root and its children, see e2e/fixture/main.go.
func (s *Session) Node(root string, children ...string) []string {
	return append([]string{s.Gateway.Programs.Fixture, "node", s.Dir, "-", "0", root}, children...)
}

// Spawn has the gateway start the command, tethered unless bare.
func (s *Session) Spawn(with Setup, argv ...string) {
	s.T.Helper()
	if !with.Bare {
		argv = s.Wrap(with.Flags, argv...)
	}
	stderr := s.Stderr
	if with.Stderr != "" {
		stderr = with.Stderr
	}
	req := []string{"spawn", s.Name, "stdio=" + with.Stdio, "stderr=" + stderr, "lifeline=" + s.Life.Path}
	for _, e := range append([]string{"XDG_RUNTIME_DIR=" + s.Runtime}, with.Env...) {
		req = append(req, "env="+e)
	}
	req = append(append(append(req, with.Keys...), "--"), argv...)
	s.PID = s.number(s.Gateway.Call(req...))
}

// Wrap is the tethered command line, with the log where it can be read.
func (s *Session) Wrap(flags []string, argv ...string) []string {
	head := []string{s.Gateway.Programs.Tether, "run", "--log-level=info", "--log-format=json", "--log-file=" + s.Log}
	return slices.Concat(head, flags, []string{"--"}, argv)
}

// WaitReady waits for the line that the fixture prints when its whole tree is up.
func (s *Session) WaitReady() {
	s.T.Helper()
	line := s.Read()
	var ready struct {
		Method string
		Params struct{ PID int }
	}
	if err := json.Unmarshal([]byte(line), &ready); err != nil || ready.Method != "ready" {
		s.T.Fatalf("instead of ready the server said %q (%v)", line, err)
	}
	s.Server = ready.Params.PID
	s.IDs = s.Records()
	if s.shared {
		s.IDs = slices.DeleteFunc(s.IDs, func(id string) bool { return s.Record(id).Server.PID != s.Server })
	}
}

// Record is what a session's record says, as far as others must know.
type Record struct {
	ID                         string
	Supervisor, Anchor, Server struct{ PID int }
	// Behind is the id of the front before it.
	Behind string
}

// Record reads a record. That of a session that has ended is empty.
func (s *Session) Record(id string) (r Record) {
	b, _ := os.ReadFile(filepath.Join(s.Runtime, "mcp-tether", id+".json"))
	_ = json.Unmarshal(b, &r)
	return r
}

// Behind is the record of the session behind a front, and of any other session its own.
func (s *Session) Behind() Record {
	s.T.Helper()
	for _, id := range s.Records() {
		if r := s.Record(id); r.Behind != "" && (len(s.IDs) == 0 || slices.Contains(s.IDs, r.Behind)) {
			return r
		}
	}
	return s.Record(s.ID())
}

// Supervisor is the pid in the session's record, or in that of the session behind a front.
func (s *Session) Supervisor() int {
	s.T.Helper()
	pid := s.Behind().Supervisor.PID
	if pid == 0 {
		s.T.Fatalf("no supervisor in the record")
	}
	return pid
}

// WaitRecord waits for the record: a quick server is up before it is written.
func (s *Session) WaitRecord() {
	s.T.Helper()
	Until(s.T, "a record", func() bool {
		if len(s.IDs) == 0 {
			s.IDs = s.Records()
		}
		return len(s.IDs) > 0
	})
}

// ID is the session's, once its record tells. It is the front's, if there is one.
func (s *Session) ID() string {
	s.T.Helper()
	s.WaitRecord()
	for _, id := range s.IDs {
		if r := s.Record(id); r.Behind != "" {
			return r.Behind
		} else if r.ID != "" {
			return id
		}
	}
	return s.IDs[0]
}

// Records are the ids of the sessions on disk.
func (s *Session) Records() []string {
	files, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "*.json"))
	var ids []string
	for _, f := range files {
		if st, err := os.Stat(f); err == nil && st.Size() > 0 { // Else nothing is written yet.
			ids = append(ids, strings.TrimSuffix(filepath.Base(f), ".json"))
		}
	}
	return ids
}

// What the gateway does with this server. Each waits for the gateway's answer.

// Write writes to the server's standard input.
func (s *Session) Write(text string) { s.T.Helper(); s.Gateway.Call("write", s.Name, text) }

// Read reads a line of the server's standard output.
func (s *Session) Read() string { s.T.Helper(); return s.Gateway.Call("read", s.Name) }

// Close closes the gateway's end of stdin, stdout or stderr.
func (s *Session) Close(stream string) { s.T.Helper(); s.Gateway.Call("close", s.Name, stream) }

// Shutdown ends the writing half of a socketpair.
func (s *Session) Shutdown() { s.T.Helper(); s.Gateway.Call("shutdown", s.Name) }

// ReadToEnd returns what is left on the server's stdout once every writer has closed it.
func (s *Session) ReadToEnd() string { s.T.Helper(); return s.Gateway.Call("eof", s.Name) }

// Ask sends a line and returns the answer.
func (s *Session) Ask(line string) string {
	s.T.Helper()
	s.Write(line + "\n")
	return s.Read()
}

// Signal sends a signal to what the gateway spawned.
func (s *Session) Signal(sig syscall.Signal) {
	s.T.Helper()
	s.Gateway.Call("signal", s.Name, strconv.Itoa(int(sig)))
}

// Wait returns how the gateway's child ended: "exit N" or "signal N".
func (s *Session) Wait() string {
	s.T.Helper()
	return s.Gateway.Call("wait", s.Name)
}

// Notes are what members of the tree left.
func (s *Session) Notes() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "notes"))
	return string(b)
}

func (s *Session) number(text string) int {
	s.T.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		s.T.Fatalf("%v", err)
	}
	return n
}
