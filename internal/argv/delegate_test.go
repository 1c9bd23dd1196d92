package argv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/testkit"
	"mcp-tether/internal/proc"
)

const stranger = 1777

// The test binary is its own child: the hidden word and what follows are its arguments, and the second of them says what it
// does.
func TestMain(m *testing.M) {
	words, uid, ok, err := SplitDelegatedArgs(os.Args)
	if !ok {
		os.Exit(m.Run())
	}
	if err != nil || Become(uid) != nil {
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
		_, _ = fmt.Fprintf(os.Stdout, "dumpable %d\nenv %s\n", open, strings.Join(os.Environ(), " "))
	case "threads":
		threads, _ := os.ReadDir("/proc/self/task")
		for _, one := range threads {
			b, err := os.ReadFile("/proc/self/task/" + one.Name() + "/status")
			if err == nil && !strings.Contains(string(b), "Uid:\t1777\t1777\t1777\t1777\n") {
				return 4
			}
		}
	case "hang":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		_ = unix.Pause() // another thread may take the signal, and this one go on for a moment
	case "flood":
		text := strings.Repeat("x", 4096)
		for {
			if _, err := os.Stdout.WriteString(text); err != nil {
				return 0
			}
		}
	case "swell":
		var all [][]byte
		for {
			all = append(all, []byte(strings.Repeat("x", 1<<20)))
			_ = all
		}
	case "three":
		return 3
	}
	return 0
}

func start(t *testing.T, part string) (string, int, error) {
	t.Helper()
	testkit.Need(t, testkit.Root)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	out, code, err := RunAs(ctx, stranger, []string{part})
	return string(out), code, err
}

// The child is the user, and has nothing of root's.
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
	out, code, err := start(t, "status")
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	for _, want := range []string{
		"Uid:\t1777\t1777\t1777\t1777\n", "Gid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n",
		"CapInh:\t0000000000000000\n", "CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapAmb:\t0000000000000000\n",
		"dumpable 0\n", "fd 0 /dev/null\n", "fd 1 pipe:", "fd 2 /dev/null\n", "PATH=/nonexistent", "HOME=/nonexistent",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "SECRET_OF_ROOT") || strings.Contains(out, "file-of-root") || strings.Count(out, "pipe:") > 1 {
		t.Errorf("it has something of root:\n%s", out)
	}
}

func TestChildIsBounded(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return // below the bound there is no room for what the race detector keeps
	}
	for part, want := range map[string]error{"flood": errTooMuch, "swell": nil} { // nil for any
		_, code, err := start(t, part)
		if want != nil && !errors.Is(err, want) || err == nil && code == 0 || errors.Is(err, errTime) {
			t.Errorf("%s: exit code %d, %v", part, code, err)
		}
	}
	for part, want := range map[string]int{"threads": 0, "three": 3} {
		if _, code, err := start(t, part); code != want || err != nil {
			t.Errorf("%s: exit code %d, %v", part, code, err)
		}
	}
}

// A child that its user has stopped is ended with the time.
func TestChildThatHangsIsEnded(t *testing.T) {
	testkit.Need(t, testkit.Root)
	ctx, timeUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := RunAs(ctx, stranger, []string{"hang"})
		ended <- err
	}()
	testkit.Until(t, "a stopped child", func() bool {
		all, _ := new(proc.Reader).Descendants(os.Getpid())
		return slices.ContainsFunc(all, func(p proc.Stat) bool { return p.State == 'T' })
	})
	timeUp()
	if err := <-ended; !errors.Is(err, errTime) {
		t.Error(err)
	}
}

// A user of LDAP or homed is in no file. Seen to have neither group nor home when /etc/passwd alone was read.
func TestUserInNoFile(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, "getent"), []byte("#!/bin/sh\n[ \"$*\" = 'passwd 1777' ] && echo 'jo:*:1777:1778:Jo:/home/jo:/bin/sh'\n"))
	testkit.WriteProgram(t, filepath.Join(dir, "id"), []byte("#!/bin/sh\n[ \"$*\" = '-G -- jo' ] && echo '1778 1779'\n"))
	t.Setenv("PATH", dir)
	for uid, want := range map[int]login{
		stranger:     {stranger, 1778, []int{1778, 1779}, "jo", "/home/jo"},
		stranger + 1: {stranger + 1, nogroup, nil, "1778", "/nonexistent"},
	} {
		if got := lookUp(uid); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, want %+v", uid, got, want)
		}
	}
}

// Users that hang leave every other one its share of the time, and users that are quick leave theirs to those that follow.
func TestEachSharesTheTime(t *testing.T) {
	const total, limit = 20 * time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		users    int
		hangs    func(uid int) bool
		least    time.Duration // what the last one has
		answered int
	}{
		"one hangs":   {3 * atOnce, func(uid int) bool { return uid == 0 }, limit, 3 * atOnce},
		"most hang":   {3 * atOnce, func(uid int) bool { return uid < 2*atOnce }, total / 3, 3 * atOnce},
		"many hang":   {100 * atOnce, func(int) bool { return true }, 0, 20 * atOnce},
		"many answer": {100 * atOnce, func(int) bool { return false }, limit, 100 * atOnce},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var uids []int
				for uid := range c.users {
					uids = append(uids, uid)
				}
				began := time.Now()
				had := Each(uids, total, limit, func(ctx context.Context, uid int) time.Duration {
					end, _ := ctx.Deadline()
					had := time.Until(end)
					if c.hangs(uid) {
						<-ctx.Done()
					}
					return had
				})
				if last := had[c.users-1]; len(had) < c.answered || len(had) > c.answered+atOnce || last < c.least || time.Since(began) > total {
					t.Errorf("%d answers in %v, the last one had %v", len(had), time.Since(began), last)
				}
			})
		})
	}
}

// A short text that would decode to much memory is not decoded.
func TestDecode(t *testing.T) {
	var v any
	for _, part := range []string{"{}", "null", "0", `""`, "[]"} {
		if err := Decode([]byte("["+strings.Repeat(part+",", proc.MaxAnswer/len(part+",")-1)+part+"]"), &v); !errors.Is(err, errTooMuch) {
			t.Errorf("%s: %v", part, err)
		}
	}
	if err := Decode([]byte(" \n"), &v); !errors.Is(err, errNoAnswer) {
		t.Error(err)
	}
	if err := Decode([]byte(`{"a":1}`), &v); err != nil {
		t.Error(err)
	}
}
