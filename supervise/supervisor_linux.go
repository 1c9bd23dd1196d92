package supervise

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/proc"
	"mcp-tether/session"
	"mcp-tether/teardown"
)

// supervisor is one session as its owner sees it.
type supervisor struct {
	opts    Options
	hand    Handover
	log     zerolog.Logger
	sink    *sink
	watch   watch
	machine teardown.Machine
	scope   teardown.Scope
	lease   *session.Lease
	engine  *engine      // nil where containers are not looked after
	hib     *hibernation // nil without --hibernate
	// containersLeft says that a server that sleeps left some.
	containersLeft bool
	record         session.Record
	reader         proc.Reader

	inherited proc.AtExec
	sigfd     int
	arrived   []proc.Caught

	// server is the child's pid until it is reaped, then 0; code is what the session exits with.
	server, code int
	// clear says that the last look found nothing left, not even something to keep.
	clear bool
	// cause is why the session ends, from the first event that ended it; bySignal belongs to cause "signal".
	cause    string
	bySignal syscall.Signal
	// interrupted is when the terminal's last interrupt came.
	interrupted time.Time
	// retryAt is when to look again during a teardown; zero when only events count.
	retryAt time.Time
	retry   time.Duration
	// nextParentCheck is when to ask for the parents; zero where pidfds watch them.
	nextParentCheck time.Time
	// reported says that a degraded containment was.
	reported bool
	// sweepAt is when to look for dead sessions of the same user; zero when that is done.
	sweepAt time.Time
	started time.Time
}

// Run supervises one session to its end and returns the exit code. It must be called on the locked main thread.
func Run(opts Options, hand Handover) (int, error) {
	s, err := newSupervisor(opts, hand)
	if err != nil {
		return ExitFailure, err
	}
	defer s.sink.flush()
	if hand.Anchor > 0 && os.Getppid() != hand.Anchor {
		return ExitFailure, fmt.Errorf("anchor (pid %d) ended while its session started: nothing was started", hand.Anchor)
	}
	s.watchOwners()
	if s.machine.State != teardown.Running {
		return ExitFailure, errors.New("gateway ended while its session started: nothing was started")
	}
	if code, err := s.start(); err != nil {
		s.cause, s.code, s.clear = causeStart, code, true
		return s.finish(), err
	}
	rest()
	if s.opts.HasDead != nil {
		s.sweepAt = time.Now().Add(sweepDelay)
	}
	s.loop()
	return s.finish(), nil
}

// newSupervisor takes up the roles that must be in place before the server is started.
func newSupervisor(opts Options, hand Handover) (*supervisor, error) {
	if hand.ParentFD >= 0 {
		unix.CloseOnExec(hand.ParentFD)
	}
	proc.SetComm("mcp-tether")
	s := &supervisor{opts: opts, hand: hand, started: time.Now(), code: ExitFailure, inherited: proc.ReadAtExec()}
	s.machine.Grace = teardown.Grace{EOF: opts.EOFGrace, Term: opts.TermGrace, Kill: opts.KillTimeout}
	s.scope.Root, s.scope.Keep = os.Getpid(), opts.Keep
	if hand.Anchor == 0 {
		s.scope.Foreign, s.scope.Mark = hand.Foreign, session.EnvID+"="+hand.ID
	}
	log, out, err := openLog(opts.Log)
	if err != nil {
		return nil, err
	}
	s.sink = out
	s.log = log.With().Str("session", hand.ID).Logger()
	if opts.Name != "" {
		s.log = s.log.With().Str("name", opts.Name).Logger()
	}

	if s.sigfd = hand.Signals; s.sigfd == 0 {
		if s.sigfd, err = listen(s.inherited, hand.Terminal); err != nil {
			return nil, err
		}
	}
	s.watch.add(signals, s.sigfd, unix.POLLIN)
	return s, proc.BecomeSubreaper()
}

// watchOwners watches the anchor, the process that spawned us, and the gateway if that is another one.
func (s *supervisor) watchOwners() {
	if s.hand.Anchor > 0 {
		s.watchProcess(anchor, s.hand.Anchor)
	}
	if s.hand.ParentFD >= 0 {
		s.watch.add(parent, s.hand.ParentFD, unix.POLLIN)
	} else if s.hand.Parent > 0 {
		s.nextParentCheck = time.Now()
	}
	s.record.Parent.PID = s.hand.Parent
	if st, err := s.reader.Stat(s.hand.Parent); err == nil {
		s.record.Parent = st.ID
	}
	g := proc.Gateway(s.hand.Parent, s.reader.Stat)
	if g.PID == 0 {
		s.record.Gateway = s.record.Parent
		return
	}
	s.record.Gateway = g.ID
	if g.PID != s.hand.Parent {
		s.watchProcess(gateway, g.PID)
	}
}

func (s *supervisor) watchProcess(as source, pid int) {
	fd, err := proc.OpenPidfd(pid)
	switch {
	case err == nil:
		s.watch.add(as, fd, unix.POLLIN)
	case errors.Is(err, proc.ErrGone):
		s.end(causeOf(as))
	default:
		s.nextParentCheck = time.Now()
	}
}

// start prepares the containment and starts the server. The code says how mcp-tether exits when it fails.
func (s *supervisor) start() (int, error) {
	path, err := proc.LookPath(s.opts.Command[0], searchPath())
	if err != nil {
		return startCode(err), err
	}
	// The lease first: a leaf without one would look like a dead session's.
	s.openRecord()
	if err := s.awaitPredecessor(); err != nil {
		return ExitFailure, err
	}
	if err := s.contain(); err != nil {
		return ExitFailure, err
	}
	s.openEngine()
	s.openRelay()
	return s.launch(path)
}

// launch starts the server.
func (s *supervisor) launch(path string) (int, error) {
	child := proc.Child{
		Path:           path,
		Argv:           s.opts.Command,
		Env:            s.environ(os.Environ()),
		NewGroup:       !s.hand.Terminal,
		DiesWithThread: true,
		CgroupFD:       s.scope.Leaf.FD(),
		CgroupProcs:    -1,
		Inherited:      s.inherited,
	}
	if s.hib != nil {
		done, err := s.hib.connect(&child)
		if err != nil {
			return ExitFailure, fmt.Errorf("make the server's pipes: %w", err)
		}
		defer done()
	}
	pid, err := s.spawn(child)
	if err != nil {
		return startCode(err), fmt.Errorf("start %s: %w", path, err)
	}
	s.server, s.scope.Server = pid, pid
	if s.hib == nil || s.record.Sleeps == 0 {
		s.watch.addStreams()
	}
	s.writeRecord(session.StateRunning)
	return 0, nil
}

// contain makes the cgroup leaf.
func (s *supervisor) contain() error {
	if s.opts.Cgroup == CgroupOff {
		return nil
	}
	dir, err := cgroup.Current()
	if err == nil {
		s.scope.Leaf, err = cgroup.Create(dir, leafName(s.hand.ID))
	}
	if err == nil {
		s.record.Cgroup = s.scope.Leaf.Dir
		return nil
	}
	if s.opts.Cgroup == CgroupRequire {
		return fmt.Errorf("%w: %w", errRequired, err)
	}
	s.degraded(err)
	return nil
}

// errRequired says that the cgroup that the user requires cannot be had.
var errRequired = errors.New("--cgroup=require")

// degraded reports once that the containment is weaker than it could be.
func (s *supervisor) degraded(why error) {
	if s.reported {
		return
	}
	s.reported = true
	s.log.Debug().Str("why", why.Error()).Msg("containment degraded")
}

// leafName is the name of a session's cgroup.
func leafName(id string) string { return cgroup.Prefix + id }

// spawn starts the server in its leaf: born there by clone3, or, where that is refused (kernels before 5.7, seccomp
// filters of container engines) or would be fatal (cgroup.Leaf.FD), moved there by itself before it executes anything.
func (s *supervisor) spawn(c proc.Child) (int, error) {
	if c.CgroupFD >= 0 || s.scope.Leaf == nil {
		pid, err := proc.Start(c)
		if err == nil || s.scope.Leaf == nil {
			return pid, err
		}
	}
	c.CgroupFD = -1
	var pid int
	procs, err := s.scope.Leaf.OpenProcs()
	if err == nil {
		c.CgroupProcs = procs
		pid, err = proc.Start(c)
		_ = unix.Close(procs)
	}
	if err == nil {
		return pid, nil
	}
	// Refused as well, or the command itself cannot be executed: the last try tells.
	s.dropLeaf()
	if s.opts.Cgroup == CgroupRequire {
		return 0, fmt.Errorf("%w: %w", errRequired, err)
	}
	c.CgroupProcs = -1
	pid, lastErr := proc.Start(c)
	if lastErr == nil {
		s.degraded(err)
	}
	return pid, lastErr
}

func (s *supervisor) dropLeaf() {
	_ = s.scope.Leaf.Remove()
	s.scope.Leaf.Close()
	s.scope.Leaf, s.record.Cgroup = nil, ""
}

// environ is the server's environment: ours, and the two marks. A mark to be kept that we inherited was meant for us and
// not for everything below.
func (s *supervisor) environ(own []string) []string {
	if s.hand.Anchor > 0 {
		own = original(own, s.hand.Restore)
	}
	out := make([]string, 0, len(own)+2)
	for _, e := range own {
		name, _, _ := strings.Cut(e, "=")
		if name == session.EnvID || name == session.EnvGateway || e == teardown.KeepMark {
			continue
		}
		out = append(out, e)
	}
	if s.engine != nil {
		out = s.engine.endpoint.Environ(out, s.engine.socket)
	}
	host, err := s.reader.ReadHost()
	if err != nil {
		s.degraded(err)
	}
	s.record.Host = host
	return append(out, session.EnvID+"="+s.hand.ID, session.EnvGateway+"="+proc.GlobalID{ID: s.record.Gateway, Host: host}.String())
}

func searchPath() string {
	if p, ok := os.LookupEnv("PATH"); ok {
		return p
	}
	return "/bin:/usr/bin"
}

func startCode(err error) int {
	switch {
	case errors.Is(err, errRequired):
		return ExitFailure
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return ExitNotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM):
		return ExitNotExecutable
	}
	return ExitFailure
}
