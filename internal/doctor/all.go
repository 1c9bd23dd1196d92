package doctor

import (
	"time"

	"mcp-tether/internal/proc"
)

// All makes every check but the one for leaks. runtime is as for machine.
func All(runtime string) []Check {
	all := inTime("program", "", func() []Check { return []Check{program()} })
	all = append(all, machine(runtime)...)
	all = append(all, inTime("engine", "", func() []Check {
		c, ok := askEngine()
		if !ok {
			return nil
		}
		return []Check{c}
	})...)
	return append(all, examineClients()...)
}

// limit is how long what concerns one thing may take. It is longer than an engine's time for both connection and answer.
const limit = 2*proc.EngineTime + time.Second

// inTime makes checks that may never end, for example at a file system that does not answer. file is what they read, ""
// if that is more than one file.
func inTime(about, file string, check func() []Check) []Check {
	var all []Check
	if proc.InTime(limit, func() { all = check() }) {
		return all
	}
	if file == "" {
		file = "a file"
	}
	return []Check{poor(Warn, about, "see which file system does not answer", "%s could not be read in time", file)}
}
