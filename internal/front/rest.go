package front

import (
	"os"

	"mcp-tether/internal/proc"
)

// root is the process below which the backend is: we, or the host of a shared server. It is 0 for a host that has ended.
func (f *front) root() int {
	if !f.back.attached {
		return os.Getpid()
	}
	host := f.o.Finder.Host()
	if f.reader.Life(host) != proc.Alive {
		return 0
	}
	return host.PID
}
