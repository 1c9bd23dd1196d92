package evidence

import (
	"os"

	"mcp-tether/internal/proc"
)

// Dir is the working directory of a process, without links; "" if it cannot be read.
func Dir(pid int) string {
	dir, _ := os.Readlink(proc.Path(pid, "cwd"))
	return dir
}
