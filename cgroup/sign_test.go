package cgroup

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"mcp-tether/internal/testkit"
)

func TestSign(t *testing.T) {
	l := newLeaf(t)
	if got := l.Signed(); got != "" {
		t.Errorf("before: %q", got)
	}
	err := unix.Setxattr(l.Dir, signature, []byte("x"), 0)
	testkit.Lacks(t, testkit.Kernel, errors.Is(err, unix.EOPNOTSUPP), "extended attributes of cgroups (Linux 5.7)")
	l.Sign("1:2:boot:3")
	if got := l.Signed(); got != "1:2:boot:3" {
		t.Errorf("after: %q", got)
	}
	var none *Leaf
	none.Sign("nobody")
}
