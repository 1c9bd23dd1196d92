package eventlog

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"mcp-tether/internal/proc"
	"mcp-tether/internal/testkit"
)

// rawPipe gives a pipe that nothing has made non-blocking, as standard error is inherited.
func rawPipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

// inTime runs f and fails when it does not return.
func inTime(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() {
		f()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(testkit.Patience):
		t.Fatalf("%s: blocked", what)
	}
}

// drained reads what a sink has written, and what waits in it, from the other end of its pipe.
func drained(t *testing.T, s *Sink, r int) (out []byte) {
	t.Helper()
	go func() { // the writer ends when all is written
		for s.Pending() {
			s.Again()
			proc.Sleep(time.Millisecond)
		}
		unix.Close(s.file)
	}()
	reader := os.NewFile(uintptr(r), "pipe")
	defer reader.Close()
	inTime(t, "read", func() { out, _ = io.ReadAll(reader) })
	return out
}

// While no process reads, events are dropped and no write blocks. Once one reads, the kept events arrive whole and in
// order, with the number of the lost ones.
func TestSinkNeverBlocksOnAFullPipe(t *testing.T) {
	r, w := rawPipe(t)
	s := &Sink{file: w}
	const events = 4000
	line := strings.Repeat("x", 500)
	inTime(t, "write", func() {
		for i := range events {
			event := strconv.Itoa(i) + " " + line + "\n"
			if n, err := s.Write([]byte(event)); n != len(event) || err != nil {
				t.Errorf("event %d: %d, %v", i, n, err)
			}
		}
	})
	out := drained(t, s, r)
	whole := regexp.MustCompile(`(?m)^(\d+) x{500}$`).FindAllSubmatch(out, -1)
	lost := regexp.MustCompile(`(?m)^mcp-tether: (\d+) log events dropped`).FindAllSubmatch(out, -1)
	total, last := len(whole), -1
	for _, m := range whole {
		n := number(t, m[1])
		if n <= last {
			t.Fatalf("event %d after %d", n, last)
		}
		last = n
	}
	if len(whole) < 100 || len(lost) == 0 || bytes.Count(out, []byte("\n")) != len(whole)+len(lost) {
		t.Errorf("%d whole events, %d notes of loss, in %d lines", len(whole), len(lost), bytes.Count(out, []byte("\n")))
	}
	for _, m := range lost {
		total += number(t, m[1])
	}
	if total != events {
		t.Errorf("%d events are accounted for, of %d", total, events)
	}
}

func number(t *testing.T, b []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A log of objects has an object for the lost events, whatever its level.
func TestSinkCountsLostEventsAsAnObject(t *testing.T) {
	r, w := rawPipe(t)
	log, sink, err := Open(Options{JSON: true, Level: zerolog.ErrorLevel}, "s", "")
	if err != nil {
		t.Fatal(err)
	}
	sink.file = w
	for range 1000 {
		log.Error().Str("filler", strings.Repeat("x", 500)).Msg("event")
	}
	whole, lost := 0, 0
	for line := range bytes.Lines(drained(t, sink, r)) {
		var event struct {
			Message string
			Events  int
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if event.Message == "event" {
			whole++
		}
		lost += event.Events
	}
	if lost == 0 || whole+lost != 1000 {
		t.Errorf("%d events, and %d lost", whole, lost)
	}
}

// Where no descriptor is to be had for a moment, what is to be written waits. Standard error is opened anew for each write.
func TestSinkWaitsForADescriptor(t *testing.T) {
	r, w := rawPipe(t)
	defer replaced(t, 2, w)()
	ReleaseStderr()
	unix.Close(w)
	s, _ := openSink("")
	testkit.WithFiles(t, 0, func() { _, _ = s.Write([]byte("first\n")) })
	if !s.Pending() {
		t.Error("nothing waits")
	}
	s.Again()
	reader := os.NewFile(uintptr(r), "pipe")
	defer reader.Close()
	got := make([]byte, 6)
	inTime(t, "read", func() { _, _ = io.ReadFull(reader, got) })
	if string(got) != "first\n" {
		t.Errorf("%q", got)
	}
}

// Nor is one needed where standard error itself can be written. At the end standard input gives its own.
func TestSinkNeedsNoFurtherDescriptor(t *testing.T) {
	for _, released := range []bool{false, true} {
		r, w := rawPipe(t)
		restore := replaced(t, 0, r)
		restoreErr := replaced(t, 2, w)
		unix.Close(w)
		if released {
			keep, _ := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 0)
			defer unix.Close(keep)
			ReleaseStderr()
		}
		s, _ := openSink("")
		testkit.WithFiles(t, 3, func() {
			_, _ = s.Write([]byte("first\n"))
			if s.Pending() != released {
				t.Errorf("released %t: pending %t", released, s.Pending())
			}
			s.Flush()
		})
		restoreErr()
		restore()
		got := make([]byte, 6)
		reader := os.NewFile(uintptr(r), "pipe")
		inTime(t, "read", func() { _, _ = io.ReadFull(reader, got) })
		reader.Close()
		if string(got) != "first\n" {
			t.Errorf("released %t: %q", released, got)
		}
	}
}

// replaced puts a descriptor in the place of another one until the end.
func replaced(t *testing.T, old, by int) (restore func()) {
	t.Helper()
	saved, err := unix.FcntlInt(uintptr(old), unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Dup3(by, old, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = unix.Dup3(saved, old, 0); unix.Close(saved) }
}

// A reader that has gone causes neither an error nor a signal.
func TestSinkSurvivesAClosedPipe(t *testing.T) {
	r, w := rawPipe(t)
	unix.Close(r)
	defer unix.Close(w)
	s := &Sink{file: w}
	inTime(t, "write and flush", func() {
		for range 3 * 100 {
			if n, err := s.Write([]byte("lost\n")); n != 5 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		s.Flush()
	})
}

// The server shares standard error and may make it non-blocking: nothing is lost by that.
func TestSinkWaitsOnANonblockingPipe(t *testing.T) {
	r, w := rawPipe(t)
	if err := unix.SetNonblock(w, true); err != nil {
		t.Fatal(err)
	}
	s := &Sink{file: w}
	const events = 200
	event := []byte(strings.Repeat("y", 1999) + "\n")
	go func() {
		for range events {
			for s.Pending() {
				s.Again()
			}
			_, _ = s.Write(event)
		}
		s.Flush()
		unix.Close(w)
	}()
	reader := os.NewFile(uintptr(r), "pipe")
	defer reader.Close()
	var out []byte
	inTime(t, "read", func() { out, _ = io.ReadAll(reader) })
	if len(out) != events*len(event) || s.dropped != 0 {
		t.Errorf("%d bytes of %d, %d dropped", len(out), events*len(event), s.dropped)
	}
}

// What the caller does with its buffer afterwards does not matter: zerolog uses it again.
func TestSinkCopies(t *testing.T) {
	r, w := rawPipe(t)
	s := &Sink{file: w}
	event := []byte("first\n")
	_, _ = s.Write(event)
	copy(event, "XXXXX")
	s.Flush()
	unix.Close(w)
	reader := os.NewFile(uintptr(r), "pipe")
	defer reader.Close()
	if out, err := io.ReadAll(reader); err != nil || string(out) != "first\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestFlushWithoutEvents(t *testing.T) {
	inTime(t, "flush", (&Sink{file: -1}).Flush)
}

// A flush gives up on a reader that does not read.
func TestFlushIsBounded(t *testing.T) {
	r, w := rawPipe(t)
	defer unix.Close(r)
	defer unix.Close(w)
	s := &Sink{file: w}
	_, _ = s.Write(bytes.Repeat([]byte("z"), sinkRoom))
	_, _ = s.Write(bytes.Repeat([]byte("z"), sinkRoom))
	inTime(t, "flush", s.Flush)
	if !s.Pending() {
		t.Error("nothing was left: the pipe took more than it can")
	}
}

func TestOpenLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for range 2 { // the second appends
		log, sink, err := Open(Options{File: file, JSON: true, Level: zerolog.InfoLevel}, "s", "")
		if err != nil {
			t.Fatal(err)
		}
		log.Debug().Msg("unwanted")
		log.Info().Msg("wanted")
		sink.Flush()
		unix.Close(sink.file)
	}
	b, err := os.ReadFile(file)
	if err != nil || bytes.Count(b, []byte(`"message":"wanted"`)) != 2 || bytes.Contains(b, []byte("unwanted")) {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, _, err := Open(Options{File: file + "/none"}, "s", ""); err == nil || !strings.Contains(err.Error(), file+"/none") {
		t.Errorf("a file that cannot be: %v", err)
	}
}
