package testkit

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
)

// Patience bounds every wait of a test.
const Patience = stage.Patience

// A Want is something that a machine may lack.
type Want string

// What tests want of a machine beyond Go and make.
const (
	Root        Want = "root"
	Cgroup      Want = "cgroup"      // cgroup v2, in which cgroups can be made that have cgroup.kill
	Controllers Want = "controllers" // of cgroup v2: memory, pids, cpu
	Namespaces  Want = "namespaces"  // a superuser who may make them, and mount
	Tools       Want = "tools"       // of a usual Debian: bash, util-linux, pseudo terminals, procps
	Kernel      Want = "kernel"      // what a usual kernel of these years has, and no filter forbids: sock_diag, IPv6, time namespaces
	Processes   Want = "processes"   // room for some thousand of them
	FUSE        Want = "fuse"
	Docker      Want = "docker" // an engine, in MCP_TETHER_TEST_ENGINE
	Podman      Want = "podman"
	NPM         Want = "npm" // node, and npm ci in e2e/npm
	Systemd     Want = "systemd"
	Chromium    Want = "chromium"
	Gateways    Want = "gateways" // npm ci in e2e/gateways
	User        Want = "a plain user"
	Host        Want = "host"     // the first pid namespace, with its usual limits
	OpenClaw    Want = "openclaw" // in MCP_TETHER_TEST_OPENCLAW
)

// Has is the environment variable in which a machine declares what it has: words with blanks between. What is declared must
// be there, so that no test is skipped by mistake.
const Has = "MCP_TETHER_HAS"

// Needs begins what a skipped test says.
const Needs = "this needs "

// SkipsVar names the file in which each test that is left out notes why, a line each. make tells them at the end.
const SkipsVar = "MCP_TETHER_SKIPS"

// skip leaves a test out.
func skip(t testing.TB, why string) {
	t.Helper()
	if f, err := os.OpenFile(os.Getenv(SkipsVar), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		_, _ = f.WriteString(why + "\n")
		_ = f.Close()
	}
	t.Skip(why)
}

// Need skips a test for which something is not there. It fails the test if the machine has declared that it is.
func Need(t testing.TB, wants ...Want) {
	t.Helper()
	for _, want := range wants {
		Lacks(t, want, !probe(want), "")
	}
}

// Lacks is Need for what only the test itself can find out: whether it lacks this, and what exactly.
func Lacks(t testing.TB, want Want, lacks bool, what string) {
	t.Helper()
	if !lacks {
		return
	}
	if what != "" {
		what = ": " + what
	}
	if slices.Contains(strings.Fields(os.Getenv(Has)), string(want)) {
		t.Fatalf("%s%s%s, and %s declares it", Needs, want, what, Has)
	}
	t.Logf("not here%s", what)
	skip(t, Needs+string(want))
}

// probe tells whether the machine has what can be asked for without a test.
func probe(want Want) bool {
	switch want {
	case Root:
		return os.Geteuid() == 0
	case User:
		return os.Geteuid() != 0
	case Cgroup:
		_, err := stage.WritableCgroup()
		return err == nil
	case Namespaces:
		return os.Geteuid() == 0 && mayMount()
	case Processes:
		return stage.Room() > 4096
	case Tools:
		return has("bash") && has("unshare") && has("nsenter") && has("setpriv") && has("prlimit")
	}
	return false
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// mayMount tries to make the namespaces, once.
var mayMount = sync.OnceValue(func() bool {
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	return cmd.Run() == nil
})

// What is left out for want of time.
const (
	// LeftOut is what a test says that is left out of a short run.
	LeftOut = "time (make test-all)"
	// LeftToProof is what a test says that only make proof runs.
	LeftToProof = "time and real software (make proof)"
)

// Long leaves a test out of a short run. A shorter test must look at the same thing as well, if only once.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		skip(t, LeftOut)
	}
}

// InProof is the environment variable that make proof sets.
const InProof = "MCP_TETHER_PROOF"

// Proof leaves a test to make proof.
func Proof(t testing.TB) {
	t.Helper()
	if os.Getenv(InProof) == "" {
		skip(t, LeftToProof)
	}
}

// Rounds is how often something random is tried: ten times as often in make proof, and a tenth in a short run, but once at
// least. MCP_TETHER_ROUNDS says it outright.
func Rounds(usual int) int {
	n, err := strconv.Atoi(os.Getenv("MCP_TETHER_ROUNDS"))
	switch {
	case err == nil:
		return n
	case os.Getenv(InProof) != "":
		return 10 * usual
	case testing.Short():
		return max(usual/10, 1)
	}
	return usual
}

// SkipAs skips a test because its other half, in the process that wrote this output, was skipped. It gives the same
// reason.
func SkipAs(t testing.TB, output string) {
	t.Helper()
	for line := range strings.Lines(output) {
		for _, reason := range []string{Needs, LeftOut, LeftToProof} {
			if _, rest, found := strings.Cut(line, reason); found {
				skip(t, reason+strings.TrimSpace(rest))
			}
		}
	}
	t.Fatal("it was skipped there, and does not say why")
}
