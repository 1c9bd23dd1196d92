package e2e

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/e2e/stage"
	"mcp-tether/e2e/testkit"
)

// findKin finds the descendants of roots, and the processes with the mark in their environment, and their descendants.
func findKin(mark string, roots ...int) []proc {
	isRoot := func(p proc) bool { return slices.Contains(roots, p.PID) }
	marked := slices.DeleteFunc(stage.Marked("E2E_FAMILY="+mark), isRoot)
	return append(marked, stage.Below(append(pidsOf(marked), roots...)...)...)
}

func pidsOf(all []proc) []int {
	pids := make([]int, len(all))
	for i, p := range all {
		pids[i] = p.PID
	}
	return pids
}

// endKin kills them and what they have started meanwhile.
func endKin(t *testing.T, family []proc) {
	t.Helper()
	for len(family) > 0 {
		late := stage.Below(pidsOf(family)...)
		for _, p := range family {
			_ = p.Signal(unix.SIGKILL) // it may have ended
		}
		if left := stage.Outlasting(testkit.Patience, family...); len(left) > 0 {
			t.Fatalf("cannot end %v", left)
		}
		family = late
	}
}
