package testkit

import (
	"testing"

	"mcp-tether/e2e/stage"
)

// Until looks until something is true that no event announces (stage.Until).
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	stage.Until(t, what, is)
}
