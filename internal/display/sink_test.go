package display

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

	"mcp-tether/e2e/testkit"
)

// onStderr puts a pipe, as a gateway gives it, in the place of standard error until the end. It returns the read end.
func onStderr(t *testing.T) *os.File {
	t.Helper()
	var p [2]int
	saved, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3)
	if err == nil {
		err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	}
	if err == nil {
		err = unix.Dup3(p[1], 2, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p[1])
	t.Cleanup(func() { _ = unix.Dup3(saved, 2, 0); unix.Close(saved) })
	return os.NewFile(uintptr(p[0]), "pipe")
}

// sinks are the ways to standard error: another user's pipe cannot be opened once more.
func sinks(t *testing.T, f func(t *testing.T, s *Sink, r *os.File)) {
	for name, open := range map[string]func() *Sink{"opened once more": Stderr, "shared": func() *Sink { return &Sink{fd: 2} }} {
		t.Run(name, func(t *testing.T) {
			r := onStderr(t)
			defer r.Close()
			f(t, open(), r)
		})
	}
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
		panic(what + ": blocked") // Standard error is not what it was.
	}
}

// drained reads what is in a pipe now.
func drained(t *testing.T, r *os.File) []byte {
	t.Helper()
	n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
	out := make([]byte, n)
	if err == nil {
		_, err = io.ReadFull(r, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// While no process reads, events are dropped and no write blocks. Once one reads, the next event tells how many were lost.
func TestSinkNeverBlocksOnAFullPipe(t *testing.T) {
	sinks(t, func(t *testing.T, s *Sink, r *os.File) {
		const events = 4000
		inTime(t, "write", func() {
			for range events {
				if n, err := s.Write(append(bytes.Repeat([]byte("x"), 500), '\n')); n != 501 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
		})
		out := drained(t, r)
		_, _ = s.Write([]byte("last\n"))
		out = append(out, drained(t, r)...)
		whole := len(regexp.MustCompile(`(?m)^x{500}$`).FindAll(out, -1))
		lost := 0
		for _, m := range regexp.MustCompile(`(?m)^mcp-tether: (\d+) log events dropped`).FindAllSubmatch(out, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			lost += n
		}
		if whole < 100 || whole+lost != events || !bytes.HasSuffix(out, []byte("\nlast\n")) {
			t.Errorf("%d events whole, %d lost", whole, lost)
		}
		if flags, err := unix.FcntlInt(2, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("the flags of standard error: %o, %v", flags, err)
		}
	})
}

// A log of objects has an object for the lost events, whatever its level.
func TestSinkCountsLostEventsAsAnObject(t *testing.T) {
	r := onStderr(t)
	defer r.Close()
	log, err := Open(Options{JSON: true, Level: zerolog.ErrorLevel}, "s", "")
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		log.Error().Str("filler", strings.Repeat("x", 500)).Msg("event")
	}
	out := drained(t, r)
	log.Error().Msg("event")
	whole, lost := 0, 0
	for line := range bytes.Lines(append(out, drained(t, r)...)) {
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
	if lost == 0 || whole+lost != 1001 {
		t.Errorf("%d events, and %d lost", whole, lost)
	}
}

// Where no descriptor is to be had, standard error itself is written to.
func TestSinkNeedsNoFurtherDescriptor(t *testing.T) {
	r := onStderr(t)
	defer r.Close()
	testkit.WithFiles(t, 3, func() { _, _ = Stderr().Write([]byte("first\n")) })
	if got := string(drained(t, r)); got != "first\n" {
		t.Errorf("%q", got)
	}
}

// A reader that has gone causes neither an error nor a signal.
func TestSinkSurvivesAClosedPipe(t *testing.T) {
	sinks(t, func(t *testing.T, s *Sink, r *os.File) {
		r.Close()
		inTime(t, "write", func() {
			for range 300 {
				if n, err := s.Write([]byte("lost\n")); n != 5 || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
		})
	})
}

// A socket cannot be opened once more, and need not be.
func TestSinkNeverBlocksOnAFullSocket(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	s := &Sink{fd: pair[0]}
	inTime(t, "write", func() {
		for range 4000 {
			_, _ = s.Write(bytes.Repeat([]byte("x"), 500))
		}
	})
	if s.dropped == 0 {
		t.Error("nothing was dropped")
	}
}

func TestOpenLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	for range 2 { // the second appends
		log, err := Open(Options{File: file, JSON: true, Level: zerolog.InfoLevel}, "s", "")
		if err != nil {
			t.Fatal(err)
		}
		log.Debug().Msg("unwanted")
		log.Info().Msg("wanted")
	}
	b, err := os.ReadFile(file)
	if err != nil || bytes.Count(b, []byte(`"message":"wanted"`)) != 2 || bytes.Contains(b, []byte("unwanted")) {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Open(Options{File: file + "/none"}, "s", ""); err == nil || !strings.Contains(err.Error(), file+"/none") {
		t.Errorf("a file that cannot be: %v", err)
	}
}
