package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/cgroup"
	"mcp-tether/internal/engine/keeper"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/session"
	"mcp-tether/internal/teardown"
	"mcp-tether/internal/waiting"
)

// End ends the session of a page, and returns the exit code. The supervisor calls it when something has happened, and a child of
// the anchor when the supervisor has not ended the session. For a client of the container engine the supervisor goes on first. No step
// may be fatal: it works without the log file, the record or the engine. Call it on the locked main thread.
func End(page *waiting.Page, role waiting.Role, ev waiting.Event) (int, error) {
	if role == waiting.Recovery {
		page.AwaitStarter(time.Second)
	}
	s, known := restored(page)
	s.openLog()
	s.recovers = role == waiting.Recovery
	t := s.newTree()
	s.code = ExitFailure
	if s.recovers {
		if pid, _, _ := page.Server(); pid > 0 {
			s.code = 128 + int(unix.SIGKILL) // until its end is known
		}
		s.above.supervisor = os.Getpid()
		s.above.parentFD, s.above.gatewayFD, s.above.anchorFD = -1, -1, -1
		// All orphans have fallen to the anchor, which waits for them. We are below it ourselves, and so is the dead supervisor while a
		// tracer holds it.
		t.members.Root = s.above.anchor
		t.members.Foreign = append(t.members.Foreign, s.record.Supervisor, s.identity(os.Getpid()))
	}
	if err := s.listen(); err != nil {
		s.log.Error().Err(err).Msg("signals are not seen")
	}
	page.Listening()
	if known {
		s.reopen(role)
	}
	err := s.begin(role, ev)
	s.loop()
	s.reclaim(role)
	if _, status, ended := page.Server(); ended && s.recovers {
		s.code = proc.ExitCode(status)
	}
	code := s.finish()
	page.Finish(code)
	return code, err
}

// restored makes the session from what the starter has put into the page. known is false if it was killed before.
func restored(page *waiting.Page) (s *Session, known bool) {
	h := handover{Options: Defaults()}
	err := json.Unmarshal(page.Record(), &h)
	s = newSession(h.Options, h.Record.ID, aboveOf(page))
	s.page, s.record, s.foreign, s.sweeper = page, h.Record, h.Foreign, h.Sweeper
	s.started = h.Record.Started
	return s, err == nil && session.ValidID(s.id)
}

// reopen takes the record, the leaf and the engine of the session.
func (s *Session) reopen(role waiting.Role) {
	t := s.tree
	dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		s.log.Debug().Err(err).Msg("no directory of records")
	}
	fd := s.page.FD
	pid, _, _ := s.page.Server()
	// A starter that was killed has told no descriptor: what it has on disk is ours all the same, and we hold its lock.
	if role == waiting.Supervisor && (fd.Lock >= 0 || pid == 0) && dir != nil {
		s.lease = dir.Adopt(s.id, fd.Lock)
	} else if dir != nil {
		s.takeRecord(dir)
	}
	t.findLeaf(role)
	if s.opts.Containers == ContainersOff || s.record.Socket == "" {
		return
	}
	if role == waiting.Supervisor {
		t.adoptEngine(fd.Listener)
	} else {
		t.engine = keeper.Recover(s.keeping(), &s.record)
	}
}

// takeRecord takes over the record, so that it goes with the session. Another process may hold its lock for a moment, to look
// whether the session lives.
func (s *Session) takeRecord(dir *session.Directory) {
	lease, err := dir.Take(s.id)
	if s.lease = lease; err != nil {
		s.log.Warn().Err(err).Msg("session record not taken over")
	}
}

// reclaim tries once more to take the record of a killed supervisor: a child of it may have held the lock.
func (s *Session) reclaim(role waiting.Role) {
	if role == waiting.Recovery && s.lease == nil && session.ValidID(s.id) {
		if dir, err := session.Open(os.Getuid(), os.Getenv("XDG_RUNTIME_DIR")); err == nil {
			s.takeRecord(dir)
		}
	}
}

// findLeaf takes the leaf that the supervisor has open, or opens the one that the record names, or the one of this session below our
// own cgroup.
func (t *tree) findLeaf(role waiting.Role) {
	dir := t.record.Cgroup
	if fd := t.page.FD; role == waiting.Supervisor && fd.Leaf >= 0 {
		t.members.Leaf = cgroup.Adopt(dir, fd.Leaf, fd.Kill)
		return
	}
	if path.Base(dir) != leafName(t.id) {
		own, err := cgroup.Current()
		if err != nil {
			return
		}
		dir = own + "/" + leafName(t.id)
	}
	if leaf, err := cgroup.Open(dir); err == nil {
		t.members.Leaf, t.record.Cgroup = leaf, dir
	}
}

// begin starts what has brought the runtime here. The error says why the server could not be started.
func (s *Session) begin(role waiting.Role, ev waiting.Event) (err error) {
	t, page := s.tree, s.page
	pid, status, ended := page.Server()
	t.started = pid
	if t.server = pid; ended {
		t.noteServer(pid, status)
	}
	if s.recovers {
		t.server = 0 // It is the anchor's child.
	}
	s.watchOwners()
	if err = s.startFailure(); pid == 0 && ev.Kind == waiting.BySignal {
		s.code = 128 + int(ev.Signal)
	}
	if !s.above.terminal && role == waiting.Supervisor {
		s.watchStreams()
	}
	switch ev.Kind {
	case waiting.BySignal:
		s.onEnding(ev.Signal)
	case waiting.ByAnchor:
		s.request(teardown.OwnerGone, session.CauseAnchor)
	case waiting.ByParent, waiting.ByGateway:
		s.request(teardown.OwnerGone, session.CauseGateway)
	case waiting.ByStdin:
		s.request(teardown.StdinClosed, session.CauseStdin)
	case waiting.ByStdout:
		s.request(teardown.OwnerGone, session.CauseStdout)
	case waiting.ByClient:
		s.serveEngine()
	case waiting.ByServer:
		s.onServerExit()
		t.step(teardown.ServerExited)
	case waiting.ByExec, waiting.ByStarter:
		s.cause = session.CauseStart
		t.step(teardown.OwnerGone)
	default:
		s.request(teardown.OwnerGone, session.CauseSupervisor)
	}
	if ev.Kind == waiting.ByStarter {
		err = errors.New("the process that starts the server was killed: nothing was started")
	}
	s.onChildren(true)
	return err
}

// startFailure is why the server could not be executed; nil if it was. Outside of its leaf it is not contained so well.
func (s *Session) startFailure() error {
	failed, unmoved := s.page.Failure()
	if failed == nil {
		if unmoved != nil {
			s.degrade(unmoved)
		}
		return nil
	}
	s.cause, s.tree.server = session.CauseStart, 0
	if errors.Is(failed, unmoved) {
		failed = fmt.Errorf("%w: %w", errRequired, failed)
	}
	err := failedStart(s.page.Path(), failed)
	s.code = startCode(err)
	return err
}

// watchOwners watches for the end of the processes whose end ends the session.
func (s *Session) watchOwners() {
	for _, o := range []struct {
		as source
		fd int
	}{{parent, s.above.parentFD}, {gateway, s.above.gatewayFD}, {anchor, s.above.anchorFD}} {
		if o.fd >= 0 {
			s.polled.add(o.as, o.fd, unix.POLLIN)
		}
	}
}
