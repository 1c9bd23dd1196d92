package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/display"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/waiting"
)

// Start is the starter: it prepares what the supervisor needs to execute the server, and returns once that has happened and is
// on record. words is where the server's command begins in the command line. The code is 0, or that of a session whose server
// cannot be started.
func Start(opts Options, page *waiting.Page, words int) (int, error) {
	s := newSession(opts, session.NewID(), aboveOf(page))
	s.page = page
	start, code, err := s.prepare()
	if err != nil {
		s.cause, s.code = session.CauseStart, code
		return s.finish(), err
	}
	start.Words = words
	if err = s.passOn(); err == nil {
		err = page.SetStart(start)
	}
	if err != nil {
		s.cause, s.code = session.CauseStart, ExitFailure
		return s.finish(), err
	}
	server, group := page.AwaitServer()
	s.record.Server, s.record.Group = s.identity(server), group
	s.writeRecord(session.StateRunning)
	_ = s.passOn() // It has fitted before.
	s.startSweep()
	page.KeepOnly(proc.Descriptors())
	return 0, nil
}

// handover is what the end of a session needs. It lies in the page, so that it depends on no file.
type handover struct {
	Options Options
	Record  session.Record
	// Foreign are the children that the anchor had before the session.
	Foreign []proc.ID
	// Sweeper is the process that ends dead sessions of the same user; zero without one.
	Sweeper proc.ID
}

// passOn puts what the end of the session needs into the page.
func (c *common) passOn() error {
	h := handover{c.opts, c.record, c.foreign, c.sweeper}
	h.Options.Command = h.Options.Command[:1] // The record has what may be told of it.
	b, err := json.Marshal(h)
	if err == nil && c.page.SetRecord(b) != nil {
		// A long command line is for people.
		h.Record.Args = nil
		if b, err = json.Marshal(h); err == nil {
			err = c.page.SetRecord(b)
		}
	}
	if err != nil {
		return fmt.Errorf("hand over what the end of the session needs: %w", err)
	}
	return nil
}

// prepare finds the program, and makes record and leaf. If it fails, the code is mcp-tether's exit code.
func (s *Session) prepare() (start waiting.Start, code int, err error) {
	start = waiting.Start{Leaf: -1, Kill: -1, Listener: -1, Gateway: -1}
	s.openLog()
	if err := proc.ReadsOwnTable(); errors.Is(err, proc.ErrOtherTable) {
		return start, ExitFailure, fmt.Errorf("%w: nothing was started; mount the namespace's own /proc (unshare --mount-proc)", err)
	}
	if err := s.above.noSubreaper; err != nil {
		s.log.Warn().Err(err).Msg("orphans of the server will not be found without a cgroup")
	}
	if err := s.findOwners(); err != nil {
		return start, ExitFailure, err
	}
	path, err := proc.LookPath(s.opts.Command[0], searchPath())
	if err != nil {
		return start, startCode(err), err
	}
	s.foreign = s.foreignChildren()
	s.record.ID = s.id
	if s.page != nil {
		if err := s.passOn(); err != nil {
			return start, ExitFailure, err
		}
	}
	// The lock first: a leaf without one would look like a dead session's.
	s.openRecord()
	s.awaitPredecessor()
	t := s.newTree()
	if err := t.contain(); err != nil {
		return start, startCode(err), err
	}
	t.openEngine()
	s.writeRecord(session.StateRunning)
	for _, id := range s.foreign {
		start.Foreign = append(start.Foreign, id.PID)
	}
	start.Path, start.Longest = path, s.opts.LongestEnd()+margin
	start.Drop, start.Add = t.variables()
	start.Gateway = s.above.gatewayFD
	start.MustMove = s.opts.Cgroup == CgroupRequire || s.opts.Require && len(s.opts.Limits) > 0
	if t.engine != nil {
		start.Listener = t.engine.Listener()
	}
	if leaf := t.members.Leaf; leaf != nil {
		start.Leaf, start.Kill = leaf.FD(), leaf.KillFD()
		start.Files = append(start.Files, leaf.Dir)
	}
	if s.lease != nil {
		start.Files = append(start.Files, s.lease.Files()...)
	}
	return start, 0, nil
}

// findOwners finds out who has started the session. The error says that the gateway is gone.
func (s *Session) findOwners() error {
	up, err := s.reader.Stat(s.above.parent)
	if err == nil {
		s.record.Parent, s.record.Gateway, s.record.GatewayComm = up.ID, up.ID, up.Comm
	}
	g, behind, err := s.reader.WatchGateway(s.above.parent)
	if errors.Is(err, proc.ErrGone) {
		return errors.New("gateway ended while its session started: nothing was started")
	}
	if behind {
		s.record.Gateway, s.record.GatewayComm = g.ID, g.Comm
		s.above.gatewayFD = g.FD
	}
	return nil
}

// margin is what a teardown may take beyond its grace periods on a busy machine.
const margin = 5 * time.Second

// openLog opens the log, or else logs to standard error from then on.
func (c *common) openLog() {
	var err error
	if c.log, err = display.Open(c.opts.Log, c.id, c.opts.Name); err == nil {
		return
	}
	c.opts.Log.File = ""
	c.log, _ = display.Open(c.opts.Log, c.id, c.opts.Name) // Standard error cannot fail.
	c.log.Warn().Err(err).Msg("log goes to standard error")
}

// Alone supervises a session in one process, for a binary that was built without an entry before the runtime. It must be called
// on the locked main thread.
func Alone(opts Options) (int, error) {
	above, err := direct()
	if err != nil {
		return ExitFailure, err
	}
	s := newSession(opts, session.NewID(), above)
	if err := s.listen(); err != nil {
		return ExitFailure, err
	}
	s.above.noSubreaper = proc.BecomeSubreaper()
	start, code, err := s.prepare()
	if err == nil {
		if s.tree.engine != nil {
			s.tree.adoptEngine(start.Listener)
		}
		if err = s.execute(start); err != nil {
			code = startCode(err)
		}
	}
	if err != nil {
		s.cause, s.code = session.CauseStart, code
		return s.finish(), err
	}
	s.log.Warn().Msg("this binary was not built with make build: if it is killed by SIGKILL, what its server started lives on")
	s.writeRecord(session.StateRunning)
	s.startSweep()
	proc.CloseInherited()
	s.watchOwners()
	s.watchStreams()
	s.loop()
	return s.finish(), nil
}

// execute starts the server from a process with a runtime.
func (s *Session) execute(start waiting.Start) error {
	t := s.tree
	server := proc.Child{
		Path: start.Path, Argv: s.opts.Command, Env: edited(os.Environ(), start.Drop, start.Add), NewGroup: !s.above.terminal,
		Cgroup: start.Leaf, DiesWithThread: true,
	}
	pid, err := proc.Start(server)
	if err != nil && start.Leaf >= 0 && !start.MustMove {
		s.degrade(err)
		server.Cgroup = -1
		pid, err = proc.Start(server)
	}
	if err != nil {
		return failedStart(start.Path, err)
	}
	t.server, t.started, t.record.Server = pid, pid, s.identity(pid)
	if !s.above.terminal {
		t.members.Groups[0] = pid
	}
	return nil
}

// edited is an environment without the variables that begin with one of drop, and with add.
func edited(env, drop, add []string) []string {
	out := make([]string, 0, len(env)+len(add))
	for _, e := range env {
		dropped := false
		for _, prefix := range drop {
			dropped = dropped || strings.HasPrefix(e, prefix)
		}
		if !dropped {
			out = append(out, e)
		}
	}
	return append(out, add...)
}

// failedStart says why the server could not be executed.
func failedStart(path string, err error) error {
	if errors.Is(err, unix.ENOENT) {
		err = fmt.Errorf("%w: %s", err, missingFor(path))
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// missingFor says what the kernel does not find when it executes a file that is there: of a script the program after "#!", else
// the loader that the program names.
func missingFor(path string) string {
	line := make([]byte, 256) // of more the kernel reads nothing
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	n, _ := f.Read(line)
	rest, script := bytes.CutPrefix(line[:n], []byte("#!"))
	first, _, _ := bytes.Cut(rest, []byte("\n"))
	words := bytes.Fields(first)
	switch {
	case !script || len(words) == 0:
		return "the file is there, but its interpreter or loader is missing"
	case len(words) == 1 && bytes.HasSuffix(first, []byte("\r")):
		return fmt.Sprintf("its first line ends with a carriage return, so that the interpreter %s is not found", words[0])
	}
	return fmt.Sprintf("the interpreter %s of its first line is missing", words[0])
}

func searchPath() string {
	if p, ok := os.LookupEnv("PATH"); ok {
		return p
	}
	return "/bin:/usr/bin"
}

func startCode(err error) int {
	switch {
	case errors.Is(err, errRequired), errors.Is(err, errRequiredLimits):
		return ExitFailure
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return ExitNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM):
		return ExitNotExecutable
	}
	return ExitFailure
}

// variables are those that the server does not get, by how they begin, and those that it gets beside its own: the mark, and
// where the container engine is. MCP_TETHER_KEEP=1 in our own environment was meant for us, not for everything below.
func (t *tree) variables() (drop, add []string) {
	for _, name := range []string{session.EnvID, session.EnvGateway, session.EnvKept, session.EnvShared, session.EnvBehind} {
		drop = append(drop, name+"=")
	}
	drop = append(drop, teardown.KeepMark)
	if e := t.engine; e != nil {
		without, with := e.Variables(os.Environ())
		drop, add = append(drop, without...), with
	}
	host, err := t.reader.ReadHost()
	if err == nil || t.record.Host.Boot == "" {
		t.record.Host = host // A boot without a pid namespace proves more than neither.
	}
	if err != nil {
		t.log.Warn().Err(err).Msg("ps may not show this session, and reap may not end what is left of it")
	}
	add = append(add, session.EnvID+"="+t.id, session.EnvGateway+"="+proc.GlobalID{ID: t.record.Gateway, Host: t.record.Host}.String())
	if len(t.opts.Keep) > 0 {
		// The last one: a process that writes its title over its environment loses the mark before this.
		add = append(add, session.EnvKept+"=1")
	}
	return drop, add
}
