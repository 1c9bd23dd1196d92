//go:build !linux

package doctor

// Host says that sessions need Linux.
func Host(string) []Check {
	return []Check{poor(Fail, "kernel", "run servers on Linux", "mcp-tether run needs Linux")}
}
