package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// WaitDead waits until no process of the session is left.
func (s *Session) WaitDead() {
	s.T.Helper()
	if err := s.WaitUnlocked(); err != nil {
		s.T.Fatalf("still alive: %v", err)
	}
	if err := WaitFree(s.Flock, Patience); err != nil {
		s.T.Fatalf("a member without descriptors is still alive: %v", err)
	}
}

// WaitUnlocked waits until no process is left but those that hold the lock.
func (s *Session) WaitUnlocked() error {
	if err := s.Life.Wait(Patience); err != nil {
		return err
	}
	deadline := time.Now().Add(Patience)
	for all := s.Wrappers(); len(all) > 0; all = s.Wrappers() {
		for _, p := range all {
			if dead, err := DiesWithin(p.PID, time.Until(deadline)); err != nil || !dead {
				return fmt.Errorf("%v (%w)", p, err)
			}
		}
	}
	return nil
}

// Wrappers are the living processes of the wrapper's own. They give up what only the server should hold, the lifeline
// too. But they have the session's log in their command lines. Nothing else has, apart from the fixture that is to
// start the wrapper.
func (s *Session) Wrappers() []Proc {
	return slices.DeleteFunc(Saying("--log-file="+s.Log+"\x00"), func(p Proc) bool { return p.Says("^" + s.Gateway.Programs.Fixture + "\x00") })
}

// Members are the living processes of the session, but for those that hold the lock in the lifeline's place.
func (s *Session) Members() []Proc {
	all := s.Wrappers()
	for _, p := range Holders(s.Life.Path) {
		if !slices.ContainsFunc(all, func(q Proc) bool { return p.PID == q.PID }) {
			all = append(all, p)
		}
	}
	return all
}

// Alive tells whether any process of the session is left.
func (s *Session) Alive() bool {
	return s.Life.Held() || Held(s.Flock) || len(s.Wrappers()) > 0
}

// Gone waits for the end of the session, our own processes included, and expects that it left nothing on disk either.
func (s *Session) Gone() {
	s.T.Helper()
	s.WaitDead()
	for deadline := time.Now().Add(Patience); len(s.litter()) > 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if s.PID > 0 {
		AwaitExit(s.T, s.PID)
	}
	for _, left := range s.litter() {
		s.T.Errorf("left: %s", left)
	}
	s.over = true
}

// NothingLeft looks now for processes, files and cgroups of the session.
func (s *Session) NothingLeft() {
	s.T.Helper()
	if s.Alive() {
		s.T.Errorf("processes are left: %v", s.Members())
	}
	for _, left := range s.litter() {
		s.T.Errorf("left: %s", left)
	}
}

// litter lists the files and cgroups of the session.
func (s *Session) litter() []string {
	left, _ := filepath.Glob(filepath.Join(s.Runtime, "mcp-tether", "*"))
	// A pass and a sweep leave the lock by which one runs at a time, and the first shared server the key of all.
	left = slices.DeleteFunc(left, func(file string) bool {
		return slices.Contains([]string{"reap.lock", "sweep.lock", "share.key"}, filepath.Base(file))
	})
	// The record of a quick session may not have been seen.
	ids := append(EndedIn(s.Log), s.IDs...)
	if s.shared {
		left = slices.DeleteFunc(left, func(file string) bool {
			return !slices.ContainsFunc(ids, func(id string) bool { return strings.HasPrefix(filepath.Base(file), id+".") })
		})
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if leaf := CgroupLeaf(id); leaf != "" {
			left = append(left, leaf)
		}
		// The socket is here when its path would be too long.
		socks, _ := filepath.Glob("/tmp/mcp-tether-*/" + id + ".sock")
		left = append(left, socks...)
	}
	return left
}

// cleanup shows what is left of a failed play, and ends what is left of any.
func (s *Session) cleanup() {
	if s.T.Failed() {
		s.dump()
	}
	if !s.over {
		s.IDs = append(s.IDs, s.Records()...)
		s.EndAll()
		for _, id := range append(s.IDs, s.Records()...) {
			RemoveLeaf(id)
		}
	}
	s.Life.Close()
}

// RemoveLeaf removes the leaf of a session that was killed. The kernel closes the files of a process before it takes the
// process out of its cgroup, so it may need a moment. A leaf that stays in use is another session's in the same directory.
func RemoveLeaf(id string) {
	leaf := CgroupLeaf(id)
	for range 100 {
		if leaf == "" || !errors.Is(os.Remove(leaf), unix.EBUSY) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// EndAll kills the holders of the lifeline and the lock, by pid, until there are none. A forking family is told to
// stop first: it is never all in one listing.
func (s *Session) EndAll() {
	_ = os.WriteFile(filepath.Join(s.Dir, "stop"), nil, 0o666) //nolint:gosec // members may be other users
	for range 100 {
		if !s.Alive() {
			return
		}
		for _, p := range append(s.Members(), Holders(s.Flock)...) {
			if id := p.LeafID(); id != "" {
				s.IDs = append(s.IDs, id) // it may have no record yet
			}
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		_ = s.Life.Wait(200 * time.Millisecond)
		_ = WaitFree(s.Flock, 200*time.Millisecond)
	}
	s.T.Errorf("could not end %v", s.Members())
}

// dump shows the end of the log and of standard error, and who is left.
func (s *Session) dump() {
	s.T.Helper()
	for _, f := range []string{s.Log, s.Stderr} {
		b, _ := os.ReadFile(f)
		b = b[max(0, len(b)-8<<10):]
		s.T.Logf("session %s, %s:\n%s", s.Name, filepath.Base(f), b)
	}
	left := append(s.Members(), Holders(s.Flock)...)
	for _, p := range left[:min(30, len(left))] {
		s.T.Logf("left: %v", p)
	}
	if len(left) > 30 {
		s.T.Logf("... %d in all", len(left))
	}
}
