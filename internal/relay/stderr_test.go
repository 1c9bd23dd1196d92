package relay

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/mcp"
)

// newErrStage is a stage whose relay writes to a standard error that the test reads from.
func newErrStage(t *testing.T, guards, keeps bool) (s *stage, fromErrs int) {
	t.Helper()
	s = newStage(t, false)
	s.must(s.relay.Stderr(guards, keeps))
	var p [2]int
	s.must(unix.Pipe2(p[:], unix.O_CLOEXEC))
	s.closeLater(p[0])
	s.relay.stderr.Out = Stream{fd: p[1], ours: true, pipe: true}
	s.must(unix.SetNonblock(p[1], true))
	return s, p[0]
}

// Each line goes where it belongs, with its bytes and in its order, however the text is cut, and whatever the relay does with
// the lines that pass. Without the guard everything passes: the control.
func TestGuard(t *testing.T) {
	lines := []struct {
		text   string
		passes bool
	}{
		{listed, true},
		{"listening on stdio\n", false},
		{"\n", false},
		{" \r\n", false},
		{"\xff\xfe\x00\n", false},
		{serverSays, true},
		{"\t" + pong[:len(pong)-1] + "\r\n", true},
		{"[" + serverSays[:len(serverSays)-1] + ",1]\n", true}, // unclear: its receiver may read it
		{"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":{\"a\":\"\xff\xfe\"}}\n", true},
	}
	for name, c := range map[string]struct{ guards, ending bool }{"passing": {true, false}, "while it ends": {true, true}, "without": {false, false}} {
		for _, size := range []int{1, 7, 100, maxMessage} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				s, errs := newErrStage(t, c.guards, false)
				s.shakeHands()
				if c.ending {
					s.relay.EndServer()
				}
				text, passed, strayed := "", "", ""
				for _, l := range lines {
					if text += l.text; l.passes || !c.guards {
						passed += l.text
					} else {
						strayed += l.text
					}
				}
				for piece := range slices.Chunk([]byte(text), size) {
					s.tells(s.write(s.serverOut, string(piece)))
				}
				s.reads(s.fromRelay, passed)
				s.reads(errs, strayed)
			})
		}
	}
}

// Of the last line, which lacks its newline, a message passes.
func TestGuardLastLine(t *testing.T) {
	for text, passes := range map[string]bool{strings.TrimSpace(listed): true, "Killed": false, "[INFO": false, `{"id":2,"resu`: false} {
		for _, more := range []string{"", "the server ended"} {
			s, errs := newErrStage(t, true, false)
			s.shakeHands()
			s.tells(s.write(s.toRelay, list))
			s.tells(s.write(s.serverOut, text))
			s.endServer()
			s.tells(s.settle(), Event{Kind: ServerClosed})
			if !s.relay.Flush(more, false, testkit.Patience) {
				t.Error("not flushed")
			}
			got, strayed := s.read(s.fromRelay), s.read(errs)
			if passes != strings.HasPrefix(got, text) || passes != (strayed == "") || !passes && strings.TrimSpace(strayed) != text {
				t.Errorf("%q with %q: the client got %q, and %q", text, more, got, strayed)
			}
			if !passes && more != "" && !strings.HasPrefix(got, string(mcp.ErrorReply("2", mcp.CodeInternal, more))) {
				t.Errorf("%q: no error for the call: %q", text, got)
			}
		}
	}
}

// A long message passes whole, whatever a piece of it looks like.
func TestGuardLongMessage(t *testing.T) {
	s, errs := newErrStage(t, true, false)
	s.shakeHands()
	s.relay.max = 1 << 20
	piece, got := strings.Repeat("y", 3000), ""
	s.tells(s.write(s.serverOut, serverSays[:len(serverSays)-5]))
	for range 100 {
		s.tells(s.write(s.serverOut, piece))
		got += s.read(s.fromRelay)
	}
	s.tells(s.write(s.serverOut, serverSays[len(serverSays)-5:]+"up\n"))
	for range 10 { // The client's pipe takes a part of it at a time.
		got += s.read(s.fromRelay)
		s.settle()
	}
	if len(got) != len(serverSays)+100*len(piece) || !strings.HasSuffix(got, "y"+serverSays[len(serverSays)-5:]) {
		t.Errorf("%d bytes, to %q", len(got), got[max(0, len(got)-20):])
	}
	s.reads(errs, "up\n")
}

// A standard error that nobody reads holds up nothing: what has no room is dropped, and the reader is told once it reads. Seen to
// fail without the bound.
func TestGuardUnread(t *testing.T) {
	s, errs := newErrStage(t, true, false)
	s.shakeHands()
	s.full(s.relay.stderr.Out.fd)
	line := strings.Repeat("y", 900) + "\n"
	for range 300 {
		s.tells(s.write(s.serverOut, line+listed))
		s.reads(s.fromRelay, listed)
	}
	if n := s.relay.stderr.Waiting(); n > strayRoom+len(line) {
		t.Errorf("%d bytes wait", n)
	}
	dropped := s.relay.stderr.dropped
	kept := strings.Count(s.drained(errs), line)
	s.tells(s.write(s.serverOut, "last\n"))
	if rest := s.read(errs); dropped == 0 || kept+dropped != 300 || !strings.HasPrefix(rest, fmt.Sprintf("mcp-tether: %d lines", dropped)) || !strings.HasSuffix(rest, "\nlast\n") {
		t.Errorf("%d kept, %d dropped, then %q", kept, dropped, rest)
	}
}

// One that was closed takes nothing, and nothing else notices.
func TestGuardBroken(t *testing.T) {
	s, errs := newErrStage(t, true, false)
	s.shakeHands()
	_ = unix.Close(errs)
	for range 3 {
		s.tells(s.write(s.serverOut, "noise\n"+listed))
		s.reads(s.fromRelay, listed)
	}
	if !s.relay.Flush("", false, testkit.Patience) {
		t.Error("not flushed")
	}
}

// What a server writes to standard error reaches the client unchanged, by whichever server, and the last lines of the present one
// are known, also those that are still in the pipe.
func TestKeepStderr(t *testing.T) {
	s, errs := newErrStage(t, false, true)
	s.shakeHands()
	all := bytes.Repeat([]byte("\xff line\r\n\x00"), 5000)
	var got string
	for rest := all; len(rest) > 0; rest = rest[min(3000, len(rest)):] {
		s.tells(s.write(s.relay.stderr.theirs, string(rest[:min(3000, len(rest))])))
		got += s.read(errs)
	}
	if got != string(all) {
		t.Errorf("%d bytes of %d", len(got), len(all))
	}
	_, err := unix.Write(s.relay.stderr.theirs, []byte("\nfailed: \x1b[31mno token\n\n"))
	s.must(err)
	if said := s.relay.LastWords().Said(); said != `; last line of its standard error: "failed: \x1b[31mno token"` {
		t.Errorf("%q", said)
	}
	s.connect()
	if said := s.relay.LastWords().Said(); said != "" {
		t.Errorf("the next server is said to have said %q", said)
	}
}

// A client that does not read holds up the server's standard error, as without us: nothing is lost, and little is kept.
func TestKeepStderrUnread(t *testing.T) {
	s, errs := newErrStage(t, false, true)
	s.shakeHands()
	s.full(s.relay.stderr.Out.fd)
	theirs := s.relay.stderr.theirs
	s.must(unix.SetNonblock(theirs, true))
	wrote := 0
	for text := bytes.Repeat([]byte("z"), 1000); ; s.settle() {
		n, err := unix.Write(theirs, text)
		if err != nil {
			break
		}
		wrote += n
	}
	s.tells(s.write(s.serverOut, listed))
	s.reads(s.fromRelay, listed)
	if got := strings.Count(s.drained(errs), "z"); got != wrote || s.relay.stderr.Waiting() > 0 {
		t.Errorf("%d bytes of %d", got, wrote)
	}
	_ = unix.Close(errs)
	s.write(theirs, "z")
	if _, err := unix.Write(theirs, []byte("z")); err != unix.EPIPE {
		t.Errorf("a write to what the client has closed: %v", err)
	}
}

func TestTail(t *testing.T) {
	var tail Tail
	if tail.Said() != "" {
		t.Error("an empty one has a last line")
	}
	for n := range 100 {
		tail.Add(fmt.Appendf(nil, "line %d\n \n", n))
	}
	tail.Add([]byte(`{"level":"warn","session":"0123456789abcdef","time":"x","message":"y"}` + "\n"))
	tail.Add([]byte("2026-01-01 10:00:00 INF session ended session=0123456789abcdef\n"))
	if got := tail.Lines(); len(got) != tailLines || got[0] != "line 80" || got[tailLines-1] != "line 99" {
		t.Errorf("%q", got)
	}
	tail.Add(bytes.Repeat([]byte("w"), 10*tailBytes))
	tail.Add([]byte("ww\n2026 is no event sessions=1"))
	got := tail.Lines()
	if len(got) != tailLines || got[0] != "line 82" || len(got[tailLines-2]) != tailBytes || got[tailLines-1] != "2026 is no event sessions=1" {
		t.Errorf("%q", got)
	}
	tail.Add(bytes.Repeat([]byte("v\n"), 1<<20))
	if got := tail.Lines(); len(got) != tailLines || len(tail.kept) != tailLines*tailBytes {
		t.Errorf("%q, %d bytes", got, len(tail.kept))
	}
}

// drained reads all that comes, while the relay works.
func (s *stage) drained(fd int) string {
	s.t.Helper()
	var all strings.Builder
	for more := s.read(fd); more != ""; more = s.read(fd) {
		all.WriteString(more)
		s.settle()
	}
	return all.String()
}
