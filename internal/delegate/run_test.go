package delegate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/argv"
	"mcp-tether/internal/proc"
	"mcp-tether/internal/testkit"
)

const stranger = 1777

// The test binary is its own child: the hidden word and what follows are its arguments, and the second of them says what it
// does.
func TestMain(m *testing.M) {
	words, as, ok, err := argv.SplitDelegatedArgs(os.Args)
	if !ok {
		os.Exit(m.Run())
	}
	if err != nil || Become(as) != nil {
		os.Exit(9)
	}
	os.Exit(play(words[1]))
}

// play is what a child does.
func play(part string) int {
	switch part {
	case "status":
		b, _ := os.ReadFile("/proc/self/status")
		fds, _ := os.ReadDir("/proc/self/fd")
		_, _ = os.Stdout.Write(b)
		for _, fd := range fds {
			link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
			_, _ = os.Stdout.WriteString("fd " + fd.Name() + " " + link + "\n")
		}
		open, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
		_, _ = fmt.Fprintf(os.Stdout, "dumpable %d\n", open)
		_, _ = os.Stdout.WriteString("env " + strings.Join(os.Environ(), " ") + "\n")
	case "threads":
		threads, _ := os.ReadDir("/proc/self/task")
		for _, one := range threads {
			b, err := os.ReadFile("/proc/self/task/" + one.Name() + "/status")
			if err == nil && !(strings.Contains(string(b), "NoNewPrivs:\t1\n") && strings.Contains(string(b), "Uid:\t1777\t1777\t1777\t1777\n")) {
				return 4
			}
		}
	case "hang":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		_ = unix.Pause() // another thread may take the signal, and this one go on for a moment
	case "flood":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("x", 4096)); err != nil {
				return 0
			}
		}
	case "swell":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			_ = all
		}
	case "three":
		return 3
	}
	return 0
}

func run(t *testing.T, part string) (string, int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	return runIn(ctx, t, part)
}

func runIn(ctx context.Context, t *testing.T, part string) (string, int, error) {
	t.Helper()
	testkit.Need(t, testkit.Root)
	out, code, err := Run(ctx, User{UID: stranger, GID: stranger, Name: "s", Home: "/nonexistent", Groups: []int{1778}}, []string{part}, 64<<10)
	return string(out), code, err
}

// The child is the user, has nothing of root's and can get nothing back. Root keeps what it has: a number that is closed may be
// that of another child's pipe by then.
func TestChildHasNothingOfRoot(t *testing.T) {
	t.Setenv("SECRET_OF_ROOT", "x")
	extra, err := os.CreateTemp(t.TempDir(), "file-of-root")
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	if _, err := unix.FcntlInt(extra.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	out, code, err := run(t, "status")
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	for _, want := range []string{
		"Uid:\t1777\t1777\t1777\t1777\n", "Gid:\t1777\t1777\t1777\t1777\n", "Groups:\t1778 \n", "NoNewPrivs:\t1\n",
		"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
		"dumpable 0\n", "fd 0 /dev/null\n", "fd 1 pipe:", "fd 2 /dev/null\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "SECRET_OF_ROOT") || strings.Contains(out, "file-of-root") || strings.Count(out, "pipe:") > 1 {
		t.Errorf("it has something of root:\n%s", out)
	}
	if _, err := extra.Stat(); err != nil {
		t.Errorf("root has lost it: %v", err)
	}
}

func TestChildIsBounded(t *testing.T) {
	for part, want := range map[string]error{"flood": errTooMuch, "swell": nil} { // nil for any
		_, code, err := run(t, part)
		if want != nil && !errors.Is(err, want) || err == nil && code == 0 || errors.Is(err, errTime) {
			t.Errorf("%s: exit code %d, %v", part, code, err)
		}
		// It becomes a part of one line.
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q", part, err)
		}
	}
	if _, code, err := run(t, "threads"); code != 0 || err != nil {
		t.Errorf("a thread has something of root: exit code %d, %v", code, err)
	}
	if _, code, err := run(t, "three"); code != 3 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// A child that has stopped itself is ended with the time.
func TestChildThatHangsIsEnded(t *testing.T) {
	testkit.Need(t, testkit.Root)
	ctx, timeUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := runIn(ctx, t, "hang")
		ended <- err
	}()
	testkit.Until(t, "a stopped child", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
		all, _ := new(proc.Reader).Descendants(os.Getpid())
		return slices.ContainsFunc(all, func(p proc.Stat) bool { return p.State == 'T' })
	})
	timeUp()
	if err := <-ended; !errors.Is(err, errTime) {
		t.Error(err)
	}
}

// A short text that would decode to much memory is not decoded.
func TestDecode(t *testing.T) {
	var v any
	if err := Decode([]byte("["+strings.Repeat("{},", maxObjects)+"{}]"), &v); !errors.Is(err, errObjects) {
		t.Error(err)
	}
	// What is no object makes a struct all the same: a number costs two bytes of the answer.
	var large []struct{ Room [512]byte }
	for _, part := range []string{"null", "0", `""`, "[]"} {
		if err := Decode([]byte("["+strings.Repeat(part+",", MaxAnswer/len(part+",")-1)+part+"]"), &large); !errors.Is(err, errObjects) {
			t.Errorf("%s: %v, %d", part, err, len(large))
		}
	}
	if err := Decode([]byte(" \n"), &v); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
	if err := Decode([]byte(`{"a":1}`), &v); err != nil {
		t.Error(err)
	}
}
