package teardown

import (
	"errors"

	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// expelLooks bounds the looks at what kept processes have started in the leaf meanwhile.
const expelLooks = 4

// Expel moves kept processes out of a leaf, so that it can be removed. They were listed before containers were removed, which takes
// long, and may have started others in the leaf since. If any process is left there, again lists what is kept now. inUse says that
// nothing is left there but kept processes in the leaf of another session below: so this one must stay.
func Expel(leaf *cgroup.Leaf, kept []proc.Stat, again func() []proc.Stat) (inUse bool) {
	for n := 0; len(kept) > 0; n++ {
		inUse = false
		for _, k := range kept {
			inUse = errors.Is(leaf.Expel(k.PID), cgroup.ErrOthers) || inUse
		}
		if populated, err := leaf.Populated(); err == nil && !populated || n == expelLooks {
			break
		}
		kept = again()
	}
	return inUse && leaf.OnlyOthers()
}
