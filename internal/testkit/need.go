package testkit

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"mcp-tether/internal/stage"
)

// Patience bounds every wait of a test.
const Patience = stage.Patience

// NoSkip is the environment variable that forbids skips, if it is not empty.
const NoSkip = "MCP_TETHER_NO_SKIP"

// What a skipped test says; scripts/test tells by these words why it was skipped.
const (
	// Needs begins what a test says that lacks something.
	Needs = "this needs "
	// LeftOut is what a test says that is left out of a short run.
	LeftOut = "time (make test-all)"
	// LeftToProof is what a test says that runs in make proof only.
	LeftToProof = "time and real software (make proof)"
)

// skipped tells whether any test of this process was skipped.
var skipped atomic.Bool

// Need skips a test that lacks something, unless skips are forbidden.
func Need(t testing.TB, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv(NoSkip) != "" {
		t.Fatalf("%s%s, and skips are forbidden", Needs, what)
	}
	skipped.Store(true)
	t.Skipf("%s%s", Needs, what)
}

// Long leaves a test out of a short run. A shorter test must look at the same thing as well, if only once.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		skipped.Store(true)
		t.Skip(LeftOut)
	}
}

// Proof leaves a test to make proof, which sets MCP_TETHER_PROOF: it wants software that not every machine has, or much time.
func Proof(t testing.TB) {
	t.Helper()
	if os.Getenv("MCP_TETHER_PROOF") == "" {
		skipped.Store(true)
		t.Skip(LeftToProof)
	}
}

// SkipAs skips a test because its other half, in the process that wrote this output, was skipped. It gives the same
// reason.
func SkipAs(t testing.TB, output string) {
	t.Helper()
	skipped.Store(true)
	for line := range strings.Lines(output) {
		for _, reason := range []string{Needs, LeftOut, LeftToProof} {
			if _, rest, found := strings.Cut(line, reason); found {
				t.Skip(reason + strings.TrimSpace(rest))
			}
		}
	}
	t.Fatal("it was skipped there, and does not say why")
}
