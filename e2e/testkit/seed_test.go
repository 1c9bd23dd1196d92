package testkit

import (
	"fmt"
	"testing"
)

// toldTest is a test whose words are kept.
type toldTest struct {
	testing.TB
	said string
}

func (t *toldTest) Logf(format string, args ...any) { t.said += fmt.Sprintf(format, args...) + "\n" }

// A seed is repeated by the variable that the test tells.
func TestSeedIsRepeated(t *testing.T) {
	t.Setenv(SeedVar, "")
	first, second := &toldTest{TB: t}, &toldTest{TB: t}
	seed := Seed(first)
	if want := fmt.Sprintf("MCP_TETHER_SEED=%d\n", seed); first.said != want || Seed(second) == seed {
		t.Errorf("it says %q, want %q, and another one the next time", first.said, want)
	}
	t.Setenv(SeedVar, fmt.Sprint(seed))
	if Seed(second) != seed {
		t.Errorf("%d is not repeated: %s", seed, second.said)
	}
}
