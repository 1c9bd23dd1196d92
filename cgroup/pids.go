package cgroup

import (
	"strconv"
	"strings"

	"mcp-tether/internal/kernel"
)

// Pids are how many processes and threads a cgroup has, and how many it may have. most is 0 where there is no limit, or
// none that can be read.
func Pids(dir string) (current, most int) {
	number := func(name string) int {
		b, err := kernel.Read(dir+"/"+name, nil)
		if err != nil {
			return 0
		}
		n, _ := strconv.Atoi(strings.TrimSpace(string(b))) // "max" is none
		return n
	}
	return number("pids.current"), number("pids.max")
}
