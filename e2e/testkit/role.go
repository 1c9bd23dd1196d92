package testkit

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// lifelineFD is the descriptor on which a role reports; see Kin.
const lifelineFD = 3

// roleWord is the first argument of a test binary that plays a role.
const roleWord = "role"

// roles are what the test binary can play.
var roles = map[string]func(){}

// Package variables are set on the main thread. A role stays on that thread, because it may have to end it.
var _ = holdMainThread()

func holdMainThread() bool {
	if playing() {
		runtime.LockOSThread()
	}
	return true
}

func playing() bool { return len(os.Args) > 2 && os.Args[1] == roleWord }

// Role registers what the test binary does when it is executed in the role. Set a package variable to the result, beside
// the tests that use it: var _ = testkit.Role("name", play).
func Role(name string, play func()) bool {
	if roles[name] != nil {
		panic("two roles are called " + name)
	}
	roles[name] = play
	return true
}

// Rest is a role that says that it is up, and ends at the end of its standard input.
func Rest(name string) bool {
	return Role(name, func() {
		Report(name)
		Await()
	})
}

// Run is what TestMain exits with. It plays the role that the binary was executed in, or else runs the tests.
func Run(m *testing.M) int {
	if playing() {
		play := roles[os.Args[2]]
		if play == nil {
			Fail("no such role: " + os.Args[2])
		}
		play()
		return 0
	}
	// Under a strict umask only its owner may run the test binary, and some tests run it as another user.
	_ = os.Chmod("/proc/self/exe", 0o755) //nolint:gosec // it is what a compiler makes
	AtOnce()
	return m.Run()
}

// AtOnce says how many tests run at a time, unless -parallel does: more than there are processors, for they wait for processes more
// than they compute. Where there is little room for processes it is a few, as each test has some dozens, with half a dozen threads.
func AtOnce() {
	const usual, little, each = 8, 2048, 500
	flag.Parse()
	given, n := false, max(usual, runtime.GOMAXPROCS(0))
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if room := stage.Room(); room < little {
		n = max(room/each, 1)
	}
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n))
	}
}

// Command executes the test binary in a role, with further arguments (RoleArgs).
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if roles[name] == nil {
		t.Fatalf("no such role: %s", name)
	}
	return exec.Command(self(t), append([]string{roleWord, name}, args...)...)
}

func self(t testing.TB) string {
	t.Helper()
	if runtime.GOOS == "linux" {
		return "/proc/self/exe" // may be renamed or removed meanwhile
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// What a role does.

// RoleArgs are the arguments that the role was given.
func RoleArgs() []string { return os.Args[3:] }

// Fail ends a role that cannot go on, with a code that no test expects.
func Fail(what string) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(9)
}

// Report says on the lifeline that the role is up.
func Report(name string) { Say(fmt.Sprintf("%s %d", name, os.Getpid())) }

// Say writes a line to the lifeline.
func Say(line string) { _, _ = unix.Write(lifelineFD, []byte(line+"\n")) }

// Lifeline is the descriptor that Say writes to.
func Lifeline() *os.File { return os.NewFile(lifelineFD, "lifeline") }

// Await returns at the end of the role's standard input.
func Await() { _, _ = io.Copy(io.Discard, os.Stdin) }
