package front

import (
	"os"
	"testing"

	"mcp-tether/e2e/testkit"
)

// The processes of a tree are told from those of our own by their program.
func TestTree(t *testing.T) {
	f := &front{}
	before, err := f.tree()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Kill(); _, _ = p.Wait() }()
	testkit.Until(t, "a member", func() bool {
		after, err := f.tree()
		return err == nil && len(after.members) == len(before.members)+1
	})
}
