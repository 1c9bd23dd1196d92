package teardown

import "mcp-tether/cgroup"

// keptLooks bounds the looks at what kept processes have started in the leaf meanwhile.
const keptLooks = 4

// RemoveLeaf moves the kept processes out of a leaf, and removes it: the kernel may need so many milliseconds to let go of it. A session
// that one of them has started loses its own leaf below.
func (k *Killer) RemoveLeaf(leaf *cgroup.Leaf, tries int) error {
	for range keptLooks {
		if populated, err := leaf.Populated(); err == nil && !populated {
			break
		}
		_, kept, _ := k.Members()
		for _, p := range kept {
			_ = leaf.Expel(p.PID) // A leaf that cannot be removed says so.
		}
		if len(kept) == 0 {
			break
		}
	}
	return leaf.RemoveSoon(tries)
}
