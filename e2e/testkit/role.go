package testkit

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// lifelineFD is the descriptor on which a role reports; see Kin.
const lifelineFD = 3

// roleWord is the first argument of a test binary that plays a role.
const roleWord = "role"

// roles are what the test binary can play, and whether a test has asked for it.
var roles = struct {
	sync.Mutex
	play map[string]func()
	used map[string]bool
}{play: map[string]func(){}, used: map[string]bool{}}

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
	if roles.play[name] != nil {
		panic("two roles are called " + name)
	}
	roles.play[name] = play
	return true
}

// Rest is a role that says that it is up, and ends at the end of its standard input.
func Rest(name string) bool {
	return Role(name, func() {
		Report(name)
		Await()
	})
}

// idleRoles begins the line that names the roles that no test has used.
const idleRoles = "roles that no test has used: "

// Run is what TestMain exits with. It plays the role that the binary was executed in, or else runs the tests, and fails
// if they have left a role unused. That is known only when all tests of the package have run, and none was skipped.
func Run(m *testing.M) int {
	if playing() {
		play := roles.play[os.Args[2]]
		if play == nil {
			Fail("no such role: " + os.Args[2])
		}
		play()
		return 0
	}
	// Under a strict umask only its owner may run the test binary, and some tests run it as another user.
	_ = os.Chmod("/proc/self/exe", 0o755) //nolint:gosec // it is what a compiler makes
	code := m.Run()
	if !ranAllTests() {
		return code
	}
	if idle := unused(); len(idle) > 0 {
		fmt.Fprintf(os.Stderr, "%s%s\n", idleRoles, strings.Join(idle, ", "))
		return max(code, 1)
	}
	return code
}

// ranAllTests reports whether every test was asked for, and had what it needs.
func ranAllTests() bool {
	if skipped.Load() {
		return false
	}
	for _, name := range []string{"run", "skip", "list", "fuzz", "bench"} {
		if f := flag.Lookup("test." + name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return true
}

func unused() []string {
	roles.Lock()
	defer roles.Unlock()
	var idle []string
	for name := range roles.play {
		if !roles.used[name] {
			idle = append(idle, name)
		}
	}
	slices.Sort(idle)
	return idle
}

func use(name string) {
	roles.Lock()
	defer roles.Unlock()
	roles.used[name] = true
}

// Command executes the test binary in a role, with further arguments (RoleArgs).
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	if roles.play[name] == nil {
		t.Fatalf("no such role: %s", name)
	}
	use(name)
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
