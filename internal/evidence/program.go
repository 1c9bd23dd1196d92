package evidence

import (
	"os"
	"strings"

	"mcp-tether/internal/proc"
)

// Program is the file that a process executes, without links; "" if it cannot be read. It may have been replaced since.
func Program(pid int) string {
	file, _ := os.Readlink(proc.Path(pid, "exe"))
	return strings.TrimSuffix(file, " (deleted)")
}
