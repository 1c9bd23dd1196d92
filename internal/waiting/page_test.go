package waiting

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What the starter has found out is in the page as the supervisor reads it: texts that end with a zero byte, the last one empty.
func TestSetStart(t *testing.T) {
	p := &Page{Pid: Pids{Supervisor: os.Getpid()}} // it gets SIGCHLD, which does nothing
	s := Start{
		Path: "/bin/srv", Words: 3, Drop: []string{"A=", "B="}, Add: []string{"C=1", "D="},
		Leaf: 4, Kill: 5, Listener: -1, Gateway: 7, MustMove: true, Longest: time.Second,
	}
	if err := p.SetStart(s); err != nil {
		t.Fatal(err)
	}
	for want, got := range map[string][]byte{"/bin/srv\x00\x00": p.path[:], "A=\x00B=\x00\x00": p.drop[:], "C=1\x00D=\x00\x00": p.add[:]} {
		if !bytes.HasPrefix(got, []byte(want)) {
			t.Errorf("%q, want %q", got[:len(want)], want)
		}
	}
	if !p.ready || p.words != 3 || !p.mustMove || p.longest != int(time.Second) || p.Path() != s.Path {
		t.Errorf("ready %t, words %d, must move %t, longest %d, path %q", p.ready, p.words, p.mustMove, p.longest, p.Path())
	}
	if want := (Descriptors{Leaf: 4, Kill: 5, Listener: -1, Gateway: 7}); p.FD != want {
		t.Errorf("descriptors %+v", p.FD)
	}
}

// What does not fit starts no server.
func TestSetStartThatDoesNotFit(t *testing.T) {
	fits := func(n int) string { return strings.Repeat("x", n-2) } // beside two zero bytes
	for name, c := range map[string]struct {
		s    Start
		fits bool
	}{
		"a path":               {Start{Path: fits(len(Page{}.path))}, true},
		"a path too long":      {Start{Path: fits(len(Page{}.path)) + "x"}, false},
		"a variable":           {Start{Add: []string{fits(len(Page{}.add))}}, true},
		"a variable too long":  {Start{Add: []string{fits(len(Page{}.add)) + "x"}}, false},
		"two variables":        {Start{Add: []string{fits(len(Page{}.add)), ""}}, false},
		"too much to drop":     {Start{Drop: []string{fits(len(Page{}.drop)), "x"}}, false},
		"nothing at all":       {Start{}, true},
		"one byte too much":    {Start{Drop: []string{"x", fits(len(Page{}.drop) - 1)}}, false},
		"all the room, in two": {Start{Drop: []string{"x", fits(len(Page{}.drop) - 2)}}, true},
	} {
		p := &Page{Pid: Pids{Supervisor: os.Getpid()}}
		err := p.SetStart(c.s)
		if fits := err == nil; fits != c.fits || !fits && !errors.Is(err, unix.E2BIG) || p.ready != c.fits {
			t.Errorf("%s: %v, ready %t", name, err, p.ready)
		}
	}
}

// The end of a session begins once, and the server's status is told once it has ended.
func TestPageTells(t *testing.T) {
	p := &Page{Pid: Pids{Anchor: os.Getpid()}} // it gets SIGCHLD as well
	p.NoteEnd()
	asked := p.asked
	if p.NoteEnd(); asked == 0 || p.asked != asked {
		t.Errorf("asked at %d, then at %d", asked, p.asked)
	}
	if failed, unmoved := p.Failure(); failed != nil || unmoved != nil {
		t.Errorf("a new page has failed: %v, %v", failed, unmoved)
	}
	p.errno, p.unmoved, p.closed[1] = int(unix.ENOENT), int(unix.EPERM), true
	failed, unmoved := p.Failure()
	if !errors.Is(failed, unix.ENOENT) || !errors.Is(unmoved, unix.EPERM) {
		t.Errorf("%v, %v", failed, unmoved)
	}
	if p.Closed(0) || !p.Closed(1) || p.Closed(2) {
		t.Errorf("closed %v", p.closed)
	}
	p.server, p.status, p.reaped = 9, 3<<8, true
	if pid, ws, ended := p.Server(); pid != 9 || ws.ExitStatus() != 3 || !ended {
		t.Errorf("the server %d has ended %t with %d", pid, ended, ws.ExitStatus())
	}
}
