package testkit

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SeedVar is the environment variable that repeats the random choices of a test.
const SeedVar = "MCP_TETHER_SEED"

// Seed is the seed of a test's random choices: that of the variable, or a new one. The test tells of it, so that
// a failure can be repeated with it. The name of a case must not depend on it: a case that failed is run again by its name.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv(SeedVar), 10, 64)
	if err != nil {
		seed = rand.Uint64() //nolint:forbidigo // it is told
	}
	t.Logf("%s=%d", SeedVar, seed)
	return seed
}
