package teardown

import (
	"mcp-tether/cgroup"
	"mcp-tether/internal/proc"
)

// expelLooks bounds the looks at what kept processes have started in the leaf meanwhile.
const expelLooks = 4

// Expel moves kept processes out of a leaf, so that it can be removed. They were listed before containers were removed, which takes
// long, and may have started others in the leaf since. While any process is left there, again lists what is kept now. A session that
// one of them has started loses its own leaf below.
func Expel(leaf *cgroup.Leaf, kept []proc.Stat, again func() []proc.Stat) {
	for n := 0; len(kept) > 0; n++ {
		for _, k := range kept {
			_ = leaf.Expel(k.PID) // A leaf that cannot be removed says so.
		}
		if populated, err := leaf.Populated(); err == nil && !populated || n == expelLooks {
			return
		}
		kept = again()
	}
}
