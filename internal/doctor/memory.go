package doctor

import (
	"github.com/shirou/gopsutil/v3/mem"

	"mcp-tether/internal/display"
)

// scarceDivisor gives the part of the memory, as a divisor, below which the kernel is close to killing processes.
const scarceDivisor = 10

// memory checks how much memory the machine has left: often nothing else shows leaked servers.
func memory() Check {
	m, err := mem.VirtualMemory()
	switch {
	case err != nil, m.Total == 0: // What cannot be read is 0 there.
		return poor(Warn, "memory", "mount -t proc proc on the directory that procfs belongs on", "it is not known how much there is")
	case m.Available < m.Total/scarceDivisor:
		return poor(Warn, "memory", "mcp-tether reap shows what leaked; mcp-tether ps shows what living sessions hold",
			"%s of %s are available", display.Size(m.Available), display.Size(m.Total))
	}
	return good("memory", "%s of %s are available", display.Size(m.Available), display.Size(m.Total))
}
