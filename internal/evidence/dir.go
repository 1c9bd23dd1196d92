package evidence

import (
	"os"

	"mcp-tether/internal/proc"
)

// Dir is the working directory of a process, without links; "" if it cannot be read. It may be longer than what proc.Readlink
// reads.
func Dir(pid int) string {
	dir, _ := os.Readlink(proc.Path(pid, "cwd"))
	return dir
}
